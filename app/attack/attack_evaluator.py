"""The attack on one split by one recipe, as a step of Lightning's test loop."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, TensorBoardLogger

from app.attack.attack_files import AttackFiles
from app.attack.attack_html import write_page
from app.attack.attack_mean import Attacked
from app.attack.attack_report import class_name, example_table
from app.attack.attack_settings import AttackSettings, Planned
from app.processes.distributed import gather
from app.runs.sample_records import Record, Records
from app.training.join import labelled_texts, require_classification
from app.training.stand_in import StandIn, WholeSplit
from attacks.constraints import InsideThreat
from attacks.engine import Engine, longest_first
from attacks.goals import Score, make_goal
from attacks.interface import Outcome
from attacks.outcome import AttackRecord, Sample, from_line
from attacks.progress import CountedVictim, Progress
from attacks.summary import Summary, remarks, summarise
from attacks.victims.kinds import ModuleVictim, VictimError, fastest_batch
from certify.threats import Threat
from datamodules.batching.examples import Example, fingerprint
from datamodules.batching.sampler import permutation
from lit_modules import TaskModule
from text import WordSettings, WordTokenizer

log = logging.getLogger(__name__)

CHOICE = 4
"""Key of the permutation that draws samples, apart from those of the corpora."""
_DRY = 8
"""Samples of Lightning's `fast_dev_run`."""


class AttackEvaluator(StandIn):
    """Stands in for a classifier in a test run, and attacks it.

    Each process takes its share of the samples that are left. The records do not depend on the
    number of processes: a sample's random numbers come from its id.

    Args:
        classifier: the victim.
        planned: the attack.
        settings: see `AttackSettings`.
        files: keep the outcome; None keeps none.
        about: all that the records depend on, but for the samples.
        facts: of the model, for the page, by name.

    Attributes:
        ended: True once all samples of the command are done.
        outcome: records and figures; None before the end, and for a part of the samples.
        attacked: the accuracy and its settings; None if it is unreliable.
        target: the class to reach; None where there is none.
        chosen: number of samples that the attack is about.
        seconds: time of all starts.
    """

    def __init__(
        self,
        classifier: TaskModule,
        planned: Planned,
        settings: AttackSettings,
        *,
        files: AttackFiles | None,
        about: Mapping[str, Any],
        facts: Mapping[str, str],
    ) -> None:
        super().__init__(classifier)
        self.planned, self.settings = planned, settings
        self.files, self.about, self.facts = files, about, facts
        self.ended = False
        self.outcome: Outcome | None = None
        self.attacked: Attacked | None = None
        self.target: int | None = None
        self.threat: Threat | None = None
        self.chosen = 0
        self.seconds = 0.0

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Attacks all samples of this process."""
        del batch, batch_idx
        require_classification(self.classifier.task.name, "attack")
        started = time.monotonic()
        data = self.trainer.datamodule  # type: ignore[attr-defined] # set by a connector
        if not isinstance(data, WholeSplit):
            msg = f"got {type(data).__name__}, expected the samples of a corpus as a whole"
            raise TypeError(msg)
        examples = data.source.examples(data.split)
        self.threat = self.settings.threat.threat(words_read(self.classifier))
        samples = self._choose(examples, data)
        engine = self._engine(data.source.text_columns)
        self.target = getattr(engine.attack.goal, "target", None)
        about = self._about(examples, data)
        files, lead = self.files, self.trainer.is_global_zero
        self._agree(self.problem(about) if lead else None)
        before = files.seconds() if files is not None else 0.0
        if files is not None and lead:
            files.begin(about)
        records = Records(None if files is None else files.outcome)
        try:
            done = self._take_up(records, about)
            engine.answered = bool(done)
            self._work(engine, records, [one for one in samples if one.sample_id not in done])
            found = [from_line(line) for line in records.merge()]
        except BaseException:
            if files is not None and lead:
                files.pause(about, before + time.monotonic() - started)
            raise
        finally:
            records.close()
        self.seconds = before + time.monotonic() - started
        self._end(found, engine.attack.goal.score, about, data)
        self.ended = True

    def problem(self, about: Mapping[str, Any]) -> str | None:
        """Returns the reason that the outcome cannot be filed; None if there is none.

        Args:
            about: the settings, as far as they are known.
        """
        return None if self.files is None else self.files.problem(about)

    def on_test_epoch_end(self) -> None:
        """Logs the figures; every process has all records."""
        self.log_dict(self.metrics(), rank_zero_only=False, sync_dist=False)

    def metrics(self) -> dict[str, float]:
        """Returns the figures by their names in `results.json`; none before the end."""
        if self.outcome is None:
            return {}
        return figures(self.planned.name, self.outcome.summary, self.target)

    def facts_of(self, samples: int, data: WholeSplit) -> dict[str, str]:
        """Returns the facts of the page.

        Args:
            samples: number of records on it.
            data: the samples.
        """
        names = self.classifier.require_text()[1]
        options = {key: str(value) for key, value in self.planned.options.items()}
        return {
            **self.facts,
            "corpus": f"{data.corpus}, {data.split} split",
            "samples": f"{samples}, {self.settings.choice}",
            "goal": "untargeted" if self.target is None else class_name(self.target, names),
            **options,
            "seed of the attack": str(self.settings.seed),
        }

    # The samples and the engine

    def _choose(self, examples: Sequence[Example], data: WholeSplit) -> list[Sample]:
        wanted = self.settings.num_samples or len(examples)
        dry = getattr(self.trainer, "fast_dev_run", False)
        wanted = min(wanted, _DRY * int(dry)) if dry else wanted
        drawn = self.settings.choice == "drawn"
        order = permutation(len(examples), CHOICE).tolist() if drawn else range(len(examples))
        chosen = [examples[i] for i in order[:wanted]]
        if any(example.label is None for example in chosen):
            msg = (
                f"{data.corpus}: got a {data.split} split without labels, expected labels: an "
                "attack succeeds where the gold class is left; try --attack.split validation, if "
                "the corpus has one"
            )
            raise ValueError(msg)
        samples = [
            Sample(sample_id=sample_id, text=text, label=label)
            for sample_id, text, label in labelled_texts(chosen)
        ]
        if self.threat is not None:
            samples = list(subjects(samples, self.threat))
        self.chosen = len(samples)
        return samples

    def _engine(self, columns: Sequence[str]) -> Engine:
        settings, attack = self.settings, self.planned.attack
        _, names = self.classifier.require_text()
        if not self.planned.goal_given:
            goal = make_goal(settings.target(names), score=settings.score, compat=settings.compat)
            attack = attack.aiming(goal)
        if self.threat is not None:
            inside = InsideThreat(self.threat)
            attack = replace(attack, constraints=[inside, *attack.constraints])
        size = fastest_batch(self.classifier, settings.batch_size)
        victim = ModuleVictim(self.classifier, batch_size=size)
        return Engine(
            attack,
            victim,
            limits=settings,
            seed=settings.seed,
            columns=tuple(columns),
            class_names=names,
        )

    def _about(self, examples: Sequence[Example], data: WholeSplit) -> dict[str, Any]:
        """Returns all settings that the records depend on."""
        threat = {}
        if self.threat is not None:
            k = "all" if self.threat.k is None else str(self.threat.k)
            about = {"name": self.threat.name, "k": k, "digest": self.threat.digest}
            threat = {"threat": about}
        return {
            **self.about,
            **threat,
            "corpus": data.corpus,
            "columns": list(data.source.text_columns),
            "samples": fingerprint(examples),
        }

    # The work

    def _agree(self, problem: str | None) -> None:
        """Stops all processes if the first one has a problem."""
        for found in gather(self.trainer, [problem]):
            if found is not None:
                raise ValueError(found)

    def _take_up(self, records: Records, about: Mapping[str, Any]) -> frozenset[int]:
        """Begins with the records of former starts; returns their samples."""
        done = records.begin(self.trainer, about=about)
        former: list[dict[str, Any]] = []
        if self.files is not None and self.trainer.is_global_zero:
            former = [one for one in self._former() if one["sample_id"] not in done]
            records.add(former)
        return done.union(gather(self.trainer, [int(one["sample_id"]) for one in former]))

    def _former(self) -> list[Record]:
        """Returns the records of an attack that has ended, and now has more samples."""
        return [] if self.files is None else self.files.records()

    def _work(self, engine: Engine, records: Records, samples: Sequence[Sample]) -> None:
        trainer = self.trainer
        mine = samples[trainer.global_rank :: trainer.world_size]
        wanted = trainer.is_global_zero and trainer.progress_bar_callback is not None
        bar = Progress(len(mine), self.planned.name, visible=wanted)

        def asked(texts: int) -> None:
            bar.asked(texts)
            records.add(())  # tells the other processes that this one works

        engine.victim = CountedVictim(engine.victim, asked)
        count = 0
        try:
            for record in engine.run(longest_first(mine, self.settings.in_flight)):
                records.add([record.line()])
                bar.add(record)
                count += 1
        except Exception as error:
            kept = "" if records.path is None else _kept(count, len(mine), records.path)
            if isinstance(error, VictimError):
                msg = f"{error}; {kept}" if kept else str(error)
                raise VictimError(msg) from error
            log.warning("%s", kept)
            raise
        finally:
            bar.close()

    def _end(
        self, found: list[AttackRecord], score: Score, about: Mapping[str, Any], data: WholeSplit
    ) -> None:
        """Files the outcome, once all processes have ended."""
        summary = summarise(found, score=score)
        self.outcome = Outcome(name=self.planned.name, records=found, summary=summary)
        if not summary.unreliable:
            self.attacked = Attacked(
                accuracy=summary.accuracy.value,
                samples=summary.samples,
                clean=summary.clean_accuracy.value,
                about=about,
            )
        if not self.trainer.is_global_zero:
            return
        if self.files is not None:
            self.files.finish(about, self.seconds, summary)
        names = self.classifier.require_text()[1]
        tell(self.outcome, names, self.trainer.loggers)
        if self.files is not None and self.settings.html:
            write_page(self.files.html, self.outcome, names, self.facts_of(len(found), data))


def subjects(samples: Iterable[Sample], threat: Threat) -> Iterator[Sample]:
    """Yields the samples that a threat is about, with the texts that it is about.

    Args:
        samples: of a corpus.
        threat: the set of texts around each.

    Raises:
        ValueError: pairs of texts.
    """
    for sample in samples:
        if not isinstance(sample.text, str):
            msg = "got pairs of texts for a threat, expected single texts"
            raise ValueError(msg)
        if (text := threat.subject(sample.text)) is not None:
            yield Sample(sample_id=sample.sample_id, text=text, label=sample.label)


def words_read(model: TaskModule) -> WordSettings:
    """Returns the words that a model splits a text into; the default ones for parts of words."""
    tokenizer, _ = model.require_text()
    if isinstance(tokenizer, WordTokenizer):
        return tokenizer.splitter.settings
    return WordSettings()


def figures(name: str, summary: Summary, target: int | None) -> dict[str, float]:
    """Returns the figures of an attack by their names in `results.json`.

    Args:
        name: of its files.
        summary: the figures.
        target: the class to reach, if there is one.
    """
    found = summary.metrics()
    if target is not None:
        found["target"] = float(target)
    return {f"attack/{name}/{key}": value for key, value in found.items()}


def tell(outcome: Outcome, names: Sequence[str], loggers: Sequence[Logger]) -> None:
    """Warns of a doubtful figure, and gives TensorBoard some pairs of texts.

    Args:
        outcome: of an attack.
        names: of the classes.
        loggers: of the trainer.
    """
    for remark in remarks(outcome.name, outcome.summary):
        log.warning("%s", remark)
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            text = example_table(outcome, names)
            logger.experiment.add_text(f"attack/{outcome.name}/examples", text, 0)


def _kept(count: int, total: int, path: Path) -> str:
    folder = path.with_suffix(".parts")
    return f"{count} of {total} samples are done and kept in {folder}: the same command goes on"
