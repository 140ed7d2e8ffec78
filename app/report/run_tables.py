"""Main figures of runs: tiles, a table with a column for each run, and runs against each other."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from app.report.clean_part import Calibration, CleanFigures, is_labelled
from app.report.page_parts import FigureCell, estimate_cell, format_number, share_cell
from app.report.report_pictures import Picture, RunPoint, trade_off_picture
from attacks.digests import SHORT
from measure.evidence import PROVEN, Evidence
from measure.verdict import FigureKind, RunVerdict, VerdictFigure
from run_files.harmless_settings import HARMLESS_IN_FIGURES
from run_files.run_directory import class_name
from text.estimates import mean
from text.subjects import flat

T = TypeVar("T")
_OTHERS = {"test/bits_per_character": "Bits per character", "test/loss": "Loss"}
"""Titles of figures of `test` that no verdict has."""
_TILES = 4
"""Most tiles of a run."""


def main_figure(verdict: RunVerdict, kind: FigureKind) -> VerdictFigure | None:
    """Return the main figure of a kind: that of the strongest attack, of the widest set."""
    figures = verdict.of_kind(kind)
    if kind in ("attack", "words"):
        # A blind attack is not the strongest, however low its figure.
        return min(figures, key=lambda figure: (figure.doubted, figure.value), default=None)
    # Radii are theorems, PGD is an attack on the same vectors.
    ranked = sorted(figures, key=lambda figure: kind == "radius" and "radius" not in figure.name)
    return next(iter(ranked), None)


def tiles(verdict: RunVerdict) -> list[VerdictFigure]:
    """Return the first figures that were measured: clean, attacked, in words, radius and so on."""
    # A detector has two main figures: recall and false alarms.
    chosen = [*verdict.of_kind("clean")[:1], *verdict.of_kind("detection")[:2]]
    for kind in ("attack", "words", "radius", "calibration"):
        figure = main_figure(verdict, kind)
        chosen += [] if figure is None else [figure]
    # Scores of clean texts fill what was not measured.
    chosen += [figure for figure in verdict.figures if figure not in chosen]
    return chosen[:_TILES]


def notes_of(figure: VerdictFigure) -> str:
    """Return the references and the note of a figure; "" without any."""
    references = [f"{reference.title}: {reference.value:.3f}" for reference in figure.references]
    return "; ".join([*references, *filter(None, [figure.note])])


def trade_off(name: str, verdicts: Mapping[str, RunVerdict]) -> Picture | None:
    """Draw robust against clean accuracy of runs; None without two runs that have both."""
    panels: dict[str, Sequence[RunPoint]] = {}
    titles: dict[FigureKind, str] = {
        "attack": "Under the strongest attack",
        "words": "Certified in words",
    }
    for kind, title in titles.items():
        pairs = [
            (run, main_figure(verdict, "clean"), main_figure(verdict, kind))
            for run, verdict in verdicts.items()
            if not verdict.collapsed
        ]
        points = [
            RunPoint(run, x.estimate, y.estimate)
            for run, x, y in pairs
            if x and y and not y.doubted
        ]
        if len(points) > 1:
            panels[title] = points
    return trade_off_picture(name, panels) if panels else None


def rows_of_runs(columns: Sequence[Mapping[str, T]]) -> list[tuple[str, list[T | None]]]:
    """Return rows of a name and its value in each run."""
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, [column.get(name) for column in columns]) for name in names]


def run_facts(evidence: Evidence) -> dict[str, FigureCell]:
    """Return method, corpus, weights and versions of a run."""
    results, settings = evidence.results, evidence.settings
    kinds = {part: class_name(settings, part) or "unknown" for part in ("model", "data")}
    stages = evidence.subjects.values()
    stage = next((subject for subject in stages if "step" in subject), {})
    facts = {
        "method": results["method"] if results else kinds["model"],
        "trained on": results["corpus"] if results else kinds["data"],
        "task": evidence.task or "unknown",
        "classes": ", ".join(evidence.class_names),
        "seed": str(results["seed"] if results else settings.get("seed_everything", "unknown")),
        "weights": evidence.run.chosen.name if evidence.run.chosen.is_file() else "not in the run",
        "epoch, step": f"{stage['epoch']}, {stage['step']}" if stage else "",
        "SHA-256 of the weights": evidence.weights[:SHORT],
    }
    if results is not None:
        seconds, versions = results["seconds"], results["versions"]
        facts["training"] = f"{seconds['fit']:.0f} s" if "fit" in seconds else "has not ended"
        digests = {(subject.get("rows") or {}).get("test") for subject in stages}
        facts["rows of the test"] = ", ".join(sorted(d[:SHORT] for d in digests if d))
        names = [n for n in ("steadfast", "revision", "torch", "python") if n in versions]
        facts["measured with"] = ", ".join(f"{name} {versions[name]}" for name in names)
    return {name: FigureCell(fact) for name, fact in facts.items() if fact}


def run_settings(columns_of: Sequence[Evidence]) -> list[tuple[str, list[str], bool]]:
    """Return settings of model, data and trainer: name, value in each run, True if they differ."""
    parts = ("model", "data", "trainer", "early_stopping")
    columns = [
        flat({part: one.settings[part] for part in parts if part in one.settings})
        for one in columns_of
    ]
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = [str(column[name]) if name in column else "–" for column in columns]
        # Lightning has many settings that no user sets.
        unset = name.startswith("trainer.") and set(values) == {"None"}
        if name not in HARMLESS_IN_FIGURES and not unset:
            rows.append((name.replace(".init_args", ""), values, len(set(values)) > 1))
    return rows


def main_figures(
    evidence: Evidence,
    verdict: RunVerdict,
    clean: CleanFigures | None,
    calibration: Calibration | None,
) -> dict[str, FigureCell]:
    """Return the figures of the test split by their titles: those of the verdict, then others."""
    metrics = evidence.metrics
    figures = {}
    for figure in verdict.figures:
        # It has one number of changes for each threat; `_word_figures` has them all.
        if figure.kind == "words":
            continue
        title = _f1_title(evidence) if figure.name == "test/f1" else figure.title
        cell = FigureCell(format_number(figure.value))
        figures[title] = cell if figure.low is None else estimate_cell(figure.estimate)
    # From the records where there are some: `results.json` may lack it.
    if clean is not None and clean.macro is not None and "test/macro_f1" not in metrics:
        figures["Macro-F1"] = FigureCell(format_number(clean.macro))
    if calibration is not None and "test/ece" not in metrics:
        figures["Calibration error (ECE)"] = FigureCell(format_number(calibration.error))
    for name, title in _OTHERS.items():
        if name in metrics:
            figures[title] = FigureCell(format_number(metrics[name]))
    return figures | _word_figures(evidence) | _radius_figures(evidence)


def _f1_title(evidence: Evidence) -> str:
    """Return the title of F1, which is of a class, or of the entities of a tagging."""
    if not evidence.classifies:
        return "F1"
    positive = None if evidence.results is None else evidence.results.get("positive")
    if positive is None and len(evidence.class_names) == 2:
        positive = evidence.class_names[1]
    return "F1" if positive is None else f"F1 of {positive}"


def _radius_figures(evidence: Evidence) -> dict[str, FigureCell]:
    if evidence.certificates is None:
        return {}
    records = evidence.certificates.records
    # A wrong prediction has no certified radius.
    radii = [r["radius"] * (r["label"] == r["prediction"]) for r in records]
    title = "Mean certified radius"  # the verdict's, which has no interval
    if not is_labelled(records):
        radii, title = [r["radius"] for r in records], f"{title}, right or wrong"
    figures = {title: estimate_cell(mean([float(radius) for radius in radii]))}
    for name, value in evidence.metrics.items():
        stage, _, radius = name.partition("/accuracy@")
        if radius and stage in PROVEN:
            figures[f"Certified accuracy at radius {radius}"] = share_cell(value, len(records))
    return figures


def _word_figures(evidence: Evidence) -> dict[str, FigureCell]:
    """Return the accuracies of each `certify --threat` on the test split."""
    figures = {}
    for stage, subject in evidence.subjects.items():
        count = evidence.metrics.get(f"{stage}/samples")
        if "threat" not in subject or subject.get("split") != "test" or count is None:
            continue
        name, around = stage.removeprefix("certify_"), subject.get("around") or {}
        # Randomised smoothing certifies with probability 1 - alpha.
        with_confidence = f", with confidence {1 - around['alpha']:g}" if "alpha" in around else ""
        titles = {"accuracy": "accuracy"}
        for k in subject["k"]:
            titles[f"accuracy@{k}"] = (
                f"accuracy, k = {k}, by a formula as printed (no guarantee)"
                if "bound" in around
                else f"certified accuracy, k = {k}{with_confidence}"
            )
        for key, title in titles.items():
            value = evidence.metrics.get(f"{stage}/{key}")
            figures[f"{name}: {title}"] = share_cell(value, int(count))
    return figures
