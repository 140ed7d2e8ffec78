"""Measurements that take the test split of a corpus batch by batch."""

import math
import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped] # ships no annotations

from datamodules import Example, TextDataModule
from datamodules.batching.examples import fingerprint
from lit_modules import TaskModule
from measure.measurement import Measurement, Record
from text import Batch
from text.subjects import Subject


@dataclass(frozen=True, kw_only=True)
class MeasuredSplit:
    """A test split as a command of the trainer measures it.

    Attributes:
        corpus: corpus with the split in memory; it shares its batches among processes.
        limit: batches of the split, or the share of them.
        settings: the checkpoint and the settings that the records depend on.
        evaluation: subject of the figures in `results.json`.
        stamp: fields that each record gets.
        bar: True to show progress.
    """

    corpus: TextDataModule
    limit: int | float = 1.0
    settings: Subject
    evaluation: Subject
    stamp: Mapping[str, Any]
    bar: bool = False


class BatchMeasurement(Measurement[Example]):
    """Measures a test split by its batches, with a model on its device."""

    elsewhere = None
    replaces = True

    def __init__(self, model: TaskModule, split: MeasuredSplit) -> None:
        self._model, self._split = model, split
        self.class_names = model.class_names or ()

    @abstractmethod
    def measure_batch(self, batch: Batch) -> Sequence[Record]:
        """Return the records of a batch, which is on the device of the model."""

    def subject(self) -> Subject:
        """Return checkpoint, settings and rows."""
        return {**self._split.settings, "samples": fingerprint(self.samples())}

    def about(self) -> Subject:
        """Return the subject of the figures in `results.json`."""
        return self._split.evaluation

    def stamp(self) -> Mapping[str, Any]:
        """Return the beginning of the digest of the weights."""
        return self._split.stamp

    def samples(self) -> Sequence[Example]:
        """Return the samples of the split."""
        return self._split.corpus.examples("test")

    def share(self, samples: Sequence[Example], rank: int, world: int) -> Sequence[Example]:
        """Return all samples: the loader of each process has its own batches."""
        del rank, world
        return samples

    def measure(self, samples: Sequence[Example]) -> Iterator[Sequence[Record]]:
        """Yield the records of each batch."""
        missing = {sample.sample_id for sample in samples}
        # The loader shares batches among processes, see `share`.
        loader = self._split.corpus.predict_dataloader()  # labels are not needed
        limit = self._split.limit
        count = limit if isinstance(limit, int) else math.floor(limit * len(loader))
        hidden = not self._split.bar or not sys.stderr.isatty()
        for batch in tqdm(islice(loader, count), self.stage, count, disable=hidden):
            # Always full batches: rounding depends on the other samples of a batch.
            if missing.intersection(batch.sample_ids.tolist()):
                yield self.measure_batch(batch.to(self._model.device))
