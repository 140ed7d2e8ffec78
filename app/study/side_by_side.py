"""The tables of any runs side by side, and what differs in their settings.

Runs that differ only by the seed are one row. Every row is compared with the first one, where both
were measured in the same way.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.runs.results import Results
from app.runs.run_directory import RunDirectory, existing
from app.runs.summary_table import notes
from app.runs.version import versions
from app.study import study_json, tables
from app.study.collect import collect_run
from app.study.reuse import COMPARED, HARMLESS, leaves
from app.study.study import CellFigures, Column, StudyRow, Study, StudyError
from app.study.study_file import MEAN, SIX
from app.study.uncertainty import is_share

_USUAL = (
    *("test/accuracy", "test/f1", "test/spearman", "test/pearson", "test/pgd_accuracy"),
    *("certify/radius_correct", "certify/accuracy@"),
)
"""The metrics that are shown where runs have them, besides the accuracy under attacks."""
_OF_WEIGHTS = {"checkpoint", "file", "epoch", "step", "training_ended", "seed", "program"}
_OF_MACHINE = {"precision", "radii", "threat_from"}
"""Entries of `about` that a figure does not depend on as a figure of that name."""
_ROWS = "rows of "


def report(
    runs_dir: Path, names: Sequence[str], metrics: Sequence[str], form: tables.Format
) -> str:
    """Returns the tables of some runs.

    Args:
        runs_dir: directory of all runs.
        names: of the runs; the first one is what the others are compared with.
        metrics: what is shown; the usual ones if empty.
        form: of the tables.

    Raises:
        StudyError: fewer than two runs, runs without figures, or figures that must not be averaged.
        OSError: no such run.
    """
    if len(different := list(dict.fromkeys(names))) < 2:
        msg = f"got {len(different)} run, expected at least two to compare"
        raise StudyError(msg)
    rows = _grouped([_Run.of(existing(runs_dir, name)) for name in different])
    return _report(rows, _columns(rows, metrics), form)


@dataclass(frozen=True)
class _Run:
    """A run.

    Attributes:
        run: its directory.
        results: content of its `results.json`.
        settings: flat, without the seed and what does not change a result.
    """

    run: RunDirectory
    results: Results
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, run: RunDirectory) -> "_Run":
        found = run.results()
        if found is None:
            msg = (
                f"got run {run.name} without figures, expected some: "
                f"`python -m steadfast test --run {run.name}` measures it"
            )
            raise StudyError(msg)
        config = run.config()
        seed = int(config["seed_everything"])
        flat = leaves({key: config[key] for key in COMPARED if key in config})
        known = {
            # What a run starts from has a seed of its own in its name.
            name.replace(".init_args", ""): re.sub(rf"-s{seed}(?=/|$)", "-sSEED", value)
            if isinstance(value, str)
            else value
            for name, value in flat.items()
            if name not in HARMLESS and name != "seed_everything"
        }
        return cls(run, found, known)

    @property
    def name(self) -> str:
        """Name of the run without its seed."""
        return re.sub(rf"[-_.]?(s|seed)?[-_.]?{self.results['seed']}$", "", self.run.name)

    def protocol(self, metric: str) -> dict[str, Any]:
        """The way in which a figure was measured."""
        if metric == MEAN:
            parts = [name for name in SIX if f"attack/{name}/accuracy" in self.results["metrics"]]
            return {"attacks": parts} | {
                f"{key} of {name}": value
                for name in parts
                for key, value in self.protocol(f"attack/{name}/accuracy").items()
            }
        stage, _, rest = metric.partition("/")
        stage = f"attack/{rest.rpartition('/')[0]}" if stage == "attack" else stage
        about = dict(self.results.get("about", {}).get(stage, {}))
        if metric != "test/pgd_accuracy":
            about.pop("pgd", None)
        about.pop("rows", None)
        for other in self.results.get("about", {}).values():
            about |= {f"{_ROWS}{split}": rows for split, rows in (other.get("rows") or {}).items()}
        samples = self.results["metrics"].get(f"{stage}/samples")
        about |= {} if samples is None else {"num_samples": int(samples)}
        return {k: v for k, v in about.items() if k not in _OF_WEIGHTS | _OF_MACHINE}


@dataclass(frozen=True)
class _Row:
    """Runs that differ only by the seed.

    Attributes:
        name: of the row.
        runs: at least one.
    """

    name: str
    runs: Sequence[_Run]

    def protocol(self, metric: str) -> dict[str, Any]:
        """The way in which a figure was measured.

        Raises:
            StudyError: the runs differ in it.
        """
        first, *others = [one for one in self.runs if _has(one, metric)] or self.runs[:1]
        for other in others:
            if different := _differences(first.protocol(metric), other.protocol(metric)):
                msg = (
                    f"got runs {first.run.name} and {other.run.name}, which differ only by the "
                    f"seed, with {metric} measured in other ways ({different}), expected the same, "
                    "to average them: measure one of them again, or choose others by --metrics"
                )
                raise StudyError(msg)
        return first.protocol(metric)


def _grouped(runs: Sequence[_Run]) -> list[_Row]:
    """The rows, in the order of their first runs."""
    groups: dict[str, list[_Run]] = {}
    for one in runs:
        key = json.dumps([one.results["corpus"], one.settings], sort_keys=True, default=str)
        groups.setdefault(key, []).append(one)
    rows: list[_Row] = []
    for every in groups.values():
        name, *others = [one.name for one in every]
        taken = {row.name for row in rows}
        alone = not others or not name or {*others} != {name} or name in taken
        rows.append(_Row(every[0].run.name if alone else name, every))
    return rows


def _report(rows: Sequence[_Row], columns: Sequence[Column], form: tables.Format) -> str:
    """The tables, and what differs in the settings."""
    study = Study(
        name="compare",
        title="Runs side by side",
        about="",
        notes=tuple(_notes(rows)),
        rows=tuple(
            StudyRow(
                name=row.name,
                title=row.name,
                seeds=tuple(sorted({one.results["seed"] for one in row.runs})),
                stages=(),
            )
            for row in rows
        ),
        columns=tuple(columns),
        against=tuple((row.name, rows[0].name) for row in rows[1:]),
        compared=tuple(column.name for column in columns),
        digest="",
    )
    figures = [_figures(row, one, columns) for row in rows for one in row.runs]
    found = study_json.content(study, figures, versions(), refused=_refused(rows, columns))
    if form == "csv":
        return tables.as_csv(found)
    settings = _settings(rows)
    if form == "latex":
        made = [*tables.main_tables(found), *tables.comparisons(found), settings]
        return tables.latex([one for one in made if one], tables.notes(found), label=study.name)
    end = "" if settings is None else f"\n{tables.markdown(settings)}\n"
    return tables.render(found, form) + end


def _figures(row: _Row, one: _Run, columns: Sequence[Column]) -> CellFigures:
    return collect_run(one.run, columns, row=row.name, corpus="", seed=one.results["seed"])


def _refused(rows: Sequence[_Row], columns: Sequence[Column]) -> dict[study_json.Pair, str]:
    """The comparisons that would be of figures that were measured in other ways."""
    found = {}
    for column in columns:
        first = rows[0].protocol(column.metric)
        for row in rows[1:]:
            own = row.protocol(column.metric)
            measured = [any(_has(one, column.metric) for one in of.runs) for of in (row, rows[0])]
            if all(measured) and (different := _differences(first, own)):
                found[row.name, rows[0].name, column.name] = f"measured with {different}"
    return found


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """The settings of a measurement that differ; empty if none does."""
    found = []
    for key in sorted(first.keys() | second.keys()):
        of_rows = key.startswith(_ROWS)
        if first.get(key) == second.get(key) or (of_rows and not (key in first and key in second)):
            continue
        values = f"{key} {_short(first.get(key))} and {_short(second.get(key))}"
        found.append(f"other {key}" if of_rows else values)
    return ", ".join(found)


def _settings(rows: Sequence[_Row]) -> tables.Table | None:
    """The settings in which the rows differ; None if there is but one row."""
    if len(rows) < 2:
        return None
    every = [{"corpus": row.runs[0].results["corpus"], **row.runs[0].settings} for row in rows]
    names = dict.fromkeys(name for one in every for name in one)
    return tables.Table(
        title="Settings that differ",
        header=["setting", *(row.name for row in rows)],
        rows=[
            [name, *(_short(one[name]) if name in one else tables.NONE for one in every)]
            for name in names
            if any(one.get(name) != every[0].get(name) for one in every)
        ],
        left=1 + len(rows),
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 48 else f"{text[:45]}..."


def _notes(rows: Sequence[_Row]) -> list[str]:
    """Remarks of the program on the figures of single runs."""
    return [
        f"{one.run.name}: {line}"
        for row in rows
        for one in row.runs
        for line in notes(one.results).splitlines()
    ]


# The metrics


def _columns(rows: Sequence[_Row], wanted: Sequence[str]) -> list[Column]:
    """The columns.

    Raises:
        StudyError: no run has a metric that is wanted.
    """
    runs = [one for row in rows for one in row.runs]
    known = dict.fromkeys(_known(name) for one in runs for name in one.results["metrics"])
    names = list(dict.fromkeys(wanted)) or _usual(list(known))
    unknown = [n for n in names if not n.startswith("diagnose/") and n not in known]
    if unknown or not names:
        msg = (
            f"got --metrics {' '.join(unknown)}, which no run has, expected some of "
            f"{', '.join(sorted(known)) or 'theirs, but they have none'}"
        )
        raise StudyError(msg)
    return [_column(name) for name in names]


def _usual(known: Sequence[str]) -> list[str]:
    """Those of the known metrics that say how good a model is."""
    found = [name for front in _USUAL for name in known if _fits(name, front)]
    return found + [
        name for name in known if name.startswith("attack/") and name.endswith("/accuracy")
    ]


def _fits(name: str, front: str) -> bool:
    return name.startswith(front) if front.endswith("@") else name == front


def _known(name: str) -> str:
    """The name of a metric, also of one that an attack has flagged."""
    return name.replace("/unreliable_", "/")


def _has(one: _Run, metric: str) -> bool:
    return any(_known(name) == metric for name in one.results["metrics"])


def _column(metric: str) -> Column:
    share = is_share(metric)
    scale, digits = (100.0, 1) if share else (1.0, 4)
    title = f"{metric}, %" if share else metric
    return Column(name=metric, title=title, metric=metric, scale=scale, digits=digits, better=None)
