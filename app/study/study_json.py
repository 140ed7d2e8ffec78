"""`study.json`: all figures of a study, with intervals, tests, digests and versions.

The same runs give the same bytes: keys are sorted, and there are no dates and no paths. What
seconds were spent stands apart in `seconds`. Tables and pictures are made from this file alone
(`app/study/tables.py`). `derivation.derive` computes its figures and tests again from its
cells and the outcomes next to it. docs/tables.md explains its fields.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from app.runs import atomic
from app.study import outcomes
from app.study.study import CellFigures, Column, ReferenceLine, StudyRow, Study, StudyError
from text.bounded_files import DataError, read_json

if TYPE_CHECKING:
    from app.study.uncertainty import Side

FORMAT = 2
"""Number of the form of the file; a reader refuses others."""
ENDS = ("low", "high")
"""The keys of an interval."""
Content = dict[str, Any]
"""A `study.json` as JSON values."""
Pair = tuple[str, str, str]
"""A comparison: row, row that it is compared with, column."""


def content(
    study: Study,
    figures: Sequence[CellFigures],
    versions: Mapping[str, str],
    *,
    refused: Mapping[Pair, str] | None = None,
    former: Content | None = None,
) -> Content:
    """Returns the content of `study.json`.

    Args:
        study: the study.
        figures: of its finished runs, in any order.
        versions: of the program that makes the file, and its libraries.
        refused: comparisons that are not made, with the reason.
        former: a content of the same runs, for what needs outcomes that are not known.

    Raises:
        StudyError: runs of one row, or of two rows that are compared, were measured on other
            samples; or two runs stand for the same cell. The message names them all.
    """
    # With the digits of the file, so that it gives the same figures again.
    cells = _Cells(study, [_in_digits(one) for one in figures])
    reasons = dict(refused or {})
    problems = cells.problems(reasons)
    if problems:
        raise StudyError("\n".join(problems))
    shown = [row for row in study.rows if row.shown]
    found: Content = {
        "format": FORMAT,
        "study": {
            "name": study.name,
            "title": study.title,
            "about": study.about,
            "notes": list(study.notes),
            "digest": study.digest,
        },
        "corpora": [{"name": one.name, "title": one.title} for one in study.corpora],
        "rows": [
            {
                "name": row.name,
                "title": row.title,
                "seeds": list(row.seeds),
                "corpora": list(row.corpora),
            }
            for row in shown
        ],
        "columns": [asdict(column) for column in study.columns],
        "cells": [_cell(one) for one in cells.every],
        "figures": [
            line
            for row in shown
            for corpus, column in cells.places(row)
            if (line := _figure(cells, row, corpus, column)) is not None
        ],
        "compared": {
            "columns": list(study.compared),
            "against": [list(pair) for pair in study.against],
        },
        "comparisons": _comparisons(cells, reasons, (former or {}).get("comparisons", ())),
        "matched": None
        if study.matched is None
        else {
            "at": study.matched.at,
            "rows": list(study.matched.rows),
            "columns": list(study.matched.columns),
            "lines": list(
                _matched(
                    cells, study.matched, ((former or {}).get("matched") or {}).get("lines", ())
                )
            ),
        },
        "refused": [
            {"row": row, "against": against, "column": column, "reason": reason}
            for (row, against, column), reason in sorted(reasons.items())
        ],
        "paper": None
        if study.published is None
        else {"source": study.published.source, "figures": _plain(study.published.figures)},
        "missing": cells.missing(),
        "pictures": [
            {**asdict(one), "columns": list(one.columns)}
            for one in sorted(study.pictures, key=lambda one: one.name)
        ],
        "outcomes": outcomes.digest_of(outcomes.collect_outcomes(cells.every)),
        "versions": dict(former["versions"]) if former else _libraries(versions),
        "remarks": list((former or {}).get("remarks", ())),
        "seconds": {one.run: dict(one.seconds) for one in cells.every},
    }
    # As it will be read, and with numbers that do not depend on the last bit of a library.
    read_back: Content = json.loads(json.dumps(_rounded(found), allow_nan=False))
    return read_back


def outcomes_of(study: Study, figures: Sequence[CellFigures]) -> outcomes.Outcomes | None:
    """Returns the outcomes that belong to `content` of the same arguments; None without any."""
    return outcomes.collect_outcomes(_Cells(study, [_in_digits(one) for one in figures]).every)


def write(path: Path, found: Content) -> None:
    """Writes the file in one step.

    Raises:
        OSError: it cannot be written; what was there before is unchanged.
    """
    atomic.write_text(path, text(found))


def text(found: Content) -> str:
    """Returns the content as it stands in the file."""
    return json.dumps(found, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> Content:
    """Returns the content of a file.

    Raises:
        StudyError: it is no such file, or one of another form.
        OSError: it cannot be read.
    """
    try:
        found = read_json(path, "a study.json: run the study again")
    except DataError as error:
        raise StudyError(str(error)) from error
    number = found.get("format") if isinstance(found, dict) else None
    if number != FORMAT:
        msg = (
            f"got {path} of format {number}, expected a study.json of format {FORMAT}: "
            "`study run` writes it anew from the runs"
        )
        raise StudyError(msg)
    whole: Content = found
    return whole


@dataclass(frozen=True)
class _Cells:
    """The cells of a study that have figures.

    Attributes:
        study: the study.
        given: their figures.
    """

    study: Study
    given: Sequence[CellFigures]

    @property
    def every(self) -> list[CellFigures]:
        """All, in the order of rows, corpora and seeds."""
        rows = [row.name for row in self.study.rows]
        corpora = ["", *(corpus.name for corpus in self.study.corpora)]
        return sorted(
            self.given,
            key=lambda one: (rows.index(one.row), corpora.index(one.corpus), one.seed),
        )

    def of(self, row: str, corpus: str) -> dict[int, CellFigures]:
        """Those of a row on a corpus, by their seeds."""
        return {one.seed: one for one in self.every if (one.row, one.corpus) == (row, corpus)}

    def places(self, row: StudyRow) -> Iterator[tuple[str, Column]]:
        """The corpora and columns in which a row may have a figure."""
        for corpus in row.corpora or ("",):
            for column in self.study.columns:
                if column.corpus in (None, corpus) or not self.study.corpora:
                    yield corpus, column

    def pairs(self) -> Iterator[tuple[StudyRow, StudyRow, str, Column]]:
        """The two sides of a comparison: row, row that it is to exceed, corpus and column."""
        rows = {row.name: row for row in self.study.rows}
        for name, against in self.study.against:
            theirs = list(self.places(rows[against]))
            for corpus, column in self.places(rows[name]):
                if column.name in self.study.compared and (corpus, column) in theirs:
                    yield rows[name], rows[against], corpus, column

    def beside_line(self, matched: ReferenceLine) -> Iterator[tuple[StudyRow, str, Column]]:
        """The rows that are held against a line, with corpus and column."""
        for row in self.study.rows:
            if row.shown and row.name not in matched.rows:
                for corpus, column in self.places(row):
                    if column.name in matched.columns:
                        yield row, corpus, column

    def missing(self) -> list[dict[str, Any]]:
        """Cells of shown rows without figures."""
        known = {(one.row, one.corpus, one.seed) for one in self.given}
        return [
            {"row": row.name, "corpus": corpus, "seed": seed}
            for row in self.study.rows
            if row.shown
            for corpus in row.corpora or ("",)
            for seed in row.seeds
            if (row.name, corpus, seed) not in known
        ]

    def problems(self, refused: Mapping[Pair, str]) -> list[str]:
        """All that forbids to average and compare the figures, a line each."""
        rows = {row.name for row in self.study.rows}
        corpora = {"", *(corpus.name for corpus in self.study.corpora)}
        strange = [one for one in self.given if one.row not in rows or one.corpus not in corpora]
        if strange:
            return [
                f"got run {one.run} of row {one.row!r} and corpus {one.corpus!r}, expected a cell "
                f"of study {self.study.name}"
                for one in strange
            ]
        found: list[str] = []
        first: dict[tuple[str, str, int], CellFigures] = {}
        for one in self.every:
            key = (one.row, one.corpus, one.seed)
            if key in first:
                found.append(
                    f"got runs {first[key].run} and {one.run}, both of row {one.row}, corpus "
                    f"{one.corpus!r} and seed {one.seed}, expected one"
                )
            first.setdefault(key, one)
        for row in self.study.rows:
            for corpus in row.corpora or ("",):
                same = list(self.of(row.name, corpus).values())
                for column in self.study.columns:
                    found += _mixed(same, column.name)
        for row, against, corpus, column in self.pairs():
            if (row.name, against.name, column.name) in refused:
                continue
            both = [*self.of(row.name, corpus).values(), *self.of(against.name, corpus).values()]
            found += _mixed(both, column.name)
        if self.study.matched is not None:
            for row, corpus, column in self.beside_line(self.study.matched):
                names = (row.name, *self.study.matched.rows)
                both = [one for name in names for one in self.of(name, corpus).values()]
                for wanted in (self.study.matched.at, column.name):
                    found += _mixed(both, wanted)
        return list(dict.fromkeys(found))


def _mixed(cells: Sequence[CellFigures], column: str) -> list[str]:
    """The runs that were measured on other samples than the first of them."""
    found = []
    for one in cells[1:]:
        first = cells[0]
        splits = [
            split
            for split in sorted(first.data.keys() & one.data.keys())
            if first.data[split] != one.data[split]
        ]
        if splits:
            found.append(
                f"got runs {first.run} and {one.run} on other rows of the {' and '.join(splits)} "
                "split, expected the same, to average and compare their figures"
            )
    with_samples = [one for one in cells if column in one.samples]
    for one in with_samples[1:]:
        first = with_samples[0]
        if one.samples[column] != first.samples[column]:
            found.append(
                f"got runs {first.run} and {one.run} with other samples in column {column}, "
                "expected the same, to average and compare them: measure one of them again"
            )
    return found


def _cell(one: CellFigures) -> dict[str, Any]:
    return {
        "row": one.row,
        "corpus": one.corpus,
        "seed": one.seed,
        "run": one.run,
        "values": dict(one.values),
        "unreliable": sorted(one.unreliable),
        "collapsed": one.collapsed,
        "revisions": list(one.revisions),
        "samples": dict(one.samples),
        "weights": one.weights,
        "data": dict(one.data),
    }


def _figure(cells: _Cells, row: StudyRow, corpus: str, column: Column) -> dict[str, Any] | None:
    """The figure of a row in a column, in the column's unit; None if no run has one."""
    from app.study.uncertainty import bounds_of, over_seeds

    known = {
        seed: one for seed, one in cells.of(row.name, corpus).items() if column.name in one.values
    }
    if not known:
        return None
    values = [one.values[column.name] for one in known.values()]
    scaled = [None if value is None else value * column.scale for value in values]
    return {
        "row": row.name,
        "corpus": corpus,
        "column": column.name,
        **asdict(over_seeds(scaled, bounds_of(column.metric, column.scale))),
        "seeds": sorted(known),
        "unreliable": any(column.name in one.unreliable for one in known.values()),
        "collapsed": [seed for seed, one in sorted(known.items()) if one.collapsed],
    }


def _comparisons(
    cells: _Cells, refused: Mapping[Pair, str], former: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """All comparisons, with the p of each after Holm's correction over all of them."""
    from app.study.uncertainty import holm

    found = [
        line
        for row, against, corpus, column in cells.pairs()
        if (row.name, against.name, column.name) not in refused
        if (line := _comparison(cells, (row.name, against.name), corpus, column, former))
        is not None
    ]
    corrected = holm([line["p"] for line in found])
    for line, p in zip(found, corrected, strict=True):
        line["p_holm"] = p
    return found


def _comparison(
    cells: _Cells,
    rows: tuple[str, str],
    corpus: str,
    column: Column,
    former: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """A comparison at the seeds that both rows have a finite figure for; None without any."""
    from app.study.uncertainty import RESAMPLES, bounds_of, compared, joint_p, kind_of

    name = column.name
    finite = [
        {s: one for s, one in cells.of(row, corpus).items() if one.values.get(name) is not None}
        for row in rows
    ]
    seeds = sorted(finite[0].keys() & finite[1].keys())
    every = [[side[seed] for seed in seeds] for side in finite]
    if not seeds:
        # Of one run each, the texts can be compared all the same.
        every = [list(side.values()) for side in finite]
        if [len(side) for side in every] != [1, 1]:
            return None
        seeds = [every[0][0].seed]
    sides = [_side(side, name) for side in every]
    known = all(side.outcomes is not None for side in sides)
    first = every[0][0]
    labels = first.labels.get(name) if known else None
    bounds = bounds_of(column.metric)
    kind = kind_of(column.metric)
    outcome = compared(sides[0], sides[1], kind=kind, labels=labels, bounds=bounds)
    ends = [None if end is None else end * column.scale for end in (outcome.low, outcome.high)]
    low, high = ends if column.scale > 0 else reversed(ends)
    line = {
        "row": rows[0],
        "against": rows[1],
        "corpus": corpus,
        "column": name,
        "seeds": seeds,
        "texts": len(first.outcomes[name]) if known else None,
        **asdict(outcome),
        "effect": outcome.effect * column.scale,
        "low": low,
        "high": high,
        "unreliable": any(name in one.unreliable for side in every for one in side),
        "collapsed": any(one.collapsed for side in every for one in side),
    }
    earlier = _same_place(former, line, "row", "against", "corpus", "column", "seeds")
    if earlier is None:
        return line
    if not known:
        line |= {key: earlier[key] for key in ("p_texts", "texts_test", "texts")}
        if len(seeds) == 1:
            line |= {end: earlier[end] for end in ENDS}
    elif _by_chance(earlier["p_texts"], line["p_texts"], RESAMPLES):
        line["p_texts"] = earlier["p_texts"]
        if len(seeds) == 1:
            line |= _close_ends(earlier, line)
    line["p"] = joint_p(line["p_texts"], line["p_seeds"], seeds=len(seeds), texts=line["texts"])
    return line


def _by_chance(former: float | None, p: float | None, resamples: int) -> bool:
    """True where two p of as many permutations differ by at most four standard errors."""
    if former is None or p is None:
        return False
    mean = (former + p) / 2
    return abs(former - p) <= 4 * math.sqrt(2 * mean * (1 - mean) / resamples) + 2 / resamples


def _close_ends(former: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    """The former ends of a bootstrap interval where they are within its chance."""
    both = [(former[end], line[end]) for end in ENDS]
    if any(one is None or two is None for one, two in both):
        return {}
    width = max(line["high"] - line["low"], 1e-9)
    return {
        end: one
        for end, (one, two) in zip(ENDS, both, strict=True)
        if abs(one - two) <= 0.06 * width
    }


def _same_place(
    lines: Sequence[Mapping[str, Any]], line: Mapping[str, Any], *keys: str
) -> Mapping[str, Any] | None:
    """The line about the same comparison."""
    return next((one for one in lines if all(one[key] == line[key] for key in keys)), None)


def _matched(
    cells: _Cells, matched: ReferenceLine, former: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Each row that is not in the line, beside it at equal accuracy, over the seeds of all."""
    from app.study.matched import Spot, beside

    columns = {column.name: column for column in cells.study.columns}
    across = columns[matched.at]
    for row, corpus, column in cells.beside_line(matched):
        every = [
            {seed: one for seed, one in found.items() if _finite(one, across, column)}
            for found in (cells.of(name, corpus) for name in (row.name, *matched.rows))
        ]
        line = [one for one in every[1:] if one]
        seeds = sorted(set(every[0]).intersection(*line))
        if not seeds or len(line) < 2:
            continue
        same = [[one[seed] for seed in seeds] for one in (every[0], *line)]
        spots = [Spot(across=_side(one, across.name), up=_side(one, column.name)) for one in same]
        found = beside(spots[0], spots[1:])
        ends = (None, None) if found is None else (found.low, found.high)
        scaled = [None if end is None else end * column.scale for end in ends]
        low, high = scaled if column.scale > 0 else reversed(scaled)
        place = {"row": row.name, "corpus": corpus, "column": column.name, "seeds": seeds}
        earlier = _same_place(former, place, *place)
        if earlier is not None and low is None:
            low, high = earlier["low"], earlier["high"]
        yield {
            **place,
            "at": fmean(spots[0].across.values) * across.scale,
            "figure": fmean(spots[0].up.values) * column.scale,
            "line": None if found is None else found.line * column.scale,
            "effect": None if found is None else found.effect * column.scale,
            "low": low,
            "high": high,
            "collapsed": any(one.collapsed for of in same for one in of),
            "unreliable": any(column.name in one.unreliable for of in same for one in of),
        }


def _finite(one: CellFigures, *columns: Column) -> bool:
    return all(one.values.get(column.name) is not None for column in columns)


def _side(cells: Sequence[CellFigures], name: str) -> "Side":
    """The figures of a row over its seeds, with the outcomes of samples where all have them."""
    from app.study.uncertainty import Side

    known = all(name in one.outcomes for one in cells)
    return Side(
        values=[float(one.values[name] or 0.0) for one in cells],
        outcomes=[one.outcomes[name] for one in cells] if known else None,
    )


def _libraries(versions: Mapping[str, str]) -> dict[str, str]:
    """Versions without the revision: what counts is that of the runs, which their cells have."""
    return {name: version for name, version in versions.items() if name != "revision"}


def _in_digits(one: CellFigures) -> CellFigures:
    """The figures of a run with the digits of the file."""
    names = ("values", "outcomes", "labels", "predictions")
    rounded = {name: _rounded(getattr(one, name)) for name in names}
    for name in names[1:]:
        rounded[name] = {key: tuple(values) for key, values in rounded[name].items()}
    return replace(one, **rounded)


def _plain(value: Any) -> Any:
    """Mappings as dictionaries."""
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _rounded(value: Any) -> Any:
    """Numbers in ten digits; None where they are not finite."""
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value
