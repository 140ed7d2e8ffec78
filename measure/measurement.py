"""The contract of everything that is measured of a model, sample by sample."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

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
        total: samples of the measurement; more than there are records if this is one shard of it.
    """

    records: Sequence[Record]
    seconds: float
    total: int


class Measurement(ABC, Generic[Sample]):
    """Measures one thing of one model.

    A subclass says what its records are about and how to make them. `measure.runner` does the
    rest: it compares subjects, resumes, shares the samples among processes and files the outcome.

    Attributes:
        stage: name of the figures in `results.json`, and prefix of their names.
        file: file of the records in the run directory.
        elsewhere: how a user files an outcome apart from one about another subject; None where it
            takes the place of any other, finished or not.
        replaces: True if it is measured anew once it is finished, whatever its subject.
        class_names: names that the records get next to the indices of classes.
        alive: to be called now and then while no record is made; the runner sets it. It tells the
            other processes that this one works.
    """

    stage: str
    file: str
    elsewhere: str | None
    replaces: ClassVar[bool] = False
    class_names: Sequence[str] = ()
    alive: Callable[[], None] = staticmethod(lambda: None)

    @abstractmethod
    def subject(self) -> Subject:
        """Return all that a record depends on, but for its sample."""

    @abstractmethod
    def samples(self) -> Sequence[Sample]:
        """Return all samples."""

    def share(self, samples: Sequence[Sample], rank: int, world: int) -> Sequence[Sample]:
        """Return the samples that one of several processes measures."""
        return samples[rank::world]

    @abstractmethod
    def measure(self, samples: Sequence[Sample]) -> Iterator[Sequence[Record]]:
        """Yield the records of samples as soon as they are known, in any order.

        Args:
            samples: those without a record, of this process.
        """

    @abstractmethod
    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return flat names and numbers for `results.json`, without the prefix of the stage."""

    def objection(self, records: Sequence[Record]) -> str | None:
        """Return why records of a former start cannot be kept; None if they can.

        Args:
            records: of the same subject.
        """
        del records
        return None

    def about(self) -> Subject:
        """Return what `results.json` says of the figures."""
        return self.subject()

    def stamp(self) -> Mapping[str, Any]:
        """Return what each record says of its subject."""
        return {}

    def summary(self, records: Sequence[Record]) -> Any:
        """Return the figures as the ledger keeps them."""
        return self.figures(records)

    def shard_facts(self) -> Mapping[str, Any]:
        """Return what has to be known to file all shards without the model."""
        msg = f"got a shard of {self.stage}, expected a measurement that is never divided"
        raise ValueError(msg)

    def write(self, files: RunDirectory, outcome: Measured) -> None:
        """Write pages, pictures and the like, after the records and before the figures."""


class Archive(Protocol):
    """The place where an outcome is filed: a run, or a folder of a model from elsewhere."""

    @property
    def files(self) -> RunDirectory:
        """The folder."""

    def begin(self, stage: str) -> None:
        """Begin the figures of a stage."""

    def admit(self, about: Subject) -> dict[str, Any]:
        """Return what `results.json` says of figures that are filed later, with other shards."""

    def file(
        self, stage: str, metrics: Mapping[str, float], seconds: float, about: Subject
    ) -> None:
        """Add the figures of a stage to `results.json`."""
