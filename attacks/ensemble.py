"""Several attacks on each text, one after the other, until one succeeds.

The accuracy under an ensemble is the share of the texts that withstand all of its attacks: the
least favourable of them counts for each text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from attacks.composition import Attack
from attacks.engine import Engine
from attacks.goals import Unchanged, Unsure
from attacks.outcome import AttackRecord, Sample
from attacks.recipes import WORST
from attacks.victims.kinds import InvalidAnswers, Victim


class Ensemble:
    """Attacks samples by several attacks, each only those on which the ones before it have failed.

    It has the members of `Engine` that a measurement uses. Each attack makes the same records as if
    it were alone, as a record does not depend on the other samples.

    Args:
        engines: of the attacks in the order in which they are tried, all with the same victim.

    Attributes:
        answered: see `Engine`.

    Raises:
        ValueError: an attack succeeds where the prediction stays.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        for engine in engines:
            # It would also skip texts that others attack.
            if isinstance(engine.attack.goal, Unchanged | Unsure):
                msg = (
                    f"got {engine.attack.name} in {WORST}, which keeps the prediction, expected "
                    "attacks that change it"
                )
                raise ValueError(msg)
        self._engines = list(engines)
        self.answered = False

    @property
    def attack(self) -> Attack:
        """The first attack; all have its goal."""
        return self._engines[0].attack

    @property
    def victim(self) -> Victim:
        """The classifier that is attacked."""
        return self._engines[0].victim

    @victim.setter
    def victim(self, victim: Victim) -> None:
        for engine in self._engines:
            engine.victim = victim

    def run(self, samples: Iterable[Sample]) -> Iterator[AttackRecord]:
        """Attack all samples; see `Engine.run`."""
        source, errors = iter(samples), list[AttackRecord]()
        # A kill loses the samples in flight, as with one attack.
        while chunk := list(islice(source, self._engines[0].limits.in_flight)):
            for record in self._run(chunk):
                self.answered = self.answered or record.prediction is not None
                errors.append(record)
                # Records of errors wait until the victim has given one valid answer.
                if self.answered:
                    yield from errors
                    errors = []
        if errors:
            reasons = {record.text: str(record.reason) for record in errors}
            msg = f"victim {self.victim.name}: {errors[0].reason}"
            raise InvalidAnswers(msg, reasons)

    def about(self) -> dict[str, Any]:
        """Describe all that the records depend on, but for the samples."""
        names = [engine.attack.name for engine in self._engines]
        parts = {
            f"{name}.{key}": value
            for name, engine in zip(names, self._engines, strict=True)
            for key, value in engine.about().items()
        }
        return {"recipes": names, **parts}

    def find_contradiction(self, records: Iterable[AttackRecord]) -> str | None:
        """See `Engine.find_contradiction`."""
        return self._engines[0].find_contradiction(records)

    def _run(self, samples: Sequence[Sample]) -> Iterator[AttackRecord]:
        remaining, former = list(samples), dict[int, AttackRecord]()
        for engine in self._engines:
            engine.answered = True  # `run` has all its records of errors
            left = []
            for record in engine.run(remaining):
                joined = _join(former.get(record.sample_id), record, engine.attack.name)
                former[record.sample_id] = joined
                if record.outcome in ("succeeded", "skipped"):
                    yield former.pop(record.sample_id)
                else:
                    left.append(record.sample_id)
            remaining = [sample for sample in remaining if sample.sample_id in left]
        yield from former.values()


def engine_of(attacks: Sequence[Attack], victim: Victim, **options: Any) -> Engine | Ensemble:
    """Return the engine of an attack, or of an ensemble of several; options are those of `Engine`.

    Raises:
        ValueError: see `Ensemble`.
    """
    engines = [Engine(attack, victim, **options) for attack in attacks]
    return engines[0] if len(engines) == 1 else Ensemble(engines)


def _join(former: AttackRecord | None, latest: AttackRecord, recipe: str) -> AttackRecord:
    """Return the record of a sample after one more attack: the success, or the nearest failure.

    Queries and seconds add up, the clean text once for each attack.
    """
    latest = replace(latest, recipe=recipe)
    if former is None:
        return latest
    kept = latest
    # An invalid answer to one of the attacks leaves the sample out, unless another one succeeds.
    if latest.outcome != "succeeded" and (
        former.outcome == "error"
        or (
            latest.outcome != "error"
            and (former.adversarial_score or 0) >= (latest.adversarial_score or 0)
        )
    ):
        kept = former
    return replace(
        kept,
        queries=former.queries + latest.queries,
        unique_queries=former.unique_queries + latest.unique_queries,
        candidates=(former.candidates or 0) + (latest.candidates or 0),
        exhausted=kept.outcome != "succeeded" and (former.exhausted or latest.exhausted),
        seconds=round(former.seconds + latest.seconds, 6),
    )
