"""A gate: limits on the errors of a classifier, and on how often attacks change its predictions.

Nothing is stored and nothing is reused: each start measures the classifier as it is now. The same
classifier, data, settings and seed give the same outcome, unless the seconds run out.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from attacks.digests import content_digest
from attacks.engine import VERSION, Limits
from attacks.ensemble import engine_of
from attacks.fingerprint import describe, flat
from attacks.goals import Floats, top_margins
from attacks.outcome import AttackRecord, Sample
from attacks.paired_shares import PairedShares
from attacks.recipes import recipe_names
from attacks.summary import TOLERATED, is_blind
from attacks.victims.kinds import InvalidAnswers, Victim, VictimError
from attacks.victims.labels_only import check_search
from attacks.victims.threshold_victim import ThresholdVictim
from certify.threats import TextCertifier, Threat
from datamodules.batching.sampler import permutation
from measure.attack_settings import AttackPlan, AttackSettings, check_attacks, plan
from measure.corpus_split import CHOICE
from measure.labelled_predictions import Predictions
from text import Text, check_range
from text.estimates import IntervalEstimate, wilson
from text.plural import plural

CHEAP = ("deepwordbug", "append-benign", "unicode", "spacing", "leetspeak", "case")
"""Recipes of a gate by default, as far as they exist: they need no resources."""
CLEAN_ONLY = "it was neither attacked nor certified: only clean texts were checked"
EXAMPLES = 3
"""Worst texts of a criterion."""
_BATCH = 256
"""Texts of one question."""
_TIMED_BATCH = 64
"""The same if the seconds are limited: the clock is read between questions."""
_IN_FLIGHT = 32
"""Texts that are attacked together: fewer than elsewhere, so that some end when the time is up."""

Status = Literal["holds", "fails", "not checked", "no limit"]


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """Settings of the command `check`.

    Attributes:
        min_accuracy: least share of right predictions.
        min_recall: least share of the texts of the positive class that are detected.
        max_false_alarms: largest share of the other texts that get the positive class.
        max_flip_rate: largest share of right predictions that a recipe changes; with a positive
            class, of its detected texts. It counts for each recipe alone.
        min_certified: least share of texts with a right prediction that is certified for `threat`;
            with a positive class, of its texts.
        positive: the positive class; that of the model's detector if not given.
        threshold: least probability of the positive class at which a model from elsewhere detects;
            its largest probability decides if null.
        recipes: attacks with commas between; NAME=LIMIT has a limit of its own. By default all of
            CHEAP that exist.
        threat: changes of the certificate, as of `certify --threat`.
        k: number of these changes, or all; the most that the threat allows if not given, else 1.
        num_samples: texts that each recipe attacks, drawn by a fixed permutation; all if null.
        decide: share: the measured share decides. interval: a limit holds only if the whole 95 %
            interval is on its right side, which few texts cannot show.
        seconds: time for all questions to the model. Texts that are not reached count against the
            limit.
        allow_unchecked: texts that are not reached do not count.
        query_budget: texts that an attack may ask the model about for one text.
        resources: folder of the resources of recipes and threats.
        seed: seed of random replacements.
    """

    min_accuracy: float | None = None
    min_recall: float | None = None
    max_false_alarms: float | None = None
    max_flip_rate: float | None = None
    min_certified: float | None = None
    positive: str | None = None
    threshold: float | None = None
    recipes: str | None = None
    threat: str | None = None
    k: str | None = None
    num_samples: int | None = 200
    decide: Literal["share", "interval"] = "share"
    seconds: float | None = None
    allow_unchecked: bool = False
    query_budget: int | None = None
    resources: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the settings that do not depend on the model.

        Raises:
            ValueError: a number out of its range, an unknown recipe, or a limit without threat.
        """
        shares = ("min_accuracy", "min_recall", "max_false_alarms", "max_flip_rate")
        limits = {name: getattr(self, name) for name in (*shares, "min_certified")}
        check_range(limits, least=0, most=1)
        check_range({"num_samples": self.num_samples}, least=1)
        check_range({"seconds": self.seconds}, above=0)
        check_range({"threshold": self.threshold}, above=0, below=1)
        if (self.min_certified is None) != (self.threat is None):
            msg = (
                f"got --min_certified {self.min_certified} and --threat {self.threat}, expected "
                "both or none: a certificate is about certain changes, such as typos"
            )
            raise ValueError(msg)
        for name, limit in self.recipe_limits().items():
            check_range({f"recipes {name}": limit}, least=0, most=1)
            check_attacks(self.attack(name))

    @property
    def limited(self) -> bool:
        """True if there is a limit."""
        own = self.recipe_limits().values() if self.recipes else ()
        shares = (self.min_accuracy, self.min_recall, self.max_false_alarms)
        limits = (*shares, self.max_flip_rate, self.min_certified, *own)
        return any(limit is not None for limit in limits)

    def attack(self, recipe: str) -> AttackSettings:
        """Return the settings of an attack by a recipe."""
        return AttackSettings(
            recipe=recipe, seed=self.seed, query_budget=self.query_budget, resources=self.resources
        )

    def recipe_limits(self) -> dict[str, float | None]:
        """Return the largest flip rate of each recipe; None where only a baseline counts.

        Raises:
            ValueError: a limit that is not a number, or two of one recipe.
        """
        if self.recipes is None:
            existing = recipe_names()
            names = [name for name in CHEAP if name in existing]
            return dict.fromkeys(names, self.max_flip_rate)
        limits: dict[str, float | None] = {}
        for part in self.recipes.split(","):
            name, equals, value = map(str.strip, part.partition("="))
            if name in limits:
                msg = f"got --recipes with {name} twice, expected each once"
                raise ValueError(msg)
            try:
                limits[name] = float(value) if equals else self.max_flip_rate
            except ValueError as error:
                msg = f"got --recipes {part.strip()}, expected NAME or NAME=LIMIT, such as 0.05"
                raise ValueError(msg) from error
        return limits


# The help of the command line shows this text; `python -OO` removes it.
if GateSettings.__doc__:
    GateSettings.__doc__ = GateSettings.__doc__.replace("CHEAP", ", ".join(CHEAP))


class GateExample(NamedTuple):
    """A text that counts against a limit.

    Attributes:
        sample_id: its number in the data.
        text: the text.
        changed: what an attack made of it; None if no attack did.
        label: index of its class.
        prediction: index of the prediction of `changed`, or else of `text`.
    """

    sample_id: int
    text: Text
    changed: Text | None
    label: int
    prediction: int | None


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A share, its limit, and the outcome of each text.

    Attributes:
        name: stable name, such as `recall` or `flip_rate/deepwordbug`.
        meaning: of what the share is.
        limit: the limit; None if there is none.
        least: True if the share must be at least the limit, False if at most.
        outcomes: by the number of the text, True if it counts for the share.
        total: texts that the share is about; more than `outcomes` if the time was up.
        reason: the reason why texts were not checked; "" if all were.
        examples: texts that count against the limit, the worst first.
        void: the reason why the share means nothing; "" if it does.
        change: comparison with the baseline: of the texts that count for the limit.
        subject: digest of the attack; "" without one.
        lost: True if the baseline has texts of it, of which none was checked now.
    """

    name: str
    meaning: str
    limit: float | None
    least: bool
    outcomes: Mapping[int, bool]
    total: int
    reason: str = ""
    examples: Sequence[GateExample] = ()
    void: str = ""
    change: PairedShares | None = None
    subject: str = ""
    lost: bool = False

    @property
    def hits(self) -> int:
        """Number of texts that count for the share."""
        return sum(self.outcomes.values())

    @property
    def share(self) -> IntervalEstimate | None:
        """The share of the checked texts; None without any."""
        return wilson(self.hits, len(self.outcomes)) if self.outcomes else None

    @property
    def unchecked(self) -> int:
        """Number of texts that were not checked."""
        return self.total - len(self.outcomes)

    @property
    def bound(self) -> str:
        """The limit in words."""
        return "" if self.limit is None else f"{'>=' if self.least else '<='} {self.limit:g}"

    @property
    def regressed(self) -> bool:
        """True if it is worse than the baseline, by the full interval of the difference."""
        return self.change is not None and self.change.difference.high < 0

    @property
    def close(self) -> bool:
        """True if the limit is inside the interval of the share."""
        share = self.share
        return self.limit is not None and share is not None and share.low < self.limit < share.high


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """The outcome of a gate.

    Attributes:
        victim: name of the classifier.
        data: name of the data.
        classes: classes of the classifier.
        criteria: the criteria, in the order of their measurement.
        settings: the settings.
        subject: data and settings, which a baseline must share.
        cautions: sentences that belong next to the figures.
        seconds: duration of everything.
        victim_seconds: the part of it in the classifier.
        own_seconds: processor time outside of the classifier.
    """

    victim: str
    data: str
    classes: Sequence[str]
    criteria: Sequence[Criterion]
    settings: GateSettings
    subject: Mapping[str, Any]
    cautions: Sequence[str] = ()
    seconds: float = 0.0
    victim_seconds: float = 0.0
    own_seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """True if no criterion fails, and none with a limit is unchecked unless that is allowed."""
        statuses = {self.status(criterion) for criterion in self.criteria}
        return "fails" not in statuses and (
            self.settings.allow_unchecked or "not checked" not in statuses
        )

    def status(self, criterion: Criterion) -> Status:
        """Return the status of a criterion.

        A text that was not checked counts neither for nor against: the limit holds or fails only if
        it does so whatever these texts would give.
        """
        if criterion.regressed or (criterion.void and criterion.limit is not None):
            return "fails"
        limit = criterion.limit
        if limit is None:
            return "not checked" if criterion.lost else "no limit"
        total = len(criterion.outcomes) if self.settings.allow_unchecked else criterion.total
        if not criterion.outcomes or not total:
            return "not checked"
        # Each unchecked text may be a hit or not. The limit is decided only if both extremes agree.
        fewest = criterion.hits
        most = fewest + total - len(criterion.outcomes)
        worst, best = (fewest, most) if criterion.least else (most, fewest)
        if self._within(worst, total, criterion):
            return "holds"
        return "not checked" if self._within(best, total, criterion) else "fails"

    def _within(self, hits: int, total: int, criterion: Criterion) -> bool:
        """Return True if a share, or its interval, is on the right side of the limit."""
        assert criterion.limit is not None  # `status` has checked it
        share = wilson(hits, total)
        value = share.value
        if self.settings.decide == "interval":
            value = share.low if criterion.least else share.high
        # 1 of 20 is 0.05, but for rounding.
        margin = (value - criterion.limit) * (1 if criterion.least else -1)
        return margin >= -1e-12

    def failures(self) -> list[Criterion]:
        """Return the criteria for which the gate does not hold."""
        bad = {"fails"} if self.settings.allow_unchecked else {"fails", "not checked"}
        return [criterion for criterion in self.criteria if self.status(criterion) in bad]


class OutOfTime(Exception):
    """The seconds of the gate are spent."""


class Clock:
    """Measures the time in the classifier, and ends it when the seconds, if any, are over."""

    def __init__(self, seconds: float | None) -> None:
        self._began, self._processor = time.monotonic(), time.process_time()
        self._end = math.inf if seconds is None else self._began + seconds
        self._until = self._end
        self.limited = seconds is not None
        self.victim = self._victim_processor = 0.0

    @property
    def own(self) -> float:
        """Processor seconds so far outside of the classifier."""
        return time.process_time() - self._processor - self._victim_processor

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._began

    @contextmanager
    def part(self, parts: int) -> Iterator[None]:
        """Limit what follows to one of so many equal parts of the remaining time."""
        now = time.monotonic()
        self._until = now + (self._end - now) / parts
        try:
            yield
        finally:
            self._until = self._end

    def check(self) -> None:
        """Raise OutOfTime if the time is up."""
        if time.monotonic() >= self._until:
            raise OutOfTime

    def ask(self, function: Callable[[Sequence[Text]], Floats], texts: Sequence[Text]) -> Floats:
        """Ask the classifier about texts, and measure the time."""
        size = _TIMED_BATCH if self.limited else max(1, len(texts))
        parts = []
        for start in range(0, len(texts), size):
            self.check()
            began, processor = time.monotonic(), time.process_time()
            try:
                parts.append(function(texts[start : start + size]))
            finally:
                self.victim += time.monotonic() - began
                self._victim_processor += time.process_time() - processor
        return np.concatenate(parts)


class ClockedVictim:
    """A victim whose time is measured; its other attributes are those of the victim."""

    def __init__(self, victim: Victim, clock: Clock) -> None:
        self._victim, self._clock = victim, clock
        self.name = victim.name

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        return self._clock.ask(self._victim.logits, texts)

    def probabilities(self, texts: Sequence[Text]) -> Floats | None:
        """See `CallableVictim`; None if the victim has none."""
        ask: Any = getattr(self._victim, "probabilities", None)
        if ask is None or getattr(self._victim, "outputs", None) == "logits":
            return None
        return self._clock.ask(ask, texts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._victim, name)


class Certification(NamedTuple):
    """The certificate of a model that a gate asks for; `k` is None for any number of changes."""

    certifier: TextCertifier
    threat: Threat
    k: int | None


class Gate:
    """Measures the criteria of a gate on one classifier.

    Args:
        victim: the classifier.
        classes: names of its classes.
        samples: texts with their classes.
        settings: the settings.
        data: name of the data.
        named: name of the classifier.
        columns: names of the texts of a sample.
        certification: the certificate; None if there is no limit for it.
        always: flip rates to measure though they have no limit, for a baseline.

    Raises:
        ValueError: an unknown positive class, recipe or setting.
        ResourceError: a resource of a recipe is missing.
        VictimError: the classifier gives no scores, and a recipe needs them.
    """

    def __init__(
        self,
        victim: Victim,
        classes: Sequence[str],
        samples: Sequence[Sample],
        settings: GateSettings,
        *,
        data: str = "texts",
        named: str | None = None,
        columns: Sequence[str] = ("text",),
        certification: Certification | None = None,
        always: bool = False,
    ) -> None:
        self._clock = Clock(settings.seconds)
        self._classes, self._samples, self._columns = classes, samples, columns
        self._data, self._named = data, named or victim.name
        self._certification = certification
        self._positive = _positive(settings, victim, classes)
        if settings.threshold is not None and self._positive is not None:
            victim = ThresholdVictim(victim, self._positive, settings.threshold)
        # Outermost, so that the time of the threshold counts as the victim's.
        self._victim = ClockedVictim(victim, self._clock)
        self.settings = replace(
            settings, positive=None if self._positive is None else classes[self._positive]
        )
        # Before the first question: a missing resource must not surface at the end.
        self._plans = [
            (attack.change(lambda one: one.learn(self._labelled)), limit)
            for name, limit in settings.recipe_limits().items()
            if always or limit is not None
            for attack in plan(settings.attack(name))
        ]
        self._without_scores = self._drop_searches(victim)

    def _drop_searches(self, victim: Victim) -> list[str]:
        """Leave out default recipes that need scores, of which the victim has none; return them.

        Raises:
            VictimError: no recipe is left, or one of them was chosen.
        """
        plans, dropped = [], list[str]()
        for attack, limit in self._plans:
            try:
                for one in attack.attacks:
                    check_search(one, victim)
                plans.append((attack, limit))
            except VictimError:
                dropped.append(attack.name)
                last = attack is self._plans[-1][0]
                if self.settings.recipes is not None or (last and not plans):
                    raise
        self._plans = plans
        return dropped

    def _labelled(self) -> list[tuple[Text, int]]:
        """Return the texts from which some attacks learn harmless words."""
        return [(sample.text, sample.label) for sample in self._samples]

    def run(self) -> GateReport:
        """Measure all criteria.

        Raises:
            VictimError: the classifier failed.
        """
        predictions, reason = self._predict()
        criteria = list(self._clean(predictions, reason))
        cautions = []
        void = self._collapse(predictions)
        if void:
            cautions.append(void)
        parts = len(self._plans) + (self._certification is not None)
        if self._certification is not None:
            # Time that this part leaves is for the later ones: `parts` counts down.
            with self._clock.part(parts):
                criteria.append(replace(self._certified(self._certification), void=void))
            parts -= 1
        for attack, limit in self._plans:
            with self._clock.part(parts):
                attacked = self._attack(attack, limit, predictions, reason)
                criteria.append(replace(attacked, void=void))
            parts -= 1
        if self._without_scores:
            names = ", ".join(self._without_scores)
            cautions.append(f"{names}: left out, as the model gives labels without scores")
        if self._certification is None and not self._plans:
            cautions.append(CLEAN_ONLY)
        return GateReport(
            victim=self._named,
            data=self._data,
            classes=self._classes,
            criteria=criteria,
            settings=self.settings,
            subject=self.subject(),
            cautions=cautions,
            seconds=self._clock.seconds,
            victim_seconds=self._clock.victim,
            own_seconds=self._clock.own,
        )

    def subject(self) -> dict[str, Any]:
        """Return data and settings that the outcome of each text depends on."""
        settings, certification = self.settings, self._certification
        certified = None
        if certification is not None:
            certified = {"threat": certification.threat.digest, "k": certification.k}
        rows = [[s.sample_id, s.text, self._classes[s.label]] for s in self._samples]
        return {
            "rows": content_digest(rows),
            "classes": list(self._classes),
            "positive": settings.positive,
            "threshold": settings.threshold,
            "seed": settings.seed,
            "query_budget": settings.query_budget,
            "engine": VERSION,
            "certificate": certified,
        }

    def _predict(self) -> tuple[dict[int, tuple[int, float]], str]:
        """Return prediction and margin by sample, and the reason why some are missing."""
        predictions: dict[int, tuple[int, float]] = {}
        reason, remaining = "", list(self._samples)
        while remaining:
            batch = remaining[:_BATCH]
            try:
                logits = self._victim.logits([sample.text for sample in batch])
            except OutOfTime:
                return predictions, "the time was up"
            except InvalidAnswers as error:
                # The other texts of the batch are asked for again.
                reason = str(error)
                invalid = error.reasons
                remaining = [sample for sample in remaining if sample.text not in invalid]
                continue
            rows = zip(batch, logits.argmax(axis=1).tolist(), top_margins(logits), strict=True)
            predictions |= {s.sample_id: (label, float(margin)) for s, label, margin in rows}
            remaining = remaining[len(batch) :]
        if not predictions and reason:
            raise InvalidAnswers(reason, {})
        return predictions, reason

    def _clean(
        self, predictions: Mapping[int, tuple[int, float]], reason: str
    ) -> Iterator[Criterion]:
        settings, positive = self.settings, self._positive
        kinds: list[tuple[str, str, float | None, bool, list[Sample], Callable[[int, int], bool]]]
        kinds = [
            (
                "accuracy",
                "right predictions",
                settings.min_accuracy,
                True,
                [*self._samples],
                int.__eq__,
            )
        ]
        if positive is not None:
            name = self._classes[positive]
            own = [sample for sample in self._samples if sample.label == positive]
            other = [sample for sample in self._samples if sample.label != positive]

            def detected(prediction: int, label: int) -> bool:
                del label
                return prediction == positive

            limits = settings.min_recall, settings.max_false_alarms
            meaning = f"texts of {name} that are detected"
            kinds.append(("recall", meaning, limits[0], True, own, detected))
            meaning = f"other texts that are taken for {name}"
            kinds.append(("false_alarms", meaning, limits[1], False, other, detected))
        for name, meaning, limit, least, samples, counts in kinds:
            checked = [sample for sample in samples if sample.sample_id in predictions]
            outcomes = {s.sample_id: counts(predictions[s.sample_id][0], s.label) for s in checked}
            wrong = [sample for sample in checked if outcomes[sample.sample_id] != least]
            # The most confident errors first.
            wrong.sort(key=lambda sample: -predictions[sample.sample_id][1])
            yield Criterion(
                name=name,
                meaning=meaning,
                limit=limit,
                least=least,
                outcomes=outcomes,
                total=len(samples),
                reason=reason if len(checked) < len(samples) else "",
                examples=[
                    GateExample(s.sample_id, s.text, None, s.label, predictions[s.sample_id][0])
                    for s in wrong[:EXAMPLES]
                ],
            )

    def _collapse(self, predictions: Mapping[int, tuple[int, float]]) -> str:
        """Return the reason why robustness means nothing; "" if it does."""
        checked = [sample for sample in self._samples if sample.sample_id in predictions]
        if len({sample.label for sample in checked}) < 2:
            return ""
        labels = [sample.label for sample in checked]
        predicted = Predictions(
            labels=labels, predictions=[predictions[s.sample_id][0] for s in checked]
        )
        if not predicted.collapsed:
            return ""
        name = self._classes[predicted.largest[0]]
        return f"it predicts {name} for nearly all texts: its robustness means nothing"

    def _subjects(self) -> list[Sample]:
        """Return the texts that attacks and certificates are about."""
        if self._positive is None:
            return list(self._samples)
        return [sample for sample in self._samples if sample.label == self._positive]

    def _certified(self, certification: Certification) -> Criterion:
        threat, k = certification.threat, certification.k
        outcomes, examples, reason = dict[int, bool](), list[GateExample](), ""
        subjects = self._subjects()
        samples = [
            replace(sample, text=text)
            for sample in subjects
            # The certificate is about the text in the threat's normal form, which may not exist.
            if isinstance(sample.text, str) and (text := threat.subject(sample.text)) is not None
        ]
        outside = len(samples) < len(subjects)
        # The clock is read between batches: small ones end in time, large ones are faster.
        size = _TIMED_BATCH if self._clock.limited else 2048
        for start in range(0, len(samples), size):
            batch = samples[start : start + size]
            try:
                self._clock.check()
            except OutOfTime:
                reason = "the time was up"
                break
            texts = [str(sample.text) for sample in batch]
            for sample, certificate in zip(batch, certification.certifier(texts, [k]), strict=True):
                right = certificate.prediction == sample.label
                outcomes[sample.sample_id] = right and certificate.holds[0]
                if not outcomes[sample.sample_id]:
                    other = certificate.witness_prediction if right else certificate.prediction
                    witness = certificate.witness if right else None
                    examples.append(
                        GateExample(sample.sample_id, sample.text, witness, sample.label, other)
                    )
        number = "any number of changes" if k is None else plural(k, "change")
        return Criterion(
            name=f"certified/{threat.title}",
            meaning=f"{self._of()} that are right, and certified for {number} of {threat.title}",
            limit=self.settings.min_certified,
            least=True,
            outcomes=outcomes,
            total=len(subjects),
            reason=reason or ("the certificate is not about these texts" if outside else ""),
            examples=examples[:EXAMPLES],
        )

    def _of(self) -> str:
        return "texts" if self._positive is None else f"texts of {self._classes[self._positive]}"

    def _attack(
        self,
        attack: AttackPlan,
        limit: float | None,
        predictions: Mapping[int, tuple[int, float]],
        missing: str,
    ) -> Criterion:
        subjects = self._subjects()
        # Drawn before anything is known of the model: the same texts for every model.
        order = permutation(len(subjects), CHOICE).tolist()[: self.settings.num_samples]
        drawn = [subjects[index] for index in order]
        right = [s for s in drawn if predictions.get(s.sample_id, (None,))[0] == s.label]
        # Without a prediction, a text might be one to attack.
        unknown = sum(sample.sample_id not in predictions for sample in drawn)
        limits = Limits(query_budget=self.settings.query_budget, in_flight=_IN_FLIGHT)
        engine = engine_of(
            attack.attacks,
            self._victim,
            limits=limits,
            seed=self.settings.seed,
            columns=tuple(self._columns),
            class_names=self._classes,
        )
        # The victim has answered before: a first invalid answer is a record and no error.
        engine.answered = bool(predictions)
        records: list[AttackRecord] = []
        reason = missing if unknown else ""
        try:
            # If the time is up, the list has what came before.
            records.extend(engine.run(right))
        except OutOfTime:
            reason = "the time was up"
        ended = [record for record in records if record.attacked]
        if blind := self._blind(attack, records):
            ended = [record for record in ended if record.sample_id not in blind]
            reason = f"no word moved their score: {attack.name} saw nothing"
        if errors := [record for record in records if record.outcome == "error"]:
            reason = f"{plural(len(errors), 'invalid answer')}, the first: {errors[0].reason}"
        # A model with random answers may get a text wrong that it had right before.
        skipped = sum(record.outcome == "skipped" for record in records)
        changed = sorted(
            (record for record in ended if record.outcome == "succeeded"),
            key=lambda record: (record.words_changed, record.sample_id),
        )
        verb = "right predictions" if self._positive is None else f"detected {self._of()}"
        return Criterion(
            name=f"flip_rate/{attack.name}",
            subject=content_digest([flat(describe(one), one.name) for one in attack.attacks]),
            meaning=f"{verb} that {attack.name} changes",
            limit=limit,
            least=False,
            outcomes={record.sample_id: record.outcome == "succeeded" for record in ended},
            total=len(right) + unknown - skipped,
            reason=reason,
            examples=[
                GateExample(r.sample_id, r.text, r.adversarial, r.label, r.adversarial_prediction)
                for r in changed[:EXAMPLES]
            ],
        )

    def _blind(self, attack: AttackPlan, records: Sequence[AttackRecord]) -> set[int]:
        """Return the texts of which an attack saw nothing, unless they are within the tolerance."""
        # A search that follows no score is never blind.
        if not all(one.needs_scores for one in attack.attacks):
            return set()
        score = attack.attack.goal.score
        blind = {record.sample_id for record in records if is_blind(record, score)}
        return blind if len(blind) > TOLERATED * len(records) else set()


def _positive(settings: GateSettings, victim: Any, classes: Sequence[str]) -> int | None:
    """Return the index of the positive class; None without one.

    Raises:
        ValueError: no such class, or a limit that needs one.
    """
    detector = getattr(getattr(victim, "module", None), "detector", None)
    if detector is not None and settings.threshold is not None:
        msg = (
            f"got threshold {settings.threshold} for a detector, whose own threshold counts, "
            "expected it for other models: leave it out"
        )
        raise ValueError(msg)
    name = settings.positive or getattr(detector, "positive", None)
    if name is None:
        for option in ("min_recall", "max_false_alarms", "threshold"):
            if getattr(settings, option) is not None:
                msg = (
                    f"got --{option} for a model without a detector, expected --positive CLASS: "
                    f"one of {', '.join(classes)}"
                )
                raise ValueError(msg)
        return None
    if name not in classes:
        msg = f"got --positive {name}, expected one of {', '.join(classes)}"
        raise ValueError(msg)
    return list(classes).index(name)
