"""`study.json`: all figures of a study, with intervals, tests, digests and versions.

The same runs give the same bytes: keys are sorted, dates and paths are left out, and only
`seconds` holds times. Tables and pictures are made from this file alone. `derivation.derive`
computes its figures and tests again from its cells and the outcomes in the file next to it.
docs/tables.md explains its fields.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from app.study import outcomes
from app.study.study import (
    CellFigures,
    Column,
    ReferenceLine,
    Study,
    StudyError,
    StudyRow,
    with_tuples,
)
from run_files import atomic
from text.bounded_files import DataError, read_json
from text.subjects import differences, shortened

if TYPE_CHECKING:
    from measure.matched import LineComparison
    from measure.uncertainty import Comparison, Side

FORMAT = 2
"""Format number of the file; a reader refuses others."""
ENDS = ("low", "high")
"""The keys of an interval."""
_CELL_KEYS = (
    *("row", "corpus", "seed", "run", "values", "collapsed", "revisions", "samples", "weights"),
    "data",
)
BOOTSTRAPPED = (None, 1.0)
"""p over seeds of the comparisons whose interval is that of the bootstrap over texts."""
Content = dict[str, Any]
"""A `study.json` as JSON values."""
Pair = tuple[str, str, str]
"""A comparison: row, baseline row, column."""


def content(
    study: Study,
    figures: Sequence[CellFigures],
    versions: Mapping[str, str],
    *,
    refused: Mapping[Pair, str] | None = None,
    former: Content | None = None,
) -> Content:
    """Return the content of `study.json`, from the figures of finished runs in any order.

    `refused` are comparisons to leave out, with the reason, besides those of figures that were
    measured in different ways; a `former` content of the same runs is
    the source of all that needs outcomes which are unknown.

    Raises:
        StudyError: runs of one row, or of two compared rows, were measured on different samples; or
            two runs belong to the same cell. The message names them all.
    """
    cells = _Cells(study, figures)
    reasons, former = {**cells.other_protocols(), **(refused or {})}, former or {}
    if problems := cells.problems(reasons):
        raise StudyError("\n".join(problems))
    visible = [row for row in study.rows if row.shown]
    line, former_line = study.matched, (former.get("matched") or {}).get("lines", ())
    data: Content = {
        "format": FORMAT,
        "study": _pick(study, "name", "title", "about", "notes", "digest"),
        "corpora": [_pick(corpus, "name", "title") for corpus in study.corpora],
        "rows": [_pick(row, "name", "title", "seeds", "corpora") for row in visible],
        "columns": [asdict(column) for column in study.columns],
        "cells": [
            {**_pick(cell, *_CELL_KEYS), "unreliable": sorted(cell.unreliable)}
            for cell in cells.cells
        ],
        "figures": [
            figure
            for row in visible
            for corpus, column in cells.positions(row)
            if (figure := _figure(cells, row, corpus, column)) is not None
        ],
        "compared": {"columns": study.compared, "against": study.against},
        "comparisons": _comparisons(cells, reasons, former.get("comparisons", ())),
        "matched": line and {**asdict(line), "lines": [*_matched(cells, line, former_line)]},
        "refused": [
            {"row": row, "against": against, "column": column, "reason": reason}
            for (row, against, column), reason in sorted(reasons.items())
        ],
        "paper": study.published and _pick(study.published, "source", "figures"),
        "missing": cells.missing(),
        "pictures": [asdict(chart) for chart in sorted(study.pictures, key=lambda c: c.name)],
        "outcomes": outcomes.digest_of(outcomes.collect_outcomes(cells.cells)),
        # The revision that counts is that of the runs; their cells have it.
        "versions": former.get("versions")
        or {name: version for name, version in versions.items() if name != "revision"},
        "remarks": former.get("remarks", ()),
        "seconds": {cell.run: cell.seconds for cell in cells.cells},
    }
    # Rounded, so that nothing depends on the last bit of a library; and as a reader will get it.
    read_back: Content = json.loads(json.dumps(_round(data), allow_nan=False))
    return read_back


def outcomes_of(study: Study, figures: Sequence[CellFigures]) -> outcomes.Outcomes | None:
    """Return the outcomes that belong to `content` of the same arguments; None without any."""
    return outcomes.collect_outcomes(_Cells(study, figures).cells)


def write(path: Path, data: Content) -> None:
    """Write the file in one step."""
    atomic.write_text(path, text(data))


def text(data: Content) -> str:
    """Return the text of the file."""
    return json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> Content:
    """Return the content of a file.

    Raises:
        StudyError: not such a file, or one of another format.
    """
    try:
        data: Any = read_json(path, "a study.json: run the study again")
    except DataError as error:
        raise StudyError(str(error)) from error
    number = data.get("format") if isinstance(data, dict) else None
    if number != FORMAT:
        msg = (
            f"got {path} of format {number}, expected a study.json of format {FORMAT}: "
            "`study run` writes it anew from the runs"
        )
        raise StudyError(msg)
    return dict(data)


class _Cells:
    """The finished cells of a study, in the order of rows, corpora and seeds."""

    def __init__(self, study: Study, figures: Sequence[CellFigures]) -> None:
        rows = {row.name: i for i, row in enumerate(study.rows)}
        corpora = {corpus.name: i for i, corpus in enumerate(study.corpora)}
        self.study = study
        # With the digits of the file, so that it gives the same figures again.
        self.cells = sorted(
            map(_round_figures, figures),
            key=lambda cell: (rows.get(cell.row, -1), corpora.get(cell.corpus, -1), cell.seed),
        )

    def by_seed(self, row: str, corpus: str) -> dict[int, CellFigures]:
        return {cell.seed: cell for cell in self.cells if (cell.row, cell.corpus) == (row, corpus)}

    def positions(self, row: StudyRow) -> Iterator[tuple[str, Column]]:
        """Yield the corpora and columns in which a row may have a figure."""
        for corpus in row.corpora or ("",):
            for column in self.study.columns:
                if column.corpus in (None, corpus) or not self.study.corpora:
                    yield corpus, column

    def pairs(self) -> Iterator[tuple[StudyRow, StudyRow, str, Column]]:
        """Yield the comparisons: row, baseline row, corpus and column."""
        rows = {row.name: row for row in self.study.rows}
        for name, against in self.study.against:
            # Rows may be on different corpora.
            common = list(self.positions(rows[against]))
            for corpus, column in self.positions(rows[name]):
                if column.name in self.study.compared and (corpus, column) in common:
                    yield rows[name], rows[against], corpus, column

    def other_protocols(self) -> dict[Pair, str]:
        """Return the comparisons of figures that were measured in different ways."""
        refused = {}
        for row, against, corpus, column in self.pairs():
            first, second = (self._protocol(r.name, corpus, column.name) for r in (row, against))
            if changes := differences(second, first, only=first.keys() & second.keys()):
                parts = [f"{c.name} {_in_words(c.before)} and {_in_words(c.now)}" for c in changes]
                refused[row.name, against.name, column.name] = f"measured with {', '.join(parts)}"
        return refused

    def _protocol(self, row: str, corpus: str, column: str) -> Mapping[str, Any]:
        """Return how a figure of a row was measured; empty if unknown."""
        cells = self.by_seed(row, corpus).values()
        return next((cell.protocols[column] for cell in cells if column in cell.protocols), {})

    def off_line(self, line: ReferenceLine) -> Iterator[tuple[StudyRow, str, Column]]:
        """Yield the rows that are compared with a line, with corpus and column."""
        for row in self.study.rows:
            if row.shown and row.name not in line.rows:
                for corpus, column in self.positions(row):
                    if column.name in line.columns:
                        yield row, corpus, column

    def missing(self) -> list[dict[str, Any]]:
        finished = {(cell.row, cell.corpus, cell.seed) for cell in self.cells}
        return [
            {"row": row.name, "corpus": corpus, "seed": seed}
            for row in self.study.rows
            if row.shown
            for corpus in row.corpora or ("",)
            for seed in row.seeds
            if (row.name, corpus, seed) not in finished
        ]

    def problems(self, refused: Mapping[Pair, str]) -> list[str]:
        """Return all reasons not to average or compare the figures, one per line."""
        rows = {row.name for row in self.study.rows}
        corpora = {"", *(corpus.name for corpus in self.study.corpora)}
        if problems := [
            f"got run {cell.run} of row {cell.row!r} and corpus {cell.corpus!r}, expected a cell "
            f"of study {self.study.name}"
            for cell in self.cells
            if cell.row not in rows or cell.corpus not in corpora
        ]:
            return problems
        first: dict[tuple[str, str, int], CellFigures] = {}
        for cell in self.cells:
            same = first.setdefault((cell.row, cell.corpus, cell.seed), cell)
            if same is not cell:
                problems.append(
                    f"got runs {same.run} and {cell.run}, both of row {cell.row}, corpus "
                    f"{cell.corpus!r} and seed {cell.seed}, expected one"
                )
        for names, corpus, columns in self._averaged(refused):
            group = [cell for name in names for cell in self.by_seed(name, corpus).values()]
            for column in columns:
                problems += _mixed(group, column)
        return list(dict.fromkeys(problems))

    def _averaged(
        self, refused: Mapping[Pair, str]
    ) -> Iterator[tuple[list[str], str, Sequence[str]]]:
        """Yield rows, corpus and columns of all cells that must share their samples."""
        for row in self.study.rows:
            for corpus in row.corpora or ("",):
                yield [row.name], corpus, [column.name for column in self.study.columns]
        for row, against, corpus, column in self.pairs():
            if (row.name, against.name, column.name) not in refused:
                yield [row.name, against.name], corpus, [column.name]
        if (line := self.study.matched) is not None:
            for row, corpus, column in self.off_line(line):
                yield [row.name, *line.rows], corpus, [line.at, column.name]


def _in_words(value: Any) -> str:
    return value if isinstance(value, str) else shortened(value)


def _mixed(cells: Sequence[CellFigures], column: str) -> list[str]:
    """Return the runs that were measured on different samples than the first one."""
    problems = []
    # By split: the first run that names its rows. Older ones name none.
    named_first: dict[str, CellFigures] = {}
    for cell in cells:
        conflicts: dict[str, list[str]] = {}
        for split, digest in sorted(cell.data.items()):
            first = named_first.setdefault(split, cell)
            if first.data[split] != digest:
                conflicts.setdefault(first.run, []).append(split)
        problems += [
            f"got runs {run} and {cell.run} on other rows of the {' and '.join(splits)} split, "
            "expected the same, to average and compare their figures"
            for run, splits in conflicts.items()
        ]
    # A column without records has no samples to compare.
    with_samples = [cell for cell in cells if column in cell.samples]
    for cell in with_samples[1:]:
        first = with_samples[0]
        if cell.samples[column] != first.samples[column]:
            problems.append(
                f"got runs {first.run} and {cell.run} with other samples in column {column}, "
                "expected the same, to average and compare them: measure one of them again"
            )
    return problems


def _figure(cells: _Cells, row: StudyRow, corpus: str, column: Column) -> dict[str, Any] | None:
    """Return the figure of a row in a column, in the column's unit; None if no run has one."""
    from measure.uncertainty import bounds_of, over_seeds

    name = column.name
    measured = [cell for cell in cells.by_seed(row.name, corpus).values() if name in cell.values]
    if not measured:
        return None
    values = [cell.values[name] for cell in measured]
    scaled = [None if value is None else value * column.scale for value in values]
    return {
        "row": row.name,
        "corpus": corpus,
        "column": name,
        **asdict(over_seeds(scaled, bounds_of(column.metric, column.scale))),
        "seeds": [cell.seed for cell in measured],
        "unreliable": any(name in cell.unreliable for cell in measured),
        "collapsed": [cell.seed for cell in measured if cell.collapsed],
    }


def _comparisons(
    cells: _Cells, refused: Mapping[Pair, str], former: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return all comparisons, with the p of each after Holm's correction over all of them."""
    from measure.uncertainty import holm

    lines = [
        line
        for row, against, corpus, column in cells.pairs()
        if (row.name, against.name, column.name) not in refused
        if (line := _comparison(cells, (row.name, against.name), corpus, column, former))
    ]
    for line, p in zip(lines, holm([line["p"] for line in lines]), strict=True):
        line["p_holm"] = p
    return lines


def _comparison(
    cells: _Cells,
    rows: tuple[str, str],
    corpus: str,
    column: Column,
    former: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """Return a comparison at the seeds at which both rows have a finite figure; None without."""
    from measure.uncertainty import RESAMPLES, bounds_of, compare, joint_p, kind_of

    name = column.name
    finite = [_finite(cells.by_seed(row, corpus), name) for row in rows]
    seeds = sorted(finite[0].keys() & finite[1].keys())
    groups = [[side[seed] for seed in seeds] for side in finite]
    if not seeds:
        # Two single runs have the same texts even if their seeds differ.
        groups = [list(side.values()) for side in finite]
        if [len(group) for group in groups] != [1, 1]:
            return None
        seeds = [groups[0][0].seed]
    first, sides = groups[0][0], [_side(group, name) for group in groups]
    with_texts = all(side.outcomes is not None for side in sides)
    comparison = compare(
        *sides,
        kind=kind_of(column.metric),
        labels=first.labels.get(name) if with_texts else None,
        bounds=bounds_of(column.metric),
    )
    keys = ("row", "against", "corpus", "column", "seeds")
    position: dict[str, Any] = dict(zip(keys, (*rows, corpus, name, seeds), strict=True))
    line = {
        **position,
        "texts": len(first.outcomes[name]) if with_texts else None,
        **asdict(comparison),
        "effect": comparison.effect * column.scale,
        **_scale_ends(comparison, column.scale),
        **_flags(groups, name),
    }
    # None of a new study, or a new comparison.
    if (earlier := find(former, **position)) is None:
        return line
    if not with_texts:
        line |= {key: earlier[key] for key in ("p_texts", "texts_test", "texts")}
        if line["p_seeds"] in BOOTSTRAPPED:
            line |= {end: earlier[end] for end in ENDS}
    else:
        # Other versions of the libraries draw other samples: the published p and ends stay.
        if line["texts_test"] == "permutation" and _by_chance(
            earlier["p_texts"], line["p_texts"], RESAMPLES
        ):
            line["p_texts"] = earlier["p_texts"]
        if line["p_seeds"] in BOOTSTRAPPED:
            line |= _close_ends(earlier, line, step=abs(column.scale) / line["texts"])
    line["p"] = joint_p(line["p_texts"], line["p_seeds"], seeds=len(seeds), texts=line["texts"])
    return line


def _by_chance(former: float | None, p: float | None, resamples: int) -> bool:
    """Return True if two p of as many permutations differ by at most four standard errors."""
    if former is None or p is None:
        return False
    # Each p is twice a share of `resamples` draws, with variance p (2 - p) / resamples.
    mean = (former + p) / 2
    return abs(former - p) <= 4 * math.sqrt(2 * mean * (2 - mean) / resamples) + 2 / resamples


def _close_ends(
    former: Mapping[str, Any], line: Mapping[str, Any], *, step: float
) -> dict[str, Any]:
    """Return the former ends of a bootstrap interval if they differ by no more than chance.

    The ends of few texts move in steps, of up to one text.
    """
    if any(source[end] is None for source in (former, line) for end in ENDS):
        return {}
    # A little more, as published ends have ten digits.
    close = 1.001 * max(0.06 * (line["high"] - line["low"]), step)
    return {end: former[end] for end in ENDS if abs(former[end] - line[end]) <= close}


def find(lines: Sequence[Mapping[str, Any]], **key: Any) -> Mapping[str, Any] | None:
    """Return the first line with all values of a key; None if there is none."""
    return next(
        (line for line in lines if all(line[name] == value for name, value in key.items())), None
    )


def _matched(
    cells: _Cells, line: ReferenceLine, former: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the comparison of each row with the line, at the seeds that all of them have."""
    from measure.matched import Spot, compare_with_line

    across = {column.name: column for column in cells.study.columns}[line.at]
    for row, corpus, column in cells.off_line(line):
        own, *points = (
            _finite(cells.by_seed(name, corpus), across.name, column.name)
            for name in (row.name, *line.rows)
        )
        points = [by_seed for by_seed in points if by_seed]
        seeds = sorted(set(own).intersection(*points))
        if not seeds or len(points) < 2:
            continue
        groups = [[by_seed[seed] for seed in seeds] for by_seed in (own, *points)]
        spots = [Spot(across=_side(g, across.name), up=_side(g, column.name)) for g in groups]
        position = {"row": row.name, "corpus": corpus, "column": column.name, "seeds": seeds}
        figures: dict[str, float | None] = dict.fromkeys(("line", "effect", *ENDS))
        if (comparison := compare_with_line(spots[0], spots[1:])) is not None:
            scaled = {name: getattr(comparison, name) * column.scale for name in ("line", "effect")}
            figures = scaled | _scale_ends(comparison, column.scale)
        if (earlier := find(former, **position)) is not None:
            if figures["low"] is None:
                figures |= {end: earlier[end] for end in ENDS}
            else:
                step = abs(column.scale) / len(groups[0][0].outcomes[column.name])
                figures |= _close_ends(earlier, figures, step=step)
        yield {
            **position,
            "at": fmean(spots[0].across.values) * across.scale,
            "figure": fmean(spots[0].up.values) * column.scale,
            **figures,
            **_flags(groups, column.name),
        }


def _finite(cells: Mapping[int, CellFigures], *columns: str) -> dict[int, CellFigures]:
    """Return the cells, by seed, with a finite figure in all columns."""
    return {
        seed: cell
        for seed, cell in cells.items()
        if all(cell.values.get(column) is not None for column in columns)
    }


def _side(cells: Sequence[CellFigures], name: str) -> "Side":
    """Return the figures of a row over its seeds; with outcomes if all cells have them."""
    from measure.uncertainty import Side

    with_texts = all(name in cell.outcomes for cell in cells)
    return Side(
        values=[float(cell.values[name] or 0.0) for cell in cells],
        outcomes=[cell.outcomes[name] for cell in cells] if with_texts else None,
    )


def _scale_ends(comparison: "Comparison | LineComparison", scale: float) -> dict[str, float | None]:
    """Return the ends of an interval in the column's unit; a negative scale swaps them."""
    ends = [None if end is None else end * scale for end in (comparison.low, comparison.high)]
    return dict(zip(ENDS, ends if scale > 0 else reversed(ends), strict=True))


def _flags(groups: Sequence[Sequence[CellFigures]], column: str) -> dict[str, bool]:
    cells = [cell for group in groups for cell in group]
    return {
        "unreliable": any(column in cell.unreliable for cell in cells),
        "collapsed": any(cell.collapsed for cell in cells),
    }


def _pick(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _round_figures(cell: CellFigures) -> CellFigures:
    """Return the figures of a run with the digits of the file."""
    names = ("values", "outcomes", "labels", "predictions")
    return replace(cell, **{name: with_tuples(_round(getattr(cell, name))) for name in names})


def _round(value: Any) -> Any:
    """Return JSON values with numbers of ten digits; None where they are not finite."""
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _round(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round(item) for item in value]
    return value
