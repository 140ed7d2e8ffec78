"""Tables with a column for each run: what was trained, main figures, settings."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from app.report.clean_part import Calibration, CleanFigures, is_labelled, labelled_records
from app.report.page_parts import (
    FigureCell,
    estimate_cell,
    format_interval,
    format_number,
    share_cell,
)
from attacks.digests import SHORT
from measure.evidence import PROVEN, Evidence
from run_files.harmless_settings import HARMLESS_IN_FIGURES
from run_files.score_intervals import score_interval
from text.estimates import mean
from text.subjects import flat

T = TypeVar("T")
_TEST_METRICS = ("f1", "spearman", "pearson", "bits_per_character", "loss")
"""Metrics of `test`, after accuracy and macro-F1."""
_CALIBRATION = {"ece": "expected calibration error", "brier": "Brier score, from 0 to 2"}


def rows_of_runs(columns: Sequence[Mapping[str, T]]) -> list[tuple[str, list[T | None]]]:
    """Return rows of a name and its value in each run."""
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, [column.get(name) for column in columns]) for name in names]


def run_facts(evidence: Evidence) -> dict[str, FigureCell]:
    """Return method, corpus, weights and versions of a run."""
    results, settings = evidence.results, evidence.settings
    stages = evidence.subjects.values()
    stage = next((subject for subject in stages if "step" in subject), {})
    facts = {
        "method": results["method"] if results else _class(settings, "model"),
        "trained on": results["corpus"] if results else _class(settings, "data"),
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


def _class(settings: Mapping[str, Any], part: str) -> str:
    setting = settings.get(part)
    path = setting.get("class_path") if isinstance(setting, Mapping) else setting
    return str(path).rpartition(".")[2] if path else "unknown"


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
    evidence: Evidence, clean: CleanFigures | None, calibration: Calibration | None
) -> dict[str, FigureCell]:
    """Return the figures of the test split by their titles."""
    metrics = evidence.metrics
    figures = {}
    if "test/accuracy" in metrics:
        measured = labelled_records(evidence)
        count = 0 if measured is None else len(measured.records)
        figures["accuracy"] = share_cell(metrics["test/accuracy"], count)
    # From the records where there are some: `results.json` may lack it.
    macro = metrics.get("test/macro_f1") if clean is None else clean.macro
    if macro is not None:
        figures["F1, mean of the classes"] = _score_cell(
            {"test/macro_f1": macro, **metrics}, "macro_f1"
        )
    if "predict/largest_class" in metrics:
        # Near 1, the model has collapsed, and its robustness is none.
        share = share_cell(metrics["predict/largest_class"], 0)
        figures["share of the most frequent prediction"] = share
    for name in _TEST_METRICS:
        if f"test/{name}" in metrics:
            figures[_metric_title(name, evidence)] = _score_cell(metrics, name)
    figures |= {
        t: _score_cell(metrics, n) for n, t in _CALIBRATION.items() if f"test/{n}" in metrics
    }
    if calibration is not None and "test/ece" not in metrics:
        error = format_number(calibration.error)
        figures[_CALIBRATION["ece"]] = FigureCell(error)
    epsilon = metrics.get("test/pgd_epsilon")
    if "test/pgd_accuracy" in metrics:
        count = 0 if evidence.pgd is None else len(evidence.pgd.records)
        title = "accuracy under PGD" + (f", eps {epsilon:g}" if epsilon is not None else "")
        figures[title] = share_cell(metrics["test/pgd_accuracy"], count)
    figures |= _word_figures(evidence) | _radius_figures(evidence)
    if evidence.attacks:
        lowest = min(evidence.attacks, key=lambda attack: attack.summary.accuracy.value)
        accuracy, before = lowest.summary.accuracy, lowest.summary.clean_accuracy
        figures["accuracy under the strongest text attack"] = FigureCell(
            f"{format_number(accuracy.value)} ({lowest.name})", format_interval(accuracy)
        )
        # Not that of all texts: an attack may cover only a few of them.
        figures["accuracy on the texts of that attack, before it"] = estimate_cell(before)
    return figures


def _score_cell(metrics: Mapping[str, float | None], name: str) -> FigureCell:
    estimate = score_interval(metrics, name)
    if estimate is None:
        return FigureCell(format_number(metrics[f"test/{name}"]))
    return estimate_cell(estimate)


def _metric_title(name: str, evidence: Evidence) -> str:
    """Return the title of a metric; F1 is of a class, or of the entities of a tagging."""
    if name != "f1" or not evidence.classifies:
        return name.replace("_", " ")
    positive = None if evidence.results is None else evidence.results.get("positive")
    if positive is None and len(evidence.class_names) == 2:
        positive = evidence.class_names[1]
    return "F1" if positive is None else f"F1 of {positive}"


def _radius_figures(evidence: Evidence) -> dict[str, FigureCell]:
    if evidence.certificates is None:
        return {}
    figures, records = {}, evidence.certificates.records
    if is_labelled(records):
        # A wrong prediction has no certified radius.
        radii = [r["radius"] * (r["label"] == r["prediction"]) for r in records]
        title = "mean certified radius, 0 where wrong"
    else:
        radii = [float(record["radius"]) for record in records]
        title = "mean certified radius, right or wrong"
    figures[title] = estimate_cell(mean(radii))
    for name, value in evidence.metrics.items():
        stage, _, radius = name.partition("/accuracy@")
        if radius and stage in PROVEN:
            figures[f"certified accuracy at radius {radius}"] = share_cell(value, len(records))
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
