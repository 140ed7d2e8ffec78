"""The contract of every measurement of a model, sample by sample."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from run_files.run_directory import RunDirectory
from text.subjects import Subject

Record = dict[str, Any]
"""A JSON object with an integer `sample_id`."""


class Numbered(Protocol):
    """A sample."""

    @property
    def sample_id(self) -> int:
        """Position in the split."""


Sample = TypeVar("Sample", bound=Numbered)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The outcome of a measurement.

    Attributes:
        records: one for each sample, in the order of their ids.
        seconds: working time of all starts.
        total: number of samples of the measurement; a shard has fewer records.
    """

    records: Sequence[Record]
    seconds: float
    total: int


class Measurement(ABC, Generic[Sample]):
    """One kind of measurement of one model.

    A subclass defines the subject of its records and makes them. `measure.runner` does the rest: it
    compares subjects, resumes, shares the samples among processes and files the outcome.

    Attributes:
        stage: name of the figures in `results.json`, and prefix of their names.
        file: file of the records in the run directory.
        elsewhere: advice how to file the outcome apart from one about another subject; None if it
            replaces any other one, finished or not.
        replaces: True if a finished outcome is always measured again.
        class_names: names that the records get next to the indices of classes.
        alive: function to call now and then between two records; it tells the other processes that
            this one works. The runner sets it.
    """

    stage: str
    file: str
    elsewhere: str | None
    replaces: bool = False
    class_names: Sequence[str] = ()
    alive: Callable[[], None] = staticmethod(lambda: None)

    @abstractmethod
    def subject(self) -> Subject:
        """Return all that a record depends on, except its sample."""

    @abstractmethod
    def samples(self) -> Sequence[Sample]:
        """Return all samples."""

    def share(self, samples: Sequence[Sample], rank: int, world: int) -> Sequence[Sample]:
        """Return the samples of one of several processes."""
        # Interleaved: neighbours in a sorted corpus have similar costs.
        return samples[rank::world]

    @abstractmethod
    def measure(self, samples: Sequence[Sample]) -> Iterator[Sequence[Record]]:
        """Yield the records of samples without one as soon as they are ready, in any order."""

    @abstractmethod
    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return flat names and numbers for `results.json`, without the prefix of the stage."""

    def objection(self, records: Sequence[Record]) -> str | None:
        """Return the reason to reject records, of the same subject, of a former start, if any."""
        # The default accepts all records.
        del records
        return None

    def about(self) -> Subject:
        """Return the subject of the figures in `results.json`."""
        return self.subject()

    def stamp(self) -> Mapping[str, Any]:
        """Return the fields that tie each record to its subject."""
        return {}

    def summary(self, records: Sequence[Record]) -> Any:
        """Return the figures in the form of the ledger."""
        return self.figures(records)

    def shard_facts(self) -> Mapping[str, Any]:
        """Return the facts that are necessary to file all shards without the model."""
        msg = f"got a shard of {self.stage}, expected a measurement that is never divided"
        raise ValueError(msg)

    def write(self, files: RunDirectory, outcome: Measured) -> None:
        """Write pages and pictures, after the records and before the figures."""


class Archive(Protocol):
    """The destination of an outcome: a run, or a folder of a model from elsewhere."""

    @property
    def files(self) -> RunDirectory:
        """The folder."""

    def begin(self, stage: str) -> None:
        """Begin the figures of a stage."""

    def admit(self, subject: Subject) -> dict[str, Any]:
        """Return the subject in `results.json`, for figures that are filed with all shards."""

    def file(
        self, stage: str, metrics: Mapping[str, float], seconds: float, subject: Subject
    ) -> None:
        """Add the figures of a stage to `results.json`."""
