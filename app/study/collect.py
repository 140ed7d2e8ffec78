"""Reads the figures of a finished run, and the outcome of each sample for compared figures."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from app.study.outcomes import samples_digest
from app.study.study import Cell, CellFigures, Column, Study, StudyError
from app.study.study_file import MEAN, WORST, attacks_of
from attacks.digests import SHORT
from attacks.recipes import SIX
from measure.attack_mean import AttackAccuracy, mean_accuracy
from measure.evidence import RunReader
from measure.labelled_predictions import Predictions
from measure.uncertainty import Kind, agree, kind_of, score
from run_files.certified_bounds import FILE_OF
from run_files.checkpoint_lookup import checkpoint_text
from run_files.ledger import Ledger, attack_ledger
from run_files.run_directory import RunDirectory, existing
from text.bounded_files import DataError, read_json
from text.subjects import flat

_DOUBTED = ("accuracy", "success_rate", "flip_rate")
"""Figures of an attack that get the prefix `unreliable_` if they are."""
_REVISION = re.compile(r"\(git ([^)]+)\)")
"""In the line of a program: `steadfast 0.1.0 (git 0123456789ab)`."""


def collect(study: Study, cell: Cell, runs_dir: Path) -> CellFigures:
    """Read the run of a cell, in the directory of all runs.

    Raises:
        StudyError: figures and records of samples do not agree, or are about other weights than
            those of the run.
        OSError: run not found.
    """
    run = existing(runs_dir, cell.run)
    columns = [c for c in study.columns if not cell.corpus or c.corpus in (None, cell.corpus)]
    attacks = attacks_of(cell.stages)
    return collect_run(
        run, columns, row=cell.row, corpus=cell.corpus, seed=cell.seed, attacks=attacks
    )


def collect_run(
    run: RunDirectory,
    columns: Sequence[Column],
    *,
    row: str,
    corpus: str,
    seed: int,
    attacks: Collection[str] | None = None,
) -> CellFigures:
    """Read a run as the cell of a table; see `collect`.

    A mean over attacks is over those of `attacks`, or over all that the run has if None.
    """
    reader = _Reader(run, attacks)
    figures = {
        column.name: (column.metric, figure)
        for column in columns
        if (figure := reader.figure(column.metric)) is not None
    }
    samples = {
        name: outcomes
        for name, (metric, figure) in figures.items()
        if figure.value is not None
        and (outcomes := reader.samples(metric, figure.value)) is not None
    }
    by_column: dict[str, Any] = {
        key: {name: value for name, s in samples.items() if (value := getattr(s, key)) is not None}
        for key in ("outcomes", "samples", "ids", "labels", "predictions")
    }
    return CellFigures(
        row=row,
        corpus=corpus,
        seed=seed,
        run=run.name,
        values={name: figure.value for name, (_, figure) in figures.items()},
        unreliable=tuple(name for name, (_, figure) in figures.items() if figure.unreliable),
        collapsed=reader.collapsed(),
        **by_column,
        protocols={
            name: protocol
            for name, (metric, _) in figures.items()
            if (protocol := reader.protocol(metric))
        },
        weights=reader.files.weights,
        revisions=reader.revisions(),
        data=reader.data(),
        seconds=dict(reader.results["seconds"]),
    )


def attack_protocol(run: RunDirectory, attack: str) -> dict[str, Any]:
    """Return the settings of an attack that decide what its figures mean; empty if unknown."""
    stored = attack_ledger(run, attack).subject()
    # Without a threat, nothing names one.
    subject = {"threat.name": None, "threat.k": None, **flat(stored)}
    return {key: subject[key] for key in _PROTOCOL if key in subject} if stored else {}


class _Figure(NamedTuple):
    value: float | None
    unreliable: bool = False


@dataclass(frozen=True)
class _Samples:
    """The samples behind a figure, in the order of their ids; see `CellFigures`."""

    kind: Kind
    ids: tuple[int, ...]
    outcomes: tuple[float, ...]
    labels: tuple[float, ...]
    # None for a mean over several attacks, and for outcomes that are predictions.
    predictions: tuple[float, ...] | None

    @property
    def samples(self) -> str:
        return samples_digest(self.ids, self.labels)

    def figure(self) -> float:
        return score(self.outcomes, kind=self.kind, labels=self.labels)


_PROTOCOL = (
    *("goal", "positive", "threshold", "delta", "score", "compat", "query_budget"),
    *("budget_per_word", "split", "choice", "threat.name", "threat.k"),
)
"""Entries of the subject of an attack that decide what its figures mean, and not about a model."""
_OVER_ATTACKS: Mapping[str, Callable[[Sequence[float]], float]] = {MEAN: fmean, WORST: min}
"""The figure of one sample, from its outcomes under several attacks."""
_JOINED = re.compile(r"attack/([^/]+\+[^/]+)/accuracy")
"""The accuracy under several attacks: the share of the texts that withstand all of them."""
OutcomeOf = Callable[[Mapping[str, Any]], float]
"""The outcome of a sample, from its line in a file of records."""
_PREDICTED = ("pgd.jsonl", "predictions.jsonl", *FILE_OF.values())
"""Files with the predictions of a test, its own first: other batches may round differently."""


def _right(line: Mapping[str, Any]) -> float:
    return float(line["prediction"] == line["label"])


def _predicted(line: Mapping[str, Any]) -> float:
    return float(line["prediction"])


def _source(metric: str) -> tuple[Sequence[str], OutcomeOf]:
    """Return the files that may have the outcomes of a metric, the best first, and the outcome."""
    stage, _, name = metric.partition("/")
    figure, _, k = name.partition("@")
    attack, _, attacked = name.rpartition("/")
    source: tuple[Sequence[str], OutcomeOf] = (), _right
    if metric == "test/accuracy":
        source = _PREDICTED, _right
    elif kind_of(metric) != "mean":
        source = _PREDICTED if stage == "test" else (), _predicted
    elif metric == "test/pgd_accuracy":
        source = ("pgd.jsonl",), lambda line: float(line["survived"])
    elif stage in FILE_OF and name == "radius":
        source = (FILE_OF[stage],), lambda line: float(line["radius"])
    elif stage in FILE_OF and name == "radius_correct":
        source = (FILE_OF[stage],), lambda line: _right(line) * float(line["radius"])
    elif stage in FILE_OF and figure == "accuracy" and k:
        # accuracy@0 is the clean accuracy: it also counts a radius of 0.
        limit = float(k) or -math.inf
        source = (FILE_OF[stage],), lambda line: _right(line) * (float(line["radius"]) > limit)
    elif stage.startswith("certify_") and stage not in FILE_OF and figure == "accuracy":
        # A certificate in words, named after its threat.
        file = f"certificates_{stage.removeprefix('certify_')}.jsonl"
        source = (file,), (lambda line: _right(line) * float(line["holds"][k])) if k else _right
    elif stage == "attack" and attacked == "clean_accuracy":
        source = (f"attacks/{attack}.jsonl",), _right
    elif stage == "attack" and attacked.removeprefix("unreliable_") == "accuracy":
        # A sample counts if its clean prediction is correct and its attack has failed.
        file = f"attacks/{attack}.jsonl"
        source = (file,), lambda line: _right(line) * (line["outcome"] != "succeeded")
    return source


class _Reader:
    """The figures of a run, and the outcomes of their samples.

    Raises:
        StudyError: no figures, or some about other weights than those of the run.
    """

    def __init__(self, run: RunDirectory, attacks: Collection[str] | None = None) -> None:
        self.run, self.files = run, RunReader(run)
        self.attacks = attacks
        if self.files.results is None:
            msg = f"got run {run.name} without results.json, expected a stage of it to have ended"
            raise StudyError(msg)
        self.results = self.files.results
        for stage, subject in self.files.subjects.items():
            figures = f"run {run.name} with figures of {stage}"
            self._check(figures, subject.get("checkpoint"), run.chosen.name)

    def data(self) -> dict[str, str]:
        """Return the digest of the rows of each measured split."""
        parts = [subject.get("rows") or {} for subject in self.files.subjects.values()]
        return {split: digest for rows in parts for split, digest in rows.items()}

    def figure(self, metric: str) -> _Figure | None:
        """Return a figure; None if the run does not have it."""
        metrics = self.results["metrics"]
        if metric.startswith("diagnose/"):
            return self._diagnosed(metric)
        if metric in _OVER_ATTACKS and self.attacks is not None:
            return self._of_study(metric)
        if _JOINED.fullmatch(metric):
            return self._joined(metric)
        if metric in metrics:
            return _Figure(metrics[metric])
        front, _, name = metric.rpartition("/")
        doubted = f"{front}/unreliable_{name}"
        if metric.startswith("attack/") and name in _DOUBTED and doubted in metrics:
            return _Figure(metrics[doubted], unreliable=True)
        return None

    def protocol(self, metric: str) -> dict[str, Any]:
        """Return how a figure was measured, as far as rows of one table must share it."""
        stage, _, name = metric.partition("/")
        if metric == "test/pgd_accuracy":
            subject = self.files.subject(stage)
            return {"pgd": subject["pgd"]} if "pgd" in subject else {}
        if stage != "attack":
            return {}
        attack = name.rpartition("/")[0].split("+")[0]
        own: dict[str, Any] = {}
        if metric in _OVER_ATTACKS:
            names = self._planned if self.attacks is not None else self._measured
            attack, own = names[0] if names else "", {"attacks": names}
        return own | attack_protocol(self.run, attack)

    @property
    def _planned(self) -> list[str]:
        """Attacks of a mean that the study asks for."""
        return [name for name in SIX if name in (self.attacks or ())]

    @property
    def _measured(self) -> list[str]:
        """Attacks of a mean with a reliable accuracy."""
        return [name for name in SIX if f"attack/{name}/accuracy" in self.results["metrics"]]

    def _joined(self, metric: str) -> _Figure | None:
        """Return the accuracy under several attacks, which no attack files."""
        if (samples := self._over_attacks(metric)) is None:
            return None
        figures = filter(None, map(self.figure, self._attacks_of(metric)))
        # One attack that sees its way makes it a measurement.
        return _Figure(samples.figure(), all(figure.unreliable for figure in figures))

    def _of_study(self, metric: str) -> _Figure | None:
        """Return the mean, or the worst, of the attacks that the study asks for."""
        metrics, planned, measured = self.results["metrics"], self._planned, self._measured
        # Other runs have all of the attacks: without a blind one the figure is another one.
        unreliable = not {*planned} <= {*measured}
        if {*measured} <= {*planned}:
            return _Figure(metrics[metric], unreliable) if metric in metrics else None
        # The run has further attacks, made by hand: the figure is made again without them.
        accuracies = {
            name: AttackAccuracy(
                accuracy=metrics[f"attack/{name}/accuracy"] or 0.0,
                samples=int(metrics.get(f"attack/{name}/samples") or 0),
                clean=None,
                subject=attack_ledger(self.run, name).subject(),
            )
            for name in planned
            if name in measured
        }
        value = mean_accuracy(accuracies).value
        # Without a value, the attacks differ in their protocol.
        if metric == WORST and value is not None:
            samples = self._over_attacks(metric)
            value = None if samples is None else samples.figure()
        return None if value is None else _Figure(value, unreliable)

    def _diagnosed(self, metric: str) -> _Figure | None:
        """Return a number of `diagnostics.json`, such as `diagnose/RECIPE/distances/mean`."""
        path = self.run.path / "diagnostics.json"
        if not path.is_file():
            return None
        try:
            content = read_json(path, "results of diagnose")
        except DataError as error:
            msg = f"got {path}, which is no JSON, expected it: delete it, and measure again"
            raise StudyError(msg) from error
        _, recipe, *keys = metric.split("/")
        value: Any = content["attacks"].get(recipe)
        if value is None:
            return None
        self._check(path, value["weights"]["checkpoint"])
        for key in keys:
            try:
                value = value[int(key)] if isinstance(value, list) else value[key]
            except (IndexError, KeyError, TypeError, ValueError):
                return None
        # In Python bool is an int.
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            msg = (
                f"got metric {metric}, which is no number in {path}, expected the way to one, for "
                f"example diagnose/{recipe}/distances/mean"
            )
            raise StudyError(msg)
        return _Figure(value)

    def revisions(self) -> tuple[str, ...]:
        """Revisions of the programs that wrote figures of the run; none if not recorded."""
        programs = [str(subject.get("program", "")) for subject in self.files.subjects.values()]
        named = [match[1] for program in programs if (match := _REVISION.search(program))]
        named.append(self.results.get("versions", {}).get("revision", ""))
        return tuple(sorted({revision for revision in named if revision not in ("", "unknown")}))

    def collapsed(self) -> bool | None:
        """Return True if the model predicts one class only; None if unknown."""
        paths = [self.run.path / file for file in _PREDICTED]
        paths += sorted(self.run.path.glob("certificates_*.jsonl"))
        paths += sorted((self.run.path / "attacks").glob("*.jsonl"))
        for path in paths:
            try:
                answers = self._read(path, _predicted, "mean") if path.is_file() else None
            except StudyError:  # other weights: an error only if a figure depends on this file
                continue
            if answers is not None and len(set(answers.labels)) > 1:
                labels, predictions = (
                    list(map(int, values)) for values in (answers.labels, answers.outcomes)
                )
                return Predictions(labels=labels, predictions=predictions).collapsed
        return None

    def samples(self, metric: str, value: float) -> _Samples | None:
        """Return the outcomes of a figure; None if no file has them.

        Raises:
            StudyError: they result in another figure, or are about other weights.
        """
        if metric in _OVER_ATTACKS or _JOINED.fullmatch(metric):
            samples = self._over_attacks(metric)
            # Runs of older versions may have a figure over fewer attacks.
            agrees = samples is not None and agree(samples.figure(), value, samples.kind)
            return samples if agrees else None
        problem = None
        files, outcome = _source(metric)
        for file in files:
            path = self.run.path / file
            samples = self._read(path, outcome, kind_of(metric)) if path.is_file() else None
            if samples is None:
                continue
            if agree(figure := samples.figure(), value, samples.kind):
                return samples
            problem = problem or (
                f"got {metric} = {value:.6g} in {self.run.results_path} and {figure:.6g} from "
                f"the {len(samples.ids)} samples of {path}, expected the same: measure the run "
                "again"
            )
        if problem is not None:
            raise StudyError(problem)
        return None

    def _attacks_of(self, metric: str) -> list[str]:
        """Return the accuracies that a figure over several attacks combines."""
        if metric in _OVER_ATTACKS:
            combined = self._measured if self.attacks is None else self._planned
            return [f"attack/{name}/accuracy" for name in self._measured if name in combined]
        return [f"attack/{name}/accuracy" for name in metric.split("/")[1].split("+")]

    def _over_attacks(self, metric: str) -> _Samples | None:
        """Return the combined outcomes of each sample under several attacks."""
        recorded = []
        for accuracy in self._attacks_of(metric):
            figure = self.figure(accuracy)
            if figure is None or figure.value is None:
                return None
            if (samples := self.samples(accuracy, figure.value)) is None:
                return None
            recorded.append(samples)
        # The same samples are needed in every attack.
        if len({attack.samples for attack in recorded}) != 1:
            return None
        by_sample = zip(*(attack.outcomes for attack in recorded), strict=True)
        combine = _OVER_ATTACKS.get(metric, min)
        return replace(recorded[0], outcomes=tuple(map(combine, by_sample)), predictions=None)

    def _read(self, path: Path, outcome: OutcomeOf, kind: Kind) -> _Samples | None:
        """Return the outcomes of a file; None if samples have no label, or one per word."""
        if path.parent.name == "attacks":
            # Records of attacks do not name the weights; the file next to them does.
            self._check(path, Ledger(path).subject().get("checkpoint"))
        try:
            # Samples with an error are in no figure, see `attacks.summary`.
            lines = [line for line in self.files.read(path) if line.get("outcome") != "error"]
            for checkpoint in {line.get("checkpoint") for line in lines}:
                self._check(path, checkpoint)
            if not all(isinstance(line.get("label"), int | float) for line in lines):
                return None
            outcomes = tuple(outcome(line) for line in lines)
            labels = tuple(float(line["label"]) for line in lines)
            predictions = tuple(_predicted(line) for line in lines)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StudyError):
                raise
            msg = f"got {path} with other lines than records of samples, expected these: delete it"
            raise StudyError(msg) from error
        if kind == "f1":
            # As class 1 against all others, whichever the positive class is.
            names = list(checkpoint_text(self.run).get("class_names") or ())
            name = self.results.get("positive")
            positive = names.index(name) if name in names else 1
            outcomes, labels = (
                tuple(float(value == positive) for value in values) for values in (outcomes, labels)
            )
        ids = tuple(int(line["sample_id"]) for line in lines)
        return _Samples(
            kind, ids, outcomes, labels, None if predictions == outcomes else predictions
        )

    def _check(self, source: Path | str, theirs: Any, ours: str = "") -> None:
        """Raise StudyError if figures or a file are about other weights."""
        if self.files.is_other(theirs):
            ours = ours or f"run {self.run.name}"
            msg = (
                f"got {source} about other weights ({str(theirs)[:SHORT]}) than those of {ours} "
                f"({self.files.weights[:SHORT]}), expected the same: measure it again"
            )
            raise StudyError(msg)
