"""MNLI: whether one sentence follows from another, in ten genres."""

from typing import Any, ClassVar, Literal

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
        base: settings of `TextDataModule`.
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
        **base: Any,
    ) -> None:
        super().__init__(data_dir=data_dir, **base)
        if tested not in ("matched", "mismatched"):
            msg = f"got {tested=}, expected 'matched' or 'mismatched'"
            raise ValueError(msg)
        self.tested = tested

    def _parts(self, split: Split) -> tuple[str, ...]:
        if split == "train":
            return ("train",)
        return (f"validation_{self.tested if split == 'test' else 'matched'}",)
