"""The mean accuracy under the six attacks, if they have the same protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from measure.attack_settings import SIX
from measure.measurement import Archive
from run_files import results
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from text.subjects import Subject, differences

_SAME = (
    *("checkpoint", "corpus", "samples", "split", "choice", "goal", "score", "compat"),
    *("query_budget", "budget_per_word", "attacked_columns"),
)
"""Settings that attacks must share before their mean is taken."""


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """The accuracy under one attack.

    Attributes:
        accuracy: share of the samples that are classified rightly under attack.
        samples: number of samples.
        clean: share of the same samples that are classified rightly; None if it is unknown.
        about: subject of the attack.
    """

    accuracy: float
    samples: int
    clean: float | None
    about: Mapping[str, Any]

    def protocol(self) -> dict[str, Any]:
        """Returns the settings that it must share with others."""
        return {"num_samples": self.samples, **{key: self.about.get(key) for key in _SAME}}


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over attacks, or the reason that there is none.

    Attributes:
        names: names of the attacks.
        value: the mean; None if there is none.
        clean: accuracy on the same samples without attack; None if it is unknown.
        samples: number of these samples.
        reason: the reason that there is none; empty if there is a mean, or no attack.
    """

    names: tuple[str, ...]
    value: float | None = None
    clean: float | None = None
    samples: int = 0
    reason: str = ""

    def metrics(self) -> dict[str, float]:
        """Returns the metrics for `results.json`."""
        if self.value is None:
            return {}
        clean = {} if self.clean is None else {"attack/mean_clean_accuracy": self.clean}
        return {
            "attack/mean_accuracy": self.value,
            "attack/mean_count": float(len(self.names)),
            "attack/mean_samples": float(self.samples),
            **clean,
        }

    def line(self) -> str:
        """Returns a line for people; an empty one for a single attack."""
        if len(self.names) < 2:
            return ""
        named = f"{len(self.names)} attacks ({', '.join(self.names)})"
        if self.value is None:
            return f"no mean accuracy under {named}: {self.reason}"
        return f"mean accuracy under {named}: {self.value:.3f}"


def mean_accuracy(attacks: Mapping[str, Attacked]) -> Mean:
    """Returns the mean accuracy under those of the six attacks that have run.

    Args:
        attacks: those with a reliable accuracy, by the names of their files.
    """
    names = tuple(name for name in SIX if name in attacks)
    if not names:
        return Mean(names=())
    one = attacks[names[0]]
    first = one.protocol()
    for name in names[1:]:
        other = differences(first, attacks[name].protocol())
        if other:
            reason = f"{names[0]} and {name} differ in {', '.join(other)}"
            return Mean(names=names, reason=reason)
    value = sum(attacks[name].accuracy for name in names) / len(names)
    return Mean(names=names, value=value, clean=one.clean, samples=one.samples)


def former(run: RunDirectory, stage: str, metrics: Mapping[str, float]) -> dict[str, Attacked]:
    """Returns those of the six attacks of which a run has reliable figures.

    Args:
        run: the run.
        stage: the attack that has just ended.
        metrics: its figures.
    """
    every = results.after(run.results(), stage, metrics)
    found = {}
    for name in SIX:
        accuracy = every.get(f"attack/{name}/accuracy")
        if accuracy is not None:
            found[name] = Attacked(
                accuracy=accuracy,
                samples=int(every.get(f"attack/{name}/samples") or 0),
                clean=every.get(f"attack/{name}/clean_accuracy"),
                about=attack_ledger(run, name).subject(),
            )
    return found


class MeanArchive:
    """Files the mean over the six attacks with the figures of each.

    Args:
        archive: of the run.

    Attributes:
        mean: over the attacks that are there.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.mean = Mean(names=())

    @property
    def files(self) -> RunDirectory:
        """The folder."""
        return self._archive.files

    def begin(self, stage: str) -> None:
        """Begin the figures of an attack."""
        self._archive.begin(stage)

    def admit(self, about: Subject) -> dict[str, Any]:
        """Return what `results.json` says of figures that are filed later."""
        return self._archive.admit(about)

    def file(
        self, stage: str, metrics: Mapping[str, float], seconds: float, about: Subject
    ) -> None:
        """Add the figures of an attack to `results.json`."""
        self.mean = mean_accuracy(former(self.files, stage, metrics))
        self._archive.file(stage, {**metrics, **self.mean.metrics()}, seconds, about)
