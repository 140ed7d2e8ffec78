"""Reads the figures of a finished run, and the outcome of each sample for compared figures."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from app.study.outcomes import samples_digest
from app.study.study import Cell, CellFigures, Column, Study, StudyError
from app.study.study_file import MEAN, WORST
from attacks.digests import SHORT
from attacks.recipes import SIX
from measure.evidence import RunReader
from measure.labelled_predictions import Predictions
from measure.uncertainty import Kind, agree, kind_of, score
from run_files.certified_bounds import FILE_OF
from run_files.checkpoint_lookup import checkpoint_text
from run_files.ledger import Ledger
from run_files.results import Results
from run_files.run_directory import RunDirectory, existing
from text.bounded_files import DataError, read_json

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
    columns = [column for column in study.columns if column.corpus in (None, cell.corpus)]
    columns = columns if cell.corpus else list(study.columns)
    return collect_run(
        existing(runs_dir, cell.run), columns, row=cell.row, corpus=cell.corpus, seed=cell.seed
    )


def collect_run(
    run: RunDirectory, columns: Sequence[Column], *, row: str, corpus: str, seed: int
) -> CellFigures:
    """Read a run; see `collect`.

    Args:
        run: the run.
        columns: the figures to read.
        row: name of its row in the table.
        corpus: name of its corpus in the table.
        seed: of the run.

    Raises:
        StudyError: see `collect`.
    """
    reader = _Reader.of(run)
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
    return CellFigures(
        row=row,
        corpus=corpus,
        seed=seed,
        run=run.name,
        values={name: figure.value for name, (_, figure) in figures.items()},
        unreliable=tuple(name for name, (_, figure) in figures.items() if figure.unreliable),
        collapsed=reader.collapsed(),
        outcomes={name: group.outcomes for name, group in samples.items()},
        samples={name: group.digest for name, group in samples.items()},
        ids={name: group.ids for name, group in samples.items()},
        labels={name: group.labels for name, group in samples.items()},
        predictions={
            name: group.predictions
            for name, group in samples.items()
            # Outcomes that are predictions are stored once.
            if group.predictions is not None and group.predictions != group.outcomes
        },
        weights=reader.files.weights,
        revisions=reader.revisions(),
        data=reader.data(),
        seconds=dict(reader.results["seconds"]),
    )


class _Figure(NamedTuple):
    value: float | None
    unreliable: bool = False


@dataclass(frozen=True)
class _Samples:
    """The outcome of each sample behind a figure, in the order of their ids.

    Attributes:
        kind: formula of the figure.
        ids: of the samples.
        outcomes: as `CellFigures` has them.
        labels: gold values.
        predictions: of the model; None for a mean over several attacks.
    """

    kind: Kind
    ids: tuple[int, ...]
    outcomes: tuple[float, ...]
    labels: tuple[float, ...]
    predictions: tuple[float, ...] | None

    @property
    def digest(self) -> str:
        """SHA-256 of ids and labels."""
        return samples_digest(self.ids, self.labels)

    def figure(self) -> float:
        """Return the figure of these outcomes."""
        return score(self.outcomes, kind=self.kind, labels=self.labels)


_OVER_ATTACKS: Mapping[str, Callable[[Sequence[float]], float]] = {MEAN: fmean, WORST: min}
"""The figure of one sample, from its outcomes under several attacks."""
_JOINED = re.compile(r"attack/([^/]+\+[^/]+)/accuracy")
"""The accuracy under several attacks: the share of the texts that withstand all of them."""
OutcomeOf = Callable[[Mapping[str, Any]], float]
"""The outcome of a sample, from its line in a file of records."""
_Source = tuple[str, OutcomeOf]
"""A file of the run with the outcomes of a figure."""


def _attacks_of(metric: str) -> list[str]:
    """Return the accuracies under each of the attacks of `attack/A+B/accuracy`."""
    return [f"attack/{name}/accuracy" for name in metric.split("/")[1].split("+")]


def _right(line: Mapping[str, Any]) -> float:
    return float(line["prediction"] == line["label"])


def _predicted(line: Mapping[str, Any]) -> float:
    return float(line["prediction"])


def _sources(metric: str) -> tuple[_Source, ...]:
    """Return the files that may have the outcomes of a metric, in the order of preference."""
    stage, _, name = metric.partition("/")
    if metric == "test/accuracy" or kind_of(metric) != "mean":
        outcome = _right if metric == "test/accuracy" else _predicted
        # The file of `test` comes first: other batches may round a prediction differently.
        files = ("pgd.jsonl", "predictions.jsonl", *FILE_OF.values())
        return tuple((file, outcome) for file in files) if stage == "test" else ()
    if metric == "test/pgd_accuracy":
        return (("pgd.jsonl", lambda line: float(line["survived"])),)
    if stage.startswith("certify"):
        return _of_certificates(stage, name)
    attack, _, figure = name.rpartition("/")
    if stage == "attack" and figure.removeprefix("unreliable_") == "accuracy":
        # A sample counts if its clean prediction is correct and its attack has failed.
        file = f"attacks/{attack}.jsonl"
        return ((file, lambda line: _right(line) * (line["outcome"] != "succeeded")),)
    if stage == "attack" and figure == "clean_accuracy":
        return ((f"attacks/{attack}.jsonl", _right),)
    return ()


def _of_certificates(stage: str, name: str) -> tuple[_Source, ...]:
    if stage not in FILE_OF:
        # A certificate in words, named after its threat.
        file = f"certificates_{stage.removeprefix('certify_')}.jsonl"
        figure, _, k = name.partition("@")
        if figure != "accuracy":
            return ()
        if not k:
            return ((file, _right),)
        return ((file, lambda line: _right(line) * float(line["holds"][k])),)
    certified = _certified(name)
    return () if certified is None else ((FILE_OF[stage], certified),)


def _certified(name: str) -> OutcomeOf | None:
    """Return the function that reads the outcome of a line of certificates."""
    if name == "radius":
        return lambda line: float(line["radius"])
    if name == "radius_correct":
        return lambda line: _right(line) * float(line["radius"])
    if not name.startswith("accuracy@"):
        return None
    limit = float(name.removeprefix("accuracy@"))
    # accuracy@0 is the clean accuracy: it also counts a radius of 0.
    return lambda line: _right(line) * (float(line["radius"]) > limit or limit == 0)


@dataclass(frozen=True)
class _Reader:
    """The figures of a run, and the outcomes of their samples.

    Attributes:
        files: reader of its files.
        results: content of its `results.json`.
    """

    files: RunReader
    results: Results

    @classmethod
    def of(cls, run: RunDirectory) -> "_Reader":
        """Return the reader of a run.

        Raises:
            StudyError: no figures, or some about other weights than those of the run.
        """
        files = RunReader(run)
        if files.results is None:
            msg = f"got run {run.name} without results.json, expected a stage of it to have ended"
            raise StudyError(msg)
        for stage, subject in files.subjects.items():
            if files.is_other(theirs := subject.get("checkpoint")):
                msg = (
                    f"got run {run.name} with figures of {stage} about other weights "
                    f"({str(theirs)[:SHORT]}) than those of {run.chosen.name} "
                    f"({files.weights[:SHORT]}), expected the same: measure it again"
                )
                raise StudyError(msg)
        return cls(files, files.results)

    @property
    def run(self) -> RunDirectory:
        """The run."""
        return self.files.run

    def data(self) -> dict[str, str]:
        """Return the digest of the rows of each measured split."""
        digests: dict[str, str] = {}
        for subject in self.files.subjects.values():
            digests |= subject.get("rows") or {}
        return digests

    def figure(self, metric: str) -> _Figure | None:
        """Return a figure; None if the run does not have it."""
        metrics = self.results["metrics"]
        if metric.startswith("diagnose/"):
            return self._diagnosed(metric)
        if _JOINED.fullmatch(metric):
            return self._joined(metric)
        if metric in metrics:
            return _Figure(metrics[metric])
        front, _, name = metric.rpartition("/")
        doubted = f"{front}/unreliable_{name}"
        if metric.startswith("attack/") and name in _DOUBTED and doubted in metrics:
            return _Figure(metrics[doubted], unreliable=True)
        return None

    def _joined(self, metric: str) -> _Figure | None:
        """Return the accuracy under several attacks, which no attack files; see `_JOINED`."""
        samples = self._over_attacks(attacks := _attacks_of(metric), min)
        if samples is None:
            return None
        figures = filter(None, map(self.figure, attacks))
        # One attack that sees its way makes it a measurement.
        return _Figure(samples.figure(), all(figure.unreliable for figure in figures))

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
        files = ["pgd.jsonl", "predictions.jsonl", *FILE_OF.values()]
        paths = [self.run.path / file for file in files]
        paths += sorted(self.run.path.glob("certificates_*.jsonl"))
        paths += sorted((self.run.path / "attacks").glob("*.jsonl"))
        for path in paths:
            try:
                answers = self._read(path, _predicted, "mean") if path.is_file() else None
            except StudyError:  # other weights: an error only if a figure depends on this file
                continue
            if answers is not None and len(set(answers.labels)) > 1:
                return Predictions(
                    labels=[int(label) for label in answers.labels],
                    predictions=[int(prediction) for prediction in answers.outcomes],
                ).collapsed
        return None

    def samples(self, metric: str, value: float) -> _Samples | None:
        """Return the outcomes of a figure; None if no file has them.

        Raises:
            StudyError: they result in another figure, or are about other weights.
        """
        if _JOINED.fullmatch(metric):
            return self._over_attacks(_attacks_of(metric), min)
        if metric in _OVER_ATTACKS:
            names = [f"attack/{name}/accuracy" for name in SIX]
            names = [name for name in names if name in self.results["metrics"]]
            samples = self._over_attacks(names, _OVER_ATTACKS[metric])
            # Runs of older versions may have a figure over fewer attacks.
            if samples is not None and agree(samples.figure(), value, samples.kind):
                return samples
            return None
        problem = None
        for file, outcome in _sources(metric):
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

    def _over_attacks(
        self, metrics: Sequence[str], combine: Callable[[Sequence[float]], float]
    ) -> _Samples | None:
        """Return the combined outcomes of each sample under several attacks.

        Args:
            metrics: their accuracies.
            combine: the figure of a sample, from its outcomes.
        """
        figures = {metric: self.figure(metric) for metric in metrics}
        recorded = [
            samples
            for metric, figure in figures.items()
            if figure is not None
            and figure.value is not None
            and (samples := self.samples(metric, figure.value)) is not None
        ]
        # The same samples are needed in every attack.
        if len(recorded) < len(metrics) or len({attack.digest for attack in recorded}) != 1:
            return None
        by_sample = zip(*(attack.outcomes for attack in recorded), strict=True)
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
            outcomes = [outcome(line) for line in lines]
            labels = [float(line["label"]) for line in lines]
            predictions = tuple(_predicted(line) for line in lines)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StudyError):
                raise
            msg = f"got {path} with other lines than records of samples, expected these: delete it"
            raise StudyError(msg) from error
        if kind == "f1":
            # As class 1 against all others, whichever the positive class is.
            positive = self._positive()
            outcomes, labels = (
                [float(value == positive) for value in values] for values in (outcomes, labels)
            )
        ids = tuple(int(line["sample_id"]) for line in lines)
        return _Samples(kind, ids, tuple(outcomes), tuple(labels), predictions)

    def _positive(self) -> int:
        """Return the positive class of F1; the second class by default."""
        names = list(checkpoint_text(self.run).get("class_names") or ())
        positive = self.results.get("positive")
        return names.index(positive) if positive in names else 1

    def _check(self, path: Path, theirs: Any) -> None:
        """Raise StudyError if a file is about other weights."""
        if self.files.is_other(theirs):
            msg = (
                f"got {path} about other weights ({str(theirs)[:SHORT]}) than those of run "
                f"{self.run.name} ({self.files.weights[:SHORT]}), expected the same: measure it "
                "again"
            )
            raise StudyError(msg)
