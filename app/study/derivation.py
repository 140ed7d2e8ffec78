"""Computes the figures and tests of a `study.json` again, from its cells and outcomes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.study import outcomes
from app.study.study import (
    CellFigures,
    Chart,
    Column,
    PaperFigures,
    ReferenceLine,
    Study,
    StudyCorpus,
    StudyError,
    StudyRow,
)
from app.study.study_json import Content, content


def derive(found: Content, samples: outcomes.Outcomes | None) -> Content:
    """Returns the content with figures and tests that are computed again.

    What needs outcomes of samples that are not kept is taken over as it is: p over texts, and the
    intervals by bootstrap. A p over texts by permutations is taken over as well where it differs by
    no more than chance: other versions of the libraries draw other permutations.

    Args:
        found: the content of a file.
        samples: its outcomes; None if they are not kept.

    Raises:
        StudyError: the outcomes do not amount to the figures of the cells.
    """
    study = _study(found)
    figures = [_cell_figures(one, found["seconds"], samples) for one in found["cells"]]
    columns = {column.name: column for column in study.columns}
    for one in figures:
        for name, values in one.outcomes.items():
            _check_figure(one, columns[name], values)
    refused = {
        (one["row"], one["against"], one["column"]): one["reason"] for one in found["refused"]
    }
    return content(study, figures, found["versions"], refused=refused, former=found)


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """Returns the places in which two contents differ by more than rounding."""
    if isinstance(first, Mapping) and isinstance(second, Mapping) and first.keys() == second.keys():
        pairs = [(f"{where}.{key}".strip("."), first[key], second[key]) for key in first]
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(first, second, strict=True))]
    elif isinstance(first, float) and isinstance(second, float | int):
        same = math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-9)
        return [] if same else [f"{where} is {first:.10g}, computed again {second:.10g}"]
    else:
        return [] if first == second else [f"{where} is {first!r}, computed again {second!r}"]
    return [line for place, one, two in pairs for line in differences(one, two, place)]


def _study(found: Content) -> Study:
    """The study of a content, with all that its figures depend on."""
    shown = {
        row["name"]: StudyRow(
            name=row["name"],
            title=row["title"],
            seeds=tuple(row["seeds"]),
            corpora=tuple(row["corpora"]),
            stages=(),
        )
        for row in found["rows"]
    }
    rows = list(shown.values())
    of_cells = list(dict.fromkeys(cell["row"] for cell in found["cells"]))
    for i, name in enumerate(of_cells):
        if name not in shown:  # hidden, as others only start from it; where its cells are
            following = next((shown[one] for one in of_cells[i:] if one in shown), None)
            at = len(rows) if following is None else rows.index(following)
            rows.insert(at, StudyRow(name=name, title=name, seeds=(), stages=(), shown=False))
    paper, matched = found["paper"], found["matched"]
    return Study(
        **{key: found["study"][key] for key in ("name", "title", "about", "digest")},
        notes=tuple(found["study"]["notes"]),
        corpora=tuple(StudyCorpus(**one) for one in found["corpora"]),
        rows=tuple(rows),
        columns=tuple(Column(**one) for one in found["columns"]),
        against=tuple((row, against) for row, against in found["compared"]["against"]),
        compared=tuple(found["compared"]["columns"]),
        matched=None
        if matched is None
        else ReferenceLine(
            at=matched["at"], rows=tuple(matched["rows"]), columns=tuple(matched["columns"])
        ),
        published=None if paper is None else PaperFigures(**paper),
        pictures=tuple(
            Chart(**{**one, "columns": tuple(one["columns"])}) for one in found["pictures"]
        ),
    )


def _cell_figures(
    cell: Mapping[str, Any], seconds: Mapping[str, Any], samples: outcomes.Outcomes | None
) -> CellFigures:
    """The figures of a cell of a file.

    Raises:
        StudyError: its outcomes are about other samples.
    """
    fields = {} if samples is None else outcomes.of_run(samples, cell["run"])
    own = {key: value for key, value in cell.items() if key not in fields}
    for column, digest in fields.get("samples", {}).items():
        computed = outcomes.samples_digest(fields["ids"][column], fields["labels"][column])
        if not computed == digest == cell["samples"].get(column):
            msg = (
                f"got outcomes of run {cell['run']} in column {column} about other samples, "
                "expected those of the study's file: publish both files together"
            )
            raise StudyError(msg)
    for name in ("unreliable", "revisions"):
        own[name] = tuple(own[name])
    return CellFigures(**{**own, **fields}, seconds=seconds.get(cell["run"], {}))


def _check_figure(one: CellFigures, column: Column, values: Sequence[float]) -> None:
    """Refuses outcomes that do not amount to the figure of their cell."""
    from app.study.uncertainty import agree, kind_of, score

    kind = kind_of(column.metric)
    figure = score(values, kind=kind, labels=one.labels[column.name])
    if not agree(figure, one.values[column.name] or 0.0, kind):
        msg = (
            f"got {column.metric} = {one.values[column.name]} of run {one.run}, and {figure:.6g} "
            "from its outcomes, expected the same: publish both files together"
        )
        raise StudyError(msg)
