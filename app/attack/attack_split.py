"""Attacks on the texts of a split, through Lightning's test loop."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
from pytorch_lightning.loggers import TensorBoardLogger

from app.attack.attack_files import AttackFiles
from app.attack.attack_html import write_page
from app.attack.attack_mean import Attacked, Mean, mean_accuracy
from app.attack.attack_report import class_name, example_table, report
from app.attack.attack_settings import SIX, AttackSettings, Planned, applied, plan
from app.processes.distributed import gather
from app.runs import results
from app.runs.recorder import Recorder
from app.runs.run_directory import RunDirectory
from app.runs.sample_records import Records
from app.runs.version import version
from app.training.interrupt import Stopped, interruption
from app.training.join import labelled_texts, require_classification
from app.training.session import session
from app.training.stand_in import StandIn, WholeSplit
from attacks.composition import Attack
from attacks.digests import file_digest
from attacks.engine import VERSION, Engine
from attacks.fingerprint import describe, flat
from attacks.goals import make_goal
from attacks.interface import Outcome
from attacks.outcome import Sample, from_line
from attacks.progress import Progress, Watched
from attacks.summary import doubt, summarise
from attacks.victims.kinds import ModuleVictim, VictimError
from datamodules import TextDataModule
from datamodules.batching.examples import Example, fingerprint
from datamodules.batching.sampler import permutation
from lit_modules import TaskModule

log = logging.getLogger(__name__)

_CHOICE = 4
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
        outcome: records and figures; None before the end.
        attacked: the accuracy and its settings; None if it is unreliable.
        target: the class to reach; None where there is none.
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
        self.outcome: Outcome | None = None
        self.attacked: Attacked | None = None
        self.target: int | None = None
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
        samples = self._choose(examples, data)
        engine = self._engine(data.source.text_columns)
        self.target = getattr(engine.attack.goal, "target", None)
        about = self._about(examples, data)
        files, lead = self.files, self.trainer.is_global_zero
        self._agree(files.problem(about) if files is not None and lead else None)
        before = files.seconds() if files is not None else 0.0
        if files is not None and lead:
            files.begin(about)
        records = Records(None if files is None else files.outcome)
        try:
            done = self._take_up(records, about)
            self._work(engine, records, [one for one in samples if one.sample_id not in done])
            found = [from_line(line) for line in records.merge()]
        except BaseException:
            if files is not None and lead:
                files.pause(about, before + time.monotonic() - started)
            raise
        finally:
            records.close()
        summary = summarise(found, score=engine.attack.goal.score)
        self.outcome = Outcome(name=self.planned.name, records=found, summary=summary)
        if not summary.unreliable:
            self.attacked = Attacked(
                accuracy=summary.accuracy.value, samples=summary.samples, about=about
            )
        self.seconds = before + time.monotonic() - started
        if files is not None and lead:
            files.finish(about, self.seconds, summary)
        if lead:
            self._report(self.outcome, data)

    def on_test_epoch_end(self) -> None:
        """Logs the figures; every process has all records."""
        self.log_dict(self.metrics(), rank_zero_only=False, sync_dist=False)

    def metrics(self) -> dict[str, float]:
        """Returns the figures by their names in `results.json`; none before the end."""
        if self.outcome is None:
            return {}
        found = self.outcome.summary.metrics()
        if self.target is not None:
            found["target"] = float(self.target)
        return {f"attack/{self.planned.name}/{name}": value for name, value in found.items()}

    # The samples and the engine

    def _choose(self, examples: Sequence[Example], data: WholeSplit) -> list[Sample]:
        wanted = self.settings.num_samples or len(examples)
        dry = getattr(self.trainer, "fast_dev_run", False)
        wanted = min(wanted, _DRY * int(dry)) if dry else wanted
        drawn = self.settings.choice == "drawn"
        order = permutation(len(examples), _CHOICE).tolist() if drawn else range(len(examples))
        chosen = [examples[i] for i in order[:wanted]]
        if any(example.label is None for example in chosen):
            msg = (
                f"{data.corpus}: got a {data.split} split without labels, expected labels: an "
                "attack succeeds where the gold class is left; try --attack.split validation, if "
                "the corpus has one"
            )
            raise ValueError(msg)
        return [
            Sample(sample_id=sample_id, text=text, label=label)
            for sample_id, text, label in labelled_texts(chosen)
        ]

    def _engine(self, columns: Sequence[str]) -> Engine:
        settings, attack = self.settings, self.planned.attack
        if not self.planned.goal_given:
            _, names = self.classifier.require_text()
            goal = make_goal(settings.target(names), score=settings.score, compat=settings.compat)
            attack = attack.aiming(goal)
        victim = ModuleVictim(self.classifier, batch_size=settings.batch_size)
        return Engine(attack, victim, limits=settings, seed=settings.seed, columns=tuple(columns))

    def _about(self, examples: Sequence[Example], data: WholeSplit) -> dict[str, Any]:
        """Returns all settings that the records depend on."""
        return {
            **self.about,
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
            former = [one for one in self.files.records() if one["sample_id"] not in done]
            records.add(former)
        return done.union(gather(self.trainer, [int(one["sample_id"]) for one in former]))

    def _work(self, engine: Engine, records: Records, samples: Sequence[Sample]) -> None:
        trainer = self.trainer
        mine = samples[trainer.global_rank :: trainer.world_size]
        wanted = trainer.is_global_zero and trainer.progress_bar_callback is not None
        bar = Progress(len(mine), self.planned.name, wanted=wanted)

        def asked(texts: int) -> None:
            bar.asked(texts)
            records.add(())  # tells the other processes that this one works

        engine.victim = Watched(engine.victim, asked)
        count = 0
        try:
            for record in engine.run(mine):
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

    def _report(self, outcome: Outcome, data: WholeSplit) -> None:
        names = self.classifier.require_text()[1]
        doubted = doubt(outcome.name, outcome.summary)
        if doubted:
            log.warning("%s", doubted)
        for logger in self.trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                text = example_table(outcome, names)
                logger.experiment.add_text(f"attack/{outcome.name}/examples", text, 0)
        if self.files is not None and self.settings.html:
            goal = "untargeted" if self.target is None else class_name(self.target, names)
            options = {key: str(value) for key, value in self.planned.options.items()}
            facts = {
                **self.facts,
                "corpus": f"{data.corpus}, {data.split} split",
                "samples": f"{outcome.summary.samples}, {self.settings.choice}",
                "goal": goal,
                **options,
                "seed of the attack": str(self.settings.seed),
            }
            write_page(self.files.html, outcome, names, facts)


def _kept(count: int, total: int, path: Path) -> str:
    folder = path.with_suffix(".parts")
    return f"{count} of {total} samples are done and kept in {folder}: the same command goes on"


def parts_of(attack: Attack) -> dict[str, Any]:
    """Describes an attack and its resources; the goal is in the settings."""
    parts = flat(describe(attack), "attack")
    return {"engine": VERSION} | {
        key: value for key, value in parts.items() if not key.startswith("attack.goal")
    }


class Attacks(NamedTuple):
    """The outcomes of all attacks of a command.

    Attributes:
        outcomes: by the names of their files.
        report: the table for people.
    """

    outcomes: dict[str, Outcome]
    report: str


def attack(
    trainer: pl.Trainer,
    model: TaskModule,
    datamodule: pl.LightningDataModule | None,
    ckpt_path: str | Path | None,
    settings: AttackSettings,
    *,
    recorder: Recorder | None,
) -> Attacks:
    """Attacks a checkpoint with every recipe of the settings, one after the other.

    Each is filed in the run as soon as it has ended.

    Args:
        trainer: runs the attacks inside its test loop.
        model: the victim.
        datamodule: the corpus.
        ckpt_path: checkpoint of the victim; None for its weights as they are.
        settings: of the attacks.
        recorder: keeps the run directory; None where nothing is kept.

    Raises:
        ValueError: wrong settings, or a run with an attack of the same name and other settings.
        ResourceError: word vectors or the like are missing.
        VictimError: the answers of the model are no logits.
    """
    if not isinstance(datamodule, TextDataModule):
        msg = f"got {type(datamodule).__name__}, expected a corpus of texts to attack"
        raise ValueError(msg)
    # Before any word list is asked for.
    require_classification(datamodule.task, "attack")
    evaluators = _evaluators(trainer, model, ckpt_path, settings, recorder)
    mean = Mean(names=())
    for evaluator in evaluators:
        _test(trainer, evaluator, WholeSplit(datamodule, settings.split), ckpt_path)
        stage, metrics = f"attack/{evaluator.planned.name}", evaluator.metrics()
        done = {one.planned.name: one.attacked for one in evaluators if one.attacked is not None}
        if recorder is None or evaluator.files is None:
            mean = mean_accuracy(done)
            continue
        mean = mean_accuracy({**former(recorder.files, stage, metrics), **done})
        recorder.finish(
            trainer,
            model,
            stage=stage,
            metrics=metrics | mean.metrics(),
            seconds=evaluator.seconds,
            about=evaluator.about,
        )
    outcomes = {one.planned.name: one.outcome for one in evaluators if one.outcome is not None}
    spent = ", ".join(f"{one.planned.name} {one.seconds:.1f} s" for one in evaluators)
    where = f"{datamodule.corpus}, {settings.split} split, {settings.goal}"
    table = report(
        outcomes,
        model.require_text()[1],
        show=settings.show,
        title=f"{evaluators[0].facts['run']}: {type(model).__name__} on {where} ({spent})",
        notes=[
            *applied(settings, [one.planned for one in evaluators]),
            *filter(None, [mean.line()]),
        ],
    )
    return Attacks(outcomes, table)


def _evaluators(
    trainer: pl.Trainer,
    model: TaskModule,
    ckpt_path: str | Path | None,
    settings: AttackSettings,
    recorder: Recorder | None,
) -> list[AttackEvaluator]:
    """Prepares all attacks; one that cannot be filed raises before the first begins."""
    # Models of attacks compute where the victim does.
    planned = plan(settings, device=trainer.strategy.root_device)
    checkpoint = file_digest(ckpt_path) if ckpt_path and Path(ckpt_path).is_file() else "none"
    run = None if recorder is None or getattr(trainer, "fast_dev_run", False) else recorder.files
    seed = "unknown" if recorder is None else str(recorder.training_seed)
    facts = {
        "run": "no run" if run is None else run.name,
        "model": f"{type(model).__name__}, seed of its training {seed}",
        "checkpoint": "none" if ckpt_path is None else f"{ckpt_path}, SHA-256 {checkpoint}",
    }
    evaluators = []
    for one in planned:
        about = {
            **one.about,
            **settings.about(),
            **parts_of(one.attack),
            "checkpoint": checkpoint,
            "precision": str(trainer.precision),
            "program": version(),
        }
        files = None if run is None else AttackFiles(run, one.name)
        if files is not None and (problem := files.problem(about)) is not None:
            raise ValueError(problem)
        evaluators.append(
            AttackEvaluator(model, one, settings, files=files, about=about, facts=facts)
        )
    return evaluators


def _test(
    trainer: pl.Trainer,
    evaluator: AttackEvaluator,
    data: WholeSplit,
    ckpt_path: str | Path | None,
) -> None:
    """Runs one attack in the test loop."""
    with (
        _own_bar(trainer),
        _kept_parts(trainer, evaluator.files),
        session(trainer, evaluator.classifier, ckpt_path) as path,
    ):
        pl.Trainer.test(trainer, evaluator, None, path, False, data, True if path else None)
    if evaluator.outcome is None:
        msg = "got --trainer.limit_test_batches 0, expected it to be left out"
        raise ValueError(msg)


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
                about=AttackFiles(run, name).about(),
            )
    return found


@contextmanager
def _own_bar(trainer: pl.Trainer) -> Iterator[None]:
    """Silences Lightning's bar, which would show one step, inside the context."""
    bar = trainer.progress_bar_callback
    if bar is None:
        yield
        return
    bar.disable()
    try:
        yield
    finally:
        bar.enable()


@contextmanager
def _kept_parts(trainer: pl.Trainer, files: AttackFiles | None) -> Iterator[None]:
    """Tells where the samples are kept when a signal stops the program."""
    try:
        yield
    except Stopped:
        # With several processes, those that wait for each other have to be stopped, too.
        if files is not None and trainer.world_size == 1:
            interruption.saved = str(files.outcome.with_suffix(".parts"))
        raise
