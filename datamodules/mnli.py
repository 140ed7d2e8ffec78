"""MNLI: whether one sentence follows from another, in ten genres."""

from typing import ClassVar, Literal

from datamodules.labelled import Split, TextDataModule


class MNLI(TextDataModule):
    """Multi-Genre Natural Language Inference (Williams, Nangia & Bowman 2018), as in GLUE.

    392,702 pairs to train; to validate 9,815 of the genres trained on (`validation_matched`) and
    9,832 of others (`validation_mismatched`). GLUE publishes the test pairs without labels: one of
    the two validation splits is tested on, as in papers that report on the "MNLI dev" sets. The
    matched one validates.

    Args:
        tested: the validation split that is tested on: `matched` or `mismatched`.
        data_dir: folder DIR with `mnli/train`, `mnli/validation_matched` and
            `mnli/validation_mismatched`, `.<jsonl|tsv|csv|parquet>[.gz]`: columns `premise`,
            `hypothesis` and `label` (entailment, neutral, contradiction). Absent files come from
            the hub (nyu-mll/glue, mnli).
        batch_size: training texts per batch and process.
        eval_batch_size: texts per batch and process in validation, test and prediction.
        num_workers: processes that assemble batches; texts are encoded before, so 0 is fast.
        pin_memory: keep batches in page-locked memory, which speeds up copies to a GPU.
        on_bad_row: rows that cannot be used (broken encoding, missing field, empty text, unknown
            label): `stop` the run naming them, or `skip` them and report how many.
        seed: of the order of training batches; that of `seed_everything` if not given.
        limit_train: train on this many texts only, chosen by the seed; all if not given.
    """

    corpus = "mnli"
    classes: ClassVar[tuple[str, ...]] = ("entailment", "neutral", "contradiction")
    text_columns = ("premise", "hypothesis")
    hub_id = "nyu-mll/glue"
    hub_config = "mnli"

    def __init__(
        self,
        *,
        tested: Literal["matched", "mismatched"] = "matched",
        data_dir: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        pin_memory: bool = False,
        on_bad_row: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
        limit_train: int | None = None,
    ) -> None:
        super().__init__(
            data_dir=data_dir,
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            pin_memory=pin_memory,
            on_bad_row=on_bad_row,
            seed=seed,
            limit_train=limit_train,
        )
        if tested not in ("matched", "mismatched"):
            msg = f"got {tested=}, expected 'matched' or 'mismatched'"
            raise ValueError(msg)
        self.tested = tested

    def _parts(self, split: Split) -> tuple[str, ...]:
        if split == "train":
            return ("train",)
        return (f"validation_{self.tested if split == 'test' else 'matched'}",)
