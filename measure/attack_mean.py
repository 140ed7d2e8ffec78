"""Combine the accuracies under the six attacks, if they have the same protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attacks.outcome import from_line
from attacks.recipes import SIX
from measure.measurement import Archive
from run_files import results
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from text.subjects import Subject, differences

_SAME = (
    *("checkpoint", "corpus", "samples", "split", "choice", "goal", "score", "compat"),
    *("query_budget", "budget_per_word", "attacked_columns"),
    *("positive", "threshold", "delta", "threat"),
)
"""Settings that attacks must share to be averaged."""


@dataclass(frozen=True, kw_only=True)
class AttackAccuracy:
    """The accuracy under one attack.

    Attributes:
        accuracy: accuracy under attack.
        samples: number of samples.
        clean: clean accuracy on the same samples; None if it is unknown.
        subject: subject of the attack.
        correct: by sample id, True if the sample is classified correctly under attack; empty if
            the records are gone.
    """

    accuracy: float
    samples: int
    clean: float | None
    subject: Mapping[str, Any]
    correct: Mapping[int, bool] = field(default_factory=dict)

    def protocol(self) -> dict[str, Any]:
        """Return the settings that it must share with the other attacks."""
        return {"num_samples": self.samples, **{key: self.subject.get(key) for key in _SAME}}


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over attacks, or the reason why there is none.

    Attributes:
        names: names of the attacks.
        value: the mean, or None.
        worst: share of the samples that are classified correctly under all of them; None without
            the records of the same samples.
        clean: accuracy on the same samples without attack; None if it is unknown.
        samples: number of these samples.
        reason: reason of a missing mean; empty without any attack.
    """

    names: tuple[str, ...]
    value: float | None = None
    worst: float | None = None
    clean: float | None = None
    samples: int = 0
    reason: str = ""

    def metrics(self) -> dict[str, float]:
        """Return the metrics for `results.json`."""
        if self.value is None:
            return {}
        clean = {} if self.clean is None else {"attack/mean_clean_accuracy": self.clean}
        worst = {} if self.worst is None else {"attack/worst_accuracy": self.worst}
        return {
            "attack/mean_accuracy": self.value,
            "attack/mean_count": float(len(self.names)),
            "attack/mean_samples": float(self.samples),
            **clean,
            **worst,
        }

    def line(self) -> str:
        """Return a line to print; it is empty for a single attack."""
        if len(self.names) < 2:
            return ""
        named = f"{len(self.names)} attacks ({', '.join(self.names)})"
        if self.value is None:
            return f"no mean accuracy under {named}: {self.reason}"
        worst = (
            ""
            if self.worst is None
            else f", under the worst of them for each text: {self.worst:.3f}"
        )
        return f"mean accuracy under {named}: {self.value:.3f}{worst}"


def mean_accuracy(attacks: Mapping[str, AttackAccuracy]) -> Mean:
    """Return the mean accuracy under the six attacks, or those of them that have run reliably."""
    names = tuple(name for name in SIX if name in attacks)
    if not names:
        return Mean(names=())
    baseline = attacks[names[0]]
    for name in names[1:]:
        # A mean over other samples or budgets would compare nothing.
        if changes := differences(baseline.protocol(), attacks[name].protocol()):
            reason = f"{names[0]} and {name} differ in {', '.join(map(str, changes))}"
            return Mean(names=names, reason=reason)
    value = sum(attacks[name].accuracy for name in names) / len(names)
    corrects = [attacks[name].correct for name in names]
    worst = None
    # Samples with an error are in no record here, and may differ.
    if baseline.correct and all(c.keys() == baseline.correct.keys() for c in corrects):
        survivors = sum(all(c[sample] for c in corrects) for sample in baseline.correct)
        worst = survivors / len(baseline.correct)
    return Mean(
        names=names, value=value, worst=worst, clean=baseline.clean, samples=baseline.samples
    )


def read_accuracies(
    run: RunDirectory, stage: str, metrics: Mapping[str, float]
) -> dict[str, AttackAccuracy]:
    """Return the reliable accuracies of a run under the six attacks.

    `metrics` are the figures of `stage`, the attack that has just ended: `results.json` lacks them.
    """
    # As after the filing of this stage: the former mean is dropped.
    metrics_after = results.after(run.results(), stage, metrics)
    accuracies = {}
    for name in SIX:
        accuracy = metrics_after.get(f"attack/{name}/accuracy")
        # An unreliable accuracy has another name, `unreliable_accuracy`.
        if accuracy is not None:
            accuracies[name] = AttackAccuracy(
                accuracy=accuracy,
                samples=int(metrics_after.get(f"attack/{name}/samples") or 0),
                clean=metrics_after.get(f"attack/{name}/clean_accuracy"),
                subject=attack_ledger(run, name).subject(),
                correct=_read_correct(run, name),
            )
    return accuracies


def _read_correct(run: RunDirectory, name: str) -> dict[int, bool]:
    """Return the samples of an attack that have no error: True where it has failed."""
    records = (from_line(line) for line in attack_ledger(run, name).records())
    return {
        record.sample_id: record.right and record.outcome != "succeeded"
        for record in records
        if record.outcome != "error"
    }


class MeanArchive:
    """An archive that also files the mean over the six attacks with the figures of each.

    `mean` is that after the latest attack.
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

    def admit(self, subject: Subject) -> dict[str, Any]:
        """Return the subject in `results.json`, for figures that are filed later."""
        return self._archive.admit(subject)

    def file(
        self, stage: str, metrics: Mapping[str, float], seconds: float, subject: Subject
    ) -> None:
        """Add the figures of an attack to `results.json`."""
        # Before the filing: both go to `results.json` in one step.
        self.mean = mean_accuracy(read_accuracies(self.files, stage, metrics))
        self._archive.file(stage, {**metrics, **self.mean.metrics()}, seconds, subject)
