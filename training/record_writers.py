"""Writes outcomes of PGD and texts, one line per sample."""

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from typing_extensions import override

from lit_modules import TaskModule
from run_files.distributed import gather, gather_parts
from run_files.sample_records import Records
from text.subjects import Subject


class RecordWriter(pl.Callback):
    """Records a line for each sample of an evaluation.

    Args:
        records: file to which they go.
        subject: returns all that they depend on, after the corpus is set up; without it, records
            of a former start are not used.
    """

    def __init__(self, records: Records, subject: Callable[[], Subject] | None = None) -> None:
        self.records, self._subject = records, subject

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the file, and read the records of a former start."""
        # Only the first process knows the digest of the rows.
        subject, *_ = gather_parts(trainer, None if self._subject is None else self._subject())
        self.records.begin(trainer, subject=subject)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Merge the records of all processes."""
        # Before the means are computed: their collective operations have a shorter timeout. The
        # parts stay until the figures are filed.
        self.records.merge()

    on_predict_start, on_predict_end = on_test_start, on_test_epoch_end


class AttackWriter(RecordWriter):
    """Records the outcome of PGD for each sample of a test run; resumes after a kill."""

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the file, and give the module the records of a former start."""
        super().on_test_start(trainer, pl_module)
        assert isinstance(pl_module, TaskModule)  # no other module has attacks
        # Of all processes: their number may be another one than before.
        former = gather(trainer, self.records.known())
        pl_module.former_attacks = {record["sample_id"]: record for record in former}

    @override
    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Record the attacks on one batch."""
        columns = ("sample_ids", "labels", "prediction", "pgd_prediction", "survived")
        columns += tuple(name for name in outputs if name.startswith("survived@"))
        names = ("sample_id", "label", *columns[2:])
        rows = zip(*(outputs[column].tolist() for column in columns), strict=True)
        self.records.add(dict(zip(names, row, strict=True)) for row in rows)
