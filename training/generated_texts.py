"""Texts of a language model, written in Lightning's predict loop."""

from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
from torch.utils.data import DataLoader
from typing_extensions import override

from run_files.sample_records import Records
from training.record_writers import RecordWriter

BATCH = 64
"""Texts that are written together."""
_SHOWN = 10
"""Texts on the terminal; the file has all of them."""


class TextWriter(RecordWriter):
    """Records the `texts` that a predict run of a language model writes, in their order."""

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.texts: list[str] = []

    @override
    def on_predict_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Record the texts of one batch."""
        self.records.add(outputs)

    def on_predict_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Bring the texts of all processes together."""
        self.texts = [str(record["text"]) for record in self.records.merge()]

    @property
    def report(self) -> str:
        """The first texts, for the terminal."""
        more = len(self.texts) - _SHOWN
        return "\n".join(self.texts[:_SHOWN]) + (f"\n... and {more} more" if more > 0 else "")


class Numbers(pl.LightningDataModule):
    """A data module without a corpus: it numbers the texts that each process writes.

    `corpus` is the name of the one that the model was trained on.
    """

    def __init__(self, corpus: str, number: int) -> None:
        super().__init__()
        self.corpus, self.number = corpus, number

    def predict_dataloader(self) -> DataLoader[Sequence[int]]:
        """Return lists of text numbers, one list per batch."""
        world, rank = 1, 0
        if self.trainer is not None:
            world, rank = self.trainer.world_size, self.trainer.global_rank
        # All processes must run the loop: one without a text writes text 0 again.
        mine = list(range(rank, self.number, world)) or [0]
        parts = [mine[start : start + BATCH] for start in range(0, len(mine), BATCH)]
        return DataLoader(parts, batch_size=None)  # type: ignore[arg-type] # a list will do
