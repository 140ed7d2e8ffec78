"""The tables of any runs side by side, and the differences of their settings.

Runs that differ only by the seed are one row. Every row is compared with the first one, where both
were measured in the same way.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.study import study_json, tables
from app.study.collect import attack_protocol, collect_run
from app.study.study import Column, Study, StudyError, StudyRow
from app.study.study_file import MEAN, WORST
from app.study.table_formats import Table, latex, markdown
from attacks.recipes import SIX
from measure.uncertainty import is_share
from measure.verdict import judge_run
from run_files.harmless_settings import HARMLESS_IN_FIGURES
from run_files.results import Results
from run_files.run_directory import RunDirectory, existing
from run_files.summary_table import notes
from run_files.version import versions
from text.bounded_files import read_json
from text.subjects import differences, flat
from training.resume import PARTS

_USUAL = (
    *("test/accuracy", "test/macro_f1", "test/f1", "test/spearman", "test/pearson"),
    *("test/recall", "test/false_alarms", "test/recall_at_0.01", "test/auc"),
    *("test/ece", "test/pgd_accuracy"),
    *("certify/radius_correct", "certify/accuracy@.*"),
)
"""Patterns of the metrics that are shown by default, besides the accuracy under attacks."""
_HARMLESS_ABOUT = {
    *("checkpoint", "file", "epoch", "step", "training_ended", "seed", "program"),  # the weights
    *("precision", "radii", "threat_from"),  # the machine
}
"""Entries of `about` that do not change the meaning of a figure."""
_ROWS = "rows of "


def compare_runs(
    runs_dir: Path, names: Sequence[str], metrics: Sequence[str], form: tables.Format
) -> str:
    """Return the tables of some runs; the first run is the baseline.

    Without `metrics` the tables have the usual ones.

    Raises:
        StudyError: fewer than two runs, runs without figures, or figures that must not be averaged.
    """
    if len(different := list(dict.fromkeys(names))) < 2:
        msg = f"got {len(different)} run, expected at least two different ones to compare"
        raise StudyError(msg)
    rows = _group([_Run.read(existing(runs_dir, name)) for name in different])
    columns = _columns(rows, metrics)
    runs = [(row, run) for row in rows for run in row.runs]
    study = Study(
        name="compare",
        title="Runs side by side",
        about="",
        notes=tuple(
            f"{run.run.name}: {line}"
            for _, run in runs
            for line in [judge_run(run.run, run.results).headline, *notes(run.results).splitlines()]
        ),
        rows=tuple(
            StudyRow(name=row.name, title=row.name, seeds=row.seeds, stages=()) for row in rows
        ),
        columns=tuple(columns),
        against=tuple((row.name, rows[0].name) for row in rows[1:]),
        compared=tuple(column.name for column in columns),
        digest="",
    )
    figures = [
        collect_run(run.run, columns, row=row.name, corpus="", seed=run.results["seed"])
        for row, run in runs
    ]
    content = study_json.content(study, figures, versions(), refused=_refused(rows, columns))
    if form == "csv":
        return tables.as_csv(content)
    settings = _different_settings(rows)
    if form == "latex":
        parts = [*tables.main_tables(content), *tables.comparisons(content), *settings]
        return latex(parts, tables.notes(content), label=study.name)
    return tables.render(content, form) + "".join(f"\n{markdown(table)}\n" for table in settings)


@dataclass(frozen=True)
class _Run:
    """A run; its flat settings leave out the seed and all that does not change a result."""

    run: RunDirectory
    results: Results
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, run: RunDirectory) -> "_Run":
        results = run.results()
        if results is None:
            msg = (
                f"got run {run.name} without figures, expected some: "
                f"`python -m steadfast test --run {run.name}` measures it"
            )
            raise StudyError(msg)
        config = run.config()
        seed = int(config["seed_everything"])
        settings = {
            # The path of an earlier run, which this one starts from, names the seed as well.
            name.replace(".init_args", ""): re.sub(rf"-s{seed}(?=/|$)", "-sSEED", value)
            if isinstance(value, str)
            else value
            for name, value in flat({k: config[k] for k in PARTS if k in config}).items()
            if name not in HARMLESS_IN_FIGURES and name != "seed_everything"
        }
        return cls(run, results, settings)

    @property
    def name(self) -> str:
        """Name of the run without its seed."""
        return re.sub(rf"[-_.]?(s|seed)?[-_.]?{self.results['seed']}$", "", self.run.name)

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, without the flag that an attack may have set."""
        return [name.replace("/unreliable_", "/") for name in self.results["metrics"]]

    def protocol(self, metric: str) -> dict[str, Any]:
        """Return how a figure was measured."""
        metrics, subjects = self.results["metrics"], self.results.get("about", {})
        if metric in (MEAN, WORST):
            attacks = [name for name in SIX if f"attack/{name}/accuracy" in metrics]
            return {"attacks": attacks} | {
                f"{key} of {name}": value
                for name in attacks
                for key, value in self.protocol(f"attack/{name}/accuracy").items()
            }
        stage, _, figure = metric.partition("/")
        if stage in ("transfer", "diagnose"):
            return self._of_attack(stage, figure)
        attack = figure.rpartition("/")[0]
        stage = f"attack/{attack}" if stage == "attack" else stage
        protocol = dict(subjects.get(stage, {}))
        if attack and stage.startswith("attack/"):
            # `results.json` of older versions does not have the threat of an attack.
            own = attack_protocol(self.run, attack)
            protocol |= {key: own[key] for key in ("threat.name", "threat.k") if key in own}
        # PGD changes only the accuracy under PGD.
        if metric != "test/pgd_accuracy":
            protocol.pop("pgd", None)
        protocol.pop("rows", None)
        # The rows of each split, from all stages of the run.
        for subject in subjects.values():
            protocol |= {f"{_ROWS}{k}": rows for k, rows in (subject.get("rows") or {}).items()}
        if (samples := metrics.get(f"{stage}/samples")) is not None:
            protocol["num_samples"] = int(samples)
        return {key: value for key, value in protocol.items() if key not in _HARMLESS_ABOUT}

    def _of_attack(self, stage: str, figure: str) -> dict[str, Any]:
        """Return how a figure about the texts of an attack was measured."""
        attack, *parts = figure.split("/")
        own = self.protocol(f"attack/{attack}/accuracy")
        if stage == "diagnose":
            path = self.run.path / "diagnostics.json"
            content = read_json(path, "results of diagnose") if path.is_file() else {"attacks": {}}
            options: dict[str, Any] = content["attacks"].get(attack, {}).get("options", {})
            return own | options
        subject: Mapping[str, Any] = self.results.get("about", {}).get(f"{stage}/{attack}", {})
        # Without `of/RUN`, the texts are those of the first run.
        source = parts[1] if parts[0] == "of" else next(iter(subject.get("sources", ())), "")
        seed = self.results["seed"]
        return own | {"texts of": re.sub(rf"-s{seed}(?=/|$)", "-sSEED", source)}


@dataclass(frozen=True)
class _Row:
    """Runs, at least one, that differ only by the seed."""

    name: str
    runs: Sequence[_Run]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({run.results["seed"] for run in self.runs}))

    def measured(self, metric: str) -> list[_Run]:
        """Return the runs with a metric; figures of a diagnosis are in a file of their own."""
        diagnosed = metric.startswith("diagnose/")
        return [run for run in self.runs if diagnosed or metric in run.metrics]

    def protocol(self, metric: str) -> dict[str, Any]:
        """Return how a figure was measured; a StudyError if the runs differ in it."""
        first, *rest = self.measured(metric) or self.runs[:1]
        for run in rest:
            if different := _differences(first.protocol(metric), run.protocol(metric)):
                msg = (
                    f"got runs {first.run.name} and {run.run.name}, which differ only by the "
                    f"seed, with {metric} measured in other ways ({different}), expected the same, "
                    "to average them: measure one of them again, or choose others by --metrics"
                )
                raise StudyError(msg)
        return first.protocol(metric)


def _group(runs: Sequence[_Run]) -> list[_Row]:
    """Return the rows, in the order of their first runs."""
    groups: dict[str, list[_Run]] = {}
    for run in runs:
        # Everything but the seed.
        key = json.dumps([run.results["corpus"], run.settings], sort_keys=True, default=str)
        groups.setdefault(key, []).append(run)
    rows: list[_Row] = []
    for group in groups.values():
        name, *rest = [run.name for run in group]
        used = {row.name for row in rows}
        # A row has the common name of its runs without the seed, if there is a free one.
        own = not rest or not name or {*rest} != {name} or name in used
        rows.append(_Row(group[0].run.name if own else name, group))
    return rows


def _refused(rows: Sequence[_Row], columns: Sequence[Column]) -> dict[study_json.Pair, str]:
    """Return the comparisons of figures that were measured in different ways, with the reason."""
    refused = {}
    for column in columns:
        first = rows[0].protocol(column.metric)
        for row in rows[1:]:
            own = row.protocol(column.metric)
            measured = row.measured(column.metric) and rows[0].measured(column.metric)
            if measured and (different := _differences(first, own)):
                refused[row.name, rows[0].name, column.name] = f"measured with {different}"
    return refused


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Return the settings of a measurement that differ; "" if they are equal."""
    parts = []
    for name, one, other in sorted(differences(first, second), key=lambda change: change.name):
        if not name.startswith(_ROWS):
            parts.append(f"{name} {_short(one)} and {_short(other)}")
        elif name in first and name in second:  # a run may not record its rows
            parts.append(f"other {name}")
    return ", ".join(parts)


def _different_settings(rows: Sequence[_Row]) -> list[Table]:
    """Return the table of the settings in which the rows differ; none for a single row."""
    if len(rows) < 2:
        return []
    settings = [{"corpus": row.runs[0].results["corpus"], **row.runs[0].settings} for row in rows]
    names = dict.fromkeys(name for values in settings for name in values)
    changed = {change.name for own in settings for change in differences(settings[0], own)}
    lines = [
        [name, *(_short(v[name]) if name in v else tables.NONE for v in settings)]
        for name in names
        if name in changed
    ]
    header = ["setting", *(row.name for row in rows)]
    return [Table(title="Settings that differ", header=header, rows=lines, labels=len(header))]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 48 else f"{text[:45]}..."


# The metrics


def _columns(rows: Sequence[_Row], metrics: Sequence[str]) -> list[Column]:
    """Return the columns of some metrics, which some run must have, or of the usual ones."""
    available = dict.fromkeys(name for row in rows for run in row.runs for name in run.metrics)
    names = list(dict.fromkeys(metrics)) or [
        *(name for usual in _USUAL for name in available if re.fullmatch(usual, name)),
        # Before each accuracy under attack, that of the same texts without attack.
        *(
            name
            for attacked in available
            if attacked.startswith("attack/") and attacked.endswith("/accuracy")
            for name in (attacked.replace("/accuracy", "/clean_accuracy"), attacked)
            if name in available
        ),
    ]
    # Figures of a diagnosis are not in `results.json`; `collect` reads them.
    unknown = [n for n in names if not n.startswith("diagnose/") and n not in available]
    if unknown or not names:
        msg = (
            f"got --metrics {' '.join(unknown)}, which no run has, expected some of "
            f"{', '.join(sorted(available)) or 'theirs, but they have none'}"
        )
        raise StudyError(msg)
    # The program does not know which direction is better.
    return [
        Column(name=name, title=f"{name}, %", metric=name, scale=100.0, digits=1, better=None)
        if is_share(name)
        else Column(name=name, title=name, metric=name, digits=4, better=None)
        for name in names
    ]
