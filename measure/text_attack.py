"""Attack texts: `attack`, on a run or on a model from elsewhere."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytorch_lightning.loggers import Logger, TensorBoardLogger

from attacks.composition import Attack
from attacks.constraints import InsideThreat
from attacks.engine import VERSION, longest_first
from attacks.ensemble import engine_of
from attacks.fingerprint import describe, flat
from attacks.interface import Outcome
from attacks.outcome import Sample, from_line
from attacks.progress import CountedVictim, Progress
from attacks.summary import remarks, summarise
from attacks.task_goals import VictimTask, task_of
from attacks.victims.kinds import Victim
from certify.threats import TextCertifier, Threat
from datamodules.batching.sampler import permutation
from measure.attack_csv import write_csv
from measure.attack_html import write_page
from measure.attack_report import class_name, example_table
from measure.attack_settings import AttackPlan, AttackSettings
from measure.corpus_split import CHOICE
from measure.measurement import Measured, Measurement, Record
from measure.surrogates import Surrogates
from run_files.run_directory import RunDirectory
from text import Text
from text.subjects import Subject

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class AttackedModel:
    """A model, and the samples on which it is attacked.

    Attributes:
        victim: the model.
        class_names: classes of the model.
        samples: all samples of the attack.
        columns: names of the texts of a sample.
        subject: identity of the model; `results.json` has it with the settings of the attack.
        scope: the samples and the threat, which the records depend on as well.
        facts: facts for the page, by name.
        identity: `run`, `method`, `corpus` and `seed`, as `results.json` has them.
        threat: the set of texts inside which the attack stays, if there is one.
        positive: index of the class that a detector detects; None for other goals.
        texts: makes labelled texts, from which some attacks learn harmless words.
        certifier: makes the certifier of the model against a threat, for attacks by witnesses.
        surrogates: models that may rank words.
    """

    victim: Victim
    class_names: Sequence[str]
    samples: Sequence[Sample]
    columns: Sequence[str]
    subject: Mapping[str, Any]
    scope: Mapping[str, Any]
    facts: Mapping[str, str]
    identity: Mapping[str, Any]
    threat: Threat | None = None
    positive: int | None = None
    texts: Callable[[], Iterable[tuple[Text, int]]] = tuple
    certifier: Callable[[Threat], TextCertifier] | None = None
    surrogates: Surrogates | None = None


ELSEWHERE = "file this next to it with --attack.tag NAME"


class TextAttack(Measurement[Sample]):
    """Attacks the samples of a model by one composition.

    The records do not depend on the number of processes: the seed of a sample depends on its id.

    Args:
        planned: the attack.
        settings: settings of the command.
        model: the model and its samples.
        position: position of the attack in its command.
        loggers: loggers of the trainer.
        bar: True to show progress.
        asks_again: True to query the model again about the texts of former records, and to refuse
            other predictions: a model from elsewhere has no digest.
    """

    elsewhere = ELSEWHERE

    def __init__(
        self,
        planned: AttackPlan,
        settings: AttackSettings,
        model: AttackedModel,
        *,
        position: int = 0,
        loggers: Sequence[Logger] = (),
        bar: bool = True,
        asks_again: bool = False,
    ) -> None:
        self.planned, self.settings, self.model = planned, settings, model
        self._position, self._loggers, self._bar = position, loggers, bar
        self._asks_again = asks_again
        self._outcome: tuple[Sequence[Record], Outcome] | None = None
        if asks_again:
            self.elsewhere = f"{ELSEWHERE} or --output FOLDER"
        self.name = planned.name
        self.stage, self.file = f"attack/{planned.name}", f"attacks/{planned.name}.jsonl"
        attacks = planned.change(self._complete).attacks
        pools = [describe(getattr(attack.transformation, "pool", None)) for attack in attacks]
        self._pool = pools if planned.others else pools[0]
        # The weights of a name may change.
        surrogates = [describe(attack.surrogate) for attack in attacks]
        self._surrogate = surrogates if any(surrogates) else None
        self._engine = engine_of(
            attacks,
            model.victim,
            limits=settings,
            seed=settings.seed,
            columns=tuple(model.columns),
            class_names=model.class_names,
        )

    def _complete(self, attack: Attack) -> Attack:
        """Return an attack with what it gets from the model."""
        model = self.model
        if not self.planned.has_goal:
            # Only now: the index of a target needs the classes of the model.
            aim = self.settings.aim(model.class_names, model.positive, self._task)
            attack = attack.aiming(aim)
        if model.surrogates is not None:
            attack = attack.assisted(model.surrogates.load)
        attack = attack.learn(model.texts).certified(model.certifier, model.threat)
        if model.threat is None:
            return attack
        return replace(attack, constraints=[InsideThreat(model.threat), *attack.constraints])

    @property
    def _task(self) -> VictimTask:
        return task_of(self.model.victim)

    @property
    def target(self) -> int | None:
        """The index of the class to reach; None if untargeted."""
        target: int | None = getattr(self._engine.attack.goal, "target", None)
        return target

    def subject(self) -> Subject:
        """Return model, samples, and settings of the attack."""
        # A pool is made of other texts than those of the model and the samples.
        return {
            **self.about(),
            **self.model.scope,
            "pool_words": self._pool,
            "surrogate_weights": self._surrogate,
        }

    def about(self) -> Subject:
        """Return the settings of the attack, and the identity of the model."""
        # Absent for a classifier, as in outcomes of older versions.
        task = {} if self._task == "classification" else {"task": self._task}
        # A figure inside a threat must not pass for one of the full attack.
        inside = {name: self.model.scope[name] for name in ("threat",) if name in self.model.scope}
        planned = attack_subject(self.planned, self.settings)
        return {**planned, **self.model.subject, **task, **inside}

    def samples(self) -> Sequence[Sample]:
        """Return all samples."""
        return self.model.samples

    def objection(self, records: Sequence[Record]) -> str | None:
        """Return the reason why the records are from other samples or another model."""
        self._engine.answered = any(record["outcome"] != "error" for record in records)
        if not self._asks_again:
            return None
        samples = {sample.sample_id: sample for sample in self.model.samples}
        former = [from_line(record) for record in records]
        for record in former:
            sample = samples.get(record.sample_id)
            if sample is not None and (sample.text, sample.label) != (record.text, record.label):
                return (
                    f"got records in which sample {record.sample_id} is {record.text!r:.80} of "
                    f"class {record.label}, and not {sample.text!r:.80} of class {sample.label}: "
                    f"expected the same samples: {self.elsewhere}"
                )
        if (other := self._engine.find_contradiction(former)) is not None:
            return (
                f"got records of another model: {other}; expected the model that they were made "
                f"with: {self.elsewhere}"
            )
        return None

    def measure(self, samples: Sequence[Sample]) -> Iterator[Sequence[Record]]:
        """Yield the record of each sample as its attack ends."""
        engine = self._engine
        bar = Progress(len(samples), self.name, visible=self._bar)

        def count(texts: int) -> None:
            bar.asked(texts)
            self.alive()

        # Each query also tells the other processes that this one works.
        engine.victim = CountedVictim(self.model.victim, count)
        try:
            for record in engine.run(longest_first(samples, self.settings.in_flight)):
                bar.add(record)
                yield [record.line()]
        finally:
            engine.victim = self.model.victim  # a cycle would keep its files open
            bar.close()

    def outcome(self, records: Sequence[Record]) -> Outcome:
        """Return records and figures as objects."""
        # The same list for figures, page, ledger and table: summarised once.
        if self._outcome is None or self._outcome[0] is not records:
            attacked = [from_line(record) for record in records]
            score, goal = self._engine.attack.goal.score, str(self.settings.goal)
            summary = summarise(attacked, score=score, goal=goal, task=self._task)
            outcome = Outcome(name=self.name, records=attacked, summary=summary)
            self._outcome = records, outcome
        return self._outcome[1]

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return accuracy under attack, success rate and so on, see `attacks.summary`."""
        return attack_figures(self.outcome(records), self.target)

    def summary(self, records: Sequence[Record]) -> Any:
        """Return the figures with their intervals."""
        return self.outcome(records).summary.line()

    def shard_facts(self) -> Mapping[str, Any]:
        """Return the facts that `attack merge` needs."""
        return {
            "place": self._position,
            "score": self._engine.attack.goal.score,
            "target": self.target,
            "classes": list(self.model.class_names),
            "facts": self.facts(),
            "identity": dict(self.model.identity),
        }

    def facts(self) -> dict[str, str]:
        """Return the facts of the page, except the number of samples."""
        return {
            **self.model.facts,
            **self._goal(),
            **{key: str(value) for key, value in self.planned.options.items()},
            "seed of the attack": str(self.settings.seed),
        }

    def _goal(self) -> dict[str, str]:
        """Return the facts about the goal."""
        names, positive = self.model.class_names, self.model.positive
        if self._task != "classification":
            delta = {} if self.settings.delta is None else {"delta": str(self.settings.delta)}
            return {"task": self._task, **delta}
        if positive is None:
            target = "untargeted" if self.target is None else class_name(self.target, names)
            return {"goal": target}
        facts = {"goal": str(self.settings.goal), "positive class": class_name(positive, names)}
        if self.settings.threshold is not None:
            facts["threshold"] = f"probability {self.settings.threshold:g}"
        return facts

    def write(self, files: RunDirectory, outcome: Measured) -> None:
        """Write page, log and the examples of TensorBoard."""
        result, names = self.outcome(outcome.records), self.model.class_names
        show_examples(result, names, self._loggers)
        if self.settings.csv:
            path = (files.path / self.file).with_suffix(".csv")
            write_csv(path, result.records, self.model.columns)
        if self.settings.html:
            samples = f"{len(result.records)}, {self.settings.choice}"
            path = (files.path / self.file).with_suffix(".html")
            write_page(path, result, names, {**self.facts(), "samples": samples})


def attack_subject(planned: AttackPlan, settings: AttackSettings) -> dict[str, Any]:
    """Return what the records of an attack depend on, but for model and samples."""
    subject = {**planned.subject, **settings.about()}
    if not planned.others:
        subject |= parts_of(planned.attack)
    for attack in planned.attacks if planned.others else ():
        parts = parts_of(attack)
        subject |= {"engine": VERSION} | {f"{attack.name}.{key}": parts[key] for key in parts}
    del subject["split"]  # a table of samples has none
    return subject


def parts_of(attack: Attack) -> dict[str, Any]:
    """Describe an attack and its resources, without its goal, which is in the settings."""
    parts = flat(describe(attack), "attack")
    return {"engine": VERSION} | {
        key: value for key, value in parts.items() if not key.startswith("attack.goal")
    }


def attack_figures(outcome: Outcome, target: int | None) -> dict[str, float]:
    """Return the figures of an attack by the last part of their names."""
    metrics = outcome.summary.metrics()
    return metrics if target is None else {**metrics, "target": float(target)}


def show_examples(outcome: Outcome, names: Sequence[str], loggers: Sequence[Logger]) -> None:
    """Warn of a doubtful figure, and write some pairs of texts to TensorBoard."""
    for remark in remarks(outcome.name, outcome.summary):
        log.warning("%s", remark)
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            table = example_table(outcome, names)
            logger.experiment.add_text(f"attack/{outcome.name}/examples", table, 0)


def choose_samples(
    samples: Sequence[Any],
    settings: AttackSettings,
    most: int | None = None,
    positive: int | None = None,
) -> list[Any]:
    """Return the samples to attack, at most `most`; see `AttackSettings.choice`.

    With a `positive` class, they are samples of it to evade a detector, and of the other classes to
    force a false alarm.

    Raises:
        ValueError: there are none.
    """
    drawn = settings.choice == "drawn"
    # A prefix of one permutation: more samples later include those of today.
    order = permutation(len(samples), CHOICE).tolist() if drawn else range(len(samples))
    if positive is not None:
        evades = settings.goal == "evade"
        order = [i for i in order if (samples[i].label == positive) == evades]
        if not order:
            msg = (
                f"got no sample {'of' if evades else 'outside'} the positive class, expected "
                f"some for goal {settings.goal}: see --attack.positive"
            )
            raise ValueError(msg)
    count = min(settings.num_samples or len(order), most or len(order))
    return [samples[i] for i in order[:count]]


def confine_samples(samples: Iterable[Sample], threat: Threat) -> Iterator[Sample]:
    """Yield the samples that a threat applies to, with texts in its normal form.

    Raises:
        ValueError: pairs of texts.
    """
    for sample in samples:
        if not isinstance(sample.text, str):
            msg = "got pairs of texts for a threat, expected single texts"
            raise ValueError(msg)
        if (text := threat.subject(sample.text)) is not None:
            yield Sample(sample_id=sample.sample_id, text=text, label=sample.label)
