"""The recipe `robust`: trains candidates, keeps the best one, and compares it with other models."""

import argparse
import io
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.cli.commands import LIGHTNING, find_command
from app.cli.data_files import file_words
from app.cli.main import main
from app.commands.train_recipe import KAPPAS
from app.recipe.candidates import (
    KappaCandidate,
    candidate_name,
    choose,
    compare_models,
    grid,
    table,
)
from app.report.report_page import write_report
from attacks.recipes import find_recipe
from attacks.resources.catalogue import ResourceError, Resources
from attacks.set_names import title
from datamodules import CORPORA, TextDataModule
from datamodules.batching.examples import fingerprint
from datamodules.labelled import Split
from measure.attack_settings import AttackSettings, plan
from measure.verdict import judge_run
from run_files import atomic, run_directory
from run_files import results as results_file
from run_files.ledger import Ledger
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from text import check_range
from text.module_names import real_name
from text.subjects import differences, joined

log = logging.getLogger(__name__)

CONFIGS = {"plain": "default", "bag": "word_scores/bag", "transformer": "text_classifier/reviews"}
"""Settings of the models to compare with."""
CANDIDATES = "candidates"
"""Folder of the candidates inside the run."""
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
_QUIET = (
    *map(real_name, ("training", "datamodules", "measure")),
    *("pytorch_lightning", "lightning_fabric"),
)


def train_robust(args: argparse.Namespace) -> None:
    """Run the recipe with the options of `train --recipe`."""
    check_range({"--num_samples": args.num_samples}, least=1)
    check_range({"--clean_loss": args.clean_loss}, least=0, most=100)
    pairs = grid(args.kappa, KAPPAS, args.k)
    data = _data_words(args)
    corpus = _read_corpus(data)
    resources = Resources(args.resources)
    sets = args.against or _usual_sets(resources)
    attacks, missing = _find_attacks(args.attack, args.resources)
    runs_dir = Path(args.runs_dir)
    name = args.run or run_directory.fresh_name(runs_dir, args.recipe, corpus.corpus)
    run = RunDirectory(runs_dir / name)
    recipe = _Recipe(args=args, run=run, data=data, sets=sets, corpus=corpus)
    recipe.fit_candidates(pairs)
    runs = [recipe.run, *map(recipe.fit_other, args.compare)]
    count = min(args.num_samples, len(corpus.examples("test")))
    for run in runs:
        recipe.measure(run, attacks, count=count)
    recipe.certify(recipe.run)
    print(harmless(f"\n{recipe.run.name}: trained against {sets}, certified against the same sets"))
    text = compare_models(runs, f"certify_{title(sets)}", attacks, corpus.class_names)
    print("\n".join([text, *missing]))
    for run in runs:
        if (results := run.results()) is not None:
            print(harmless(f"{run.name}: {judge_run(run, results).headline}"))
    report = write_report(runs)
    for contradiction in report.contradictions:
        log.warning("contradiction: %s", contradiction)
    print(harmless(f"\nreport: {report.page}\n\n{recipe.run.path}"))


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    """The trainings and measurements of one command."""

    args: argparse.Namespace
    run: RunDirectory  # of the chosen model
    data: Sequence[str]  # words of the command line that name the corpus
    sets: str  # of perturbations
    corpus: TextDataModule

    def _begin(self, run: RunDirectory, config: str, **more: Any) -> Ledger:
        """Return the entry `recipe.json` of a run, after a comparison with an earlier start."""
        rows = {f"{split} rows": fingerprint(self.corpus.examples(split)) for split in SPLITS}
        subject = {"config": config, "seed": self.args.seed, **more, **rows}
        ledger = Ledger(run.path / "recipe.jsonl")
        there = ledger.path.is_file()
        changes = differences(ledger.subject(), subject) if there else []
        if changes or (run.begun and not there):
            reason = "was trained without this recipe, expected a new one:"
            if changes:
                reason = f"was begun with other settings ({joined(changes)}); repeat them, or"
            msg = f"got run {run.name!r}, which {reason} choose another --run"
            raise ValueError(msg)
        ledger.begin(subject)
        return ledger

    def fit_candidates(self, pairs: Sequence[tuple[float, str]]) -> None:
        """Train and certify the missing candidates, keep the best one in the run, print all."""
        settings = {name: getattr(self.args, name) for name in ("choose_by", "clean_loss")}
        settings |= {"candidates": pairs, "sets": self.sets, "settings": self.args.passed}
        ledger = self._begin(self.run, self.args.config, **settings)
        if not self.run.begun:
            self._choose(pairs, ledger)
        # Written before the run begins.
        print(f"{(ledger.extra('choice') or {})['table']}\n", flush=True)

    def _choose(self, pairs: Sequence[tuple[float, str]], ledger: Ledger) -> None:
        candidates = []
        title = f"{self.run.name}: {len(pairs)} candidates against {self.sets}"
        print(f"{title}, certified on the validation rows", flush=True)
        for kappa, k in pairs:
            began = time.monotonic()
            candidate = self._fit_candidate(kappa, k)
            clean, certified = 100 * candidate.clean.value, 100 * candidate.certified["all"].value
            figures = f"clean {clean:.1f} %, certified {certified:.1f} %"
            seconds = time.monotonic() - began
            print(f"kappa {kappa:g}, k {k}: {figures} ({seconds:.0f} s)", flush=True)
            candidates.append(candidate)
        chosen = choose(candidates, self.args.choose_by, self.args.clean_loss)
        text = table(candidates, chosen)
        choice = {
            "kappa": chosen.kappa,
            "k": chosen.k,
            "table": f"validation rows ({chosen.clean.count:,}), accuracy in %; * is chosen "
            f"(--choose_by {self.args.choose_by}, --clean_loss {self.args.clean_loss:g})\n{text}",
            "candidates": [candidate.line() for candidate in candidates],
        }
        ledger.finish(ledger.subject(), 0.0, None, choice=choice)
        keep_candidate(RunDirectory(self.run.path / CANDIDATES / chosen.name), self.run)

    def _fit_candidate(self, kappa: float, k: str) -> KappaCandidate:
        folder = RunDirectory(self.run.path / CANDIDATES / candidate_name(kappa, k))
        settings = {"against": self.sets, "kappa": f"{kappa:g}", "k": "null" if k == "all" else k}
        words = [f"--model.robustness.{n}={v}" for n, v in settings.items()]
        words += self._resources("--model.robustness.resources")
        if self.args.config == "word_scores/robust":
            words.append(f"--trainer.max_epochs={self._epochs(200_000, 3)}")
        passed = [word for word in self.args.passed if not word.startswith("--data.")]
        self._fit(folder, self.args.config, [*words, *passed])
        stage = f"certify_{title(self.sets)}-validation"
        if not folder.finished(stage):
            # Another name than that of the test rows: their figures must not replace these.
            self.certify(folder, "--split=validation", "--tag=validation")
        file = folder.path / f"certificates_{stage.removeprefix('certify_')}.jsonl"
        return KappaCandidate.of(kappa, k, Ledger(file).records())

    def fit_other(self, model: str) -> RunDirectory:
        """Train a model to compare with, unless that is done; return its run."""
        run = RunDirectory(self.run.path.with_name(f"{self.run.name}-{model}"))
        if not run.finished("fit"):
            print(f"trains {run.name} (settings: {CONFIGS[model]})", flush=True)
        passes, least = (200_000, 3) if model == "bag" else (100_000, 2)
        words = [f"--trainer.max_epochs={self._epochs(passes, least)}"]
        words += [word for word in self.args.passed if word.startswith("--trainer.")]
        self._begin(run, CONFIGS[model], settings=words)
        self._fit(run, CONFIGS[model], words)
        return run

    def _epochs(self, passes: int, least: int) -> int:
        """Return the epochs for a number of texts in training: many for few rows, 20 at most."""
        return min(20, max(least, round(passes / len(self.corpus.examples("train")))))

    def _fit(self, run: RunDirectory, config: str, words: Sequence[str]) -> None:
        if run.finished("fit"):
            return
        quiet = ("--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false")
        common = (f"--config={config}", *self.data, f"--seed_everything={self.args.seed}")
        self._call("fit", run, *common, *self._device(), *quiet, *words)

    def measure(self, run: RunDirectory, attacks: Sequence[str], *, count: int) -> None:
        """Test, predict and attack a run; stages that are done are left out."""
        # PGD moves vectors: the comparison is about words.
        if not run.finished("test"):
            self._call("test", run, *self._device(), "--pgd.epsilon=0")
        if not run.finished("predict"):
            self._call("predict", run, *self._device())
        results = run.results()
        metrics = {} if results is None else results["metrics"]
        attacked = {name: metrics.get(f"attack/{name}/samples") or 0 for name in attacks}
        # Fewer samples than asked for: an earlier call had a smaller --num_samples.
        if remaining := [name for name in attacks if attacked[name] < count]:
            print(f"attacks {run.name}", flush=True)
            words = [f"--attack.recipe={','.join(remaining)}", f"--attack.num_samples={count}"]
            words += self._resources("--attack.resources")
            self._call("attack", run, *self._device(), *words)

    def certify(self, run: RunDirectory, *words: str) -> None:
        """Certify a run against the sets."""
        common = [f"--threat={self.sets}", f"--device={self.args.device}"]
        common += self._resources("--resources")
        self._call("certify", run, "--k", "1", "2", "3", "all", *common, *words)

    def _resources(self, option: str) -> list[str]:
        return [] if self.args.resources is None else [f"{option}={self.args.resources}"]

    def _device(self) -> list[str]:
        # One process: the processes of several devices would each repeat this command.
        return ["--trainer.devices=1", f"--device={self.args.device}"]

    def _call(self, command: str, run: RunDirectory, *words: str) -> None:
        """Run a command of the program; its table is not printed."""
        line = [command, *words, f"--run={run.path.name}", f"--runs_dir={run.path.parent}"]
        call = find_command(line)
        assert call is not None, line
        with _quiet(), redirect_stdout(io.StringIO()):
            if call.command.file == LIGHTNING:
                main(line)
            else:
                call.run()


def keep_candidate(candidate: RunDirectory, run: RunDirectory) -> None:
    """Copy a finished run to another name; its settings, which begin the run, come last."""
    for source in sorted(candidate.path.rglob("*")):
        part = source.relative_to(candidate.path)
        if source.is_file() and source not in (candidate.config_path, candidate.results_path):
            with source.open("rb") as content, atomic.replacing(run.path / part) as copy:
                copy.writelines(content)
    figures = candidate.results()
    if figures is not None:
        results_file.write(run.results_path, {**figures, "run": run.name})
    # Last: the run has begun once this file exists, so a kill before it repeats the copy.
    run.write_config(candidate.config())


@contextmanager
def _quiet() -> Iterator[None]:
    """Show only warnings of the commands inside the block."""
    levels = {logger: logger.level for logger in map(logging.getLogger, _QUIET)}
    for logger in levels:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _data_words(args: argparse.Namespace) -> list[str]:
    """Return the words that name the corpus, each with its value."""
    words = [f"--data={args.data}"]
    words += [word for word in args.passed if word.startswith("--data.")]
    words += [] if args.data_dir is None else [f"--data.data_dir={args.data_dir}"]
    return file_words(words)


def _read_corpus(words: Sequence[str]) -> TextDataModule:
    """Read all splits before anything is trained."""
    values = dict(word.split("=", 1) for word in words)
    name = values.pop("--data")
    cls = CORPORA.get(name)
    if cls is None or not issubclass(cls, TextDataModule):
        msg = (
            f"got --data {name}, expected a file (.tsv, .csv, .json, .jsonl, .parquet), or one of "
            f"{', '.join(n for n, c in CORPORA.items() if issubclass(c, TextDataModule))}"
        )
        raise ValueError(msg)
    settings = {n.removeprefix("--data."): yaml.safe_load(v) for n, v in values.items()}
    try:
        corpus = cls(**settings)
    except TypeError as error:
        msg = f"got {', '.join(values)}, expected settings of {name} (--data.help {name}): {error}"
        raise ValueError(msg) from error
    if corpus.task != "classification" or corpus.pairs:
        msg = (
            f"got {name} with pairs of texts or without classes, expected single texts with classes"
        )
        raise ValueError(msg)
    corpus.fetch(SPLITS)
    corpus.setup("fit")
    corpus.setup("test")
    return corpus


def _usual_sets(resources: Resources) -> str:
    """Return the sets to train against, by the resources; print which."""
    try:
        resources.wordnet_place()
    except ResourceError:
        text = "no WordNet: it is trained against typos,deepwordbug, without synonyms; `python -m "
        print(f"{text}steadfast resources wordnet` gets it", flush=True)
        return "typos,deepwordbug"
    return "pwws,deepwordbug"


def _find_attacks(names: Sequence[str], folder: str | None) -> tuple[list[str], list[str]]:
    """Return the attacks whose resources are there, and a line about each other one."""
    attacks, missing = [], []
    for name in names:
        try:
            plan(AttackSettings(recipe=name, resources=folder))
        except ResourceError:
            needs = " ".join(find_recipe(name).needs)
            missing.append(f"no {name}: `python -m steadfast resources {needs}` gets its resources")
        else:
            attacks.append(name)
    return attacks, missing
