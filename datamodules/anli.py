"""ANLI: inference on pairs that were written to mislead models, in three rounds."""

from typing import Any, ClassVar, Literal

from datamodules.labelled import Split, TextDataModule

_ROUNDS = (1, 2, 3)


class ANLI(TextDataModule):
    """Adversarial NLI (Nie et al. 2020): the pairs of some of its rounds, one after the other.

    Rounds 1, 2 and 3 have 16,946, 45,460 and 100,459 pairs to train, and 1,000, 1,000 and 1,200
    each to validate and to test.

    Args:
        rounds: rounds that are read, for all splits; all three if not given.
        tested: the split that is tested on; `validation` is for folders without test files, and a
            report must name it.
        data_dir: folder DIR with `anli/<split>_r<round>.<jsonl|tsv|csv|parquet>[.gz]`: columns
            `premise`, `hypothesis` and `label` (entailment, neutral, contradiction). Absent files
            come from the hub (facebook/anli).
        base: settings of `TextDataModule`.
    """

    corpus = "anli"
    classes: ClassVar[tuple[str, ...]] = ("entailment", "neutral", "contradiction")
    text_columns = ("premise", "hypothesis")
    hub_id = "facebook/anli"

    def __init__(
        self,
        *,
        rounds: list[int] | None = None,
        tested: Literal["test", "validation"] = "test",
        data_dir: str | None = None,
        **base: Any,
    ) -> None:
        super().__init__(data_dir=data_dir, **base)
        self.rounds = list(_ROUNDS if rounds is None else rounds)
        chosen = set(self.rounds)
        if not chosen or len(chosen) < len(self.rounds) or not chosen <= set(_ROUNDS):
            msg = f"got {rounds=}, expected some of 1, 2 and 3, each once"
            raise ValueError(msg)
        if tested not in ("test", "validation"):
            msg = f"got {tested=}, expected 'test' or 'validation'"
            raise ValueError(msg)
        self.tested = tested

    def _parts(self, split: Split) -> tuple[str, ...]:
        name = self.tested if split == "test" else split
        return tuple(f"{name}_r{number}" for number in self.rounds)

    def _hub_name(self, part: str) -> str:
        return part.replace("validation", "dev")
