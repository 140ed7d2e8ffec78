"""Computes the figures and tests of a `study.json` again, from its cells and outcomes."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.study import outcomes, study_json
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
    with_tuples,
)
from app.study.study_json import Content


def derive(content: Content, samples: outcomes.Outcomes | None) -> Content:
    """Return the content with its figures and tests computed again.

    Without the outcomes of samples, or where the new ones differ only by chance, as other versions
    of the libraries draw other permutations, p over texts and bootstrap intervals are copied.

    Raises:
        StudyError: the outcomes do not give the figures of the cells.
    """
    from measure.uncertainty import agree, kind_of, score

    study = _study(content)
    figures = [_cell_figures(cell, content["seconds"], samples) for cell in content["cells"]]
    metrics = {column.name: column.metric for column in study.columns}
    for cell in figures:
        for name, values in cell.outcomes.items():
            metric, kind = metrics[name], kind_of(metrics[name])
            figure = score(values, kind=kind, labels=cell.labels[name])
            if not agree(figure, cell.values[name] or 0.0, kind):
                msg = (
                    f"got {metric} = {cell.values[name]} of run {cell.run}, and {figure:.6g} "
                    "from its outcomes, expected the same: publish both files together"
                )
                raise StudyError(msg)
    refused = {
        (pair["row"], pair["against"], pair["column"]): pair["reason"]
        for pair in content["refused"]
    }
    return study_json.content(study, figures, content["versions"], refused=refused, former=content)


def published_figures(path: Path, study: Study, versions: Mapping[str, str]) -> list[CellFigures]:
    """Return the figures of all cells of a published `study.json`, with their outcomes.

    Raises:
        StudyError: another study, another file of this study, or other versions of the libraries.
    """
    content = study_json.read(path)
    if content["study"]["digest"] != study.digest:
        msg = (
            f"got {path} of another file of study {content['study']['name']}, expected figures of "
            f"{study.name} as its file is now: run all of it again"
        )
        raise StudyError(msg)
    if changed := sorted(k for k, v in content["versions"].items() if versions.get(k) != v):
        msg = (
            f"got {path} made with other versions of {', '.join(changed)}, expected those of this "
            "program: run all of the study again"
        )
        raise StudyError(msg)
    samples = outcomes.read(path, content["outcomes"])
    return [_cell_figures(cell, content["seconds"], samples) for cell in content["cells"]]


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """Return the keys at which two contents differ by more than rounding."""
    if isinstance(first, Mapping) and isinstance(second, Mapping) and first.keys() == second.keys():
        pairs = [(f"{where}.{key}".strip("."), first[key], second[key]) for key in first]
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(first, second, strict=True))]
    # Published numbers have ten digits.
    elif isinstance(first, float) and isinstance(second, float | int):
        same = math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-9)
        return [] if same else [f"{where} is {first:.10g}, computed again {second:.10g}"]
    else:
        return [] if first == second else [f"{where} is {first!r}, computed again {second!r}"]
    return [line for key, old, new in pairs for line in differences(old, new, key)]


def _study(content: Content) -> Study:
    """Return the study of a content, with all that its figures depend on."""
    content = with_tuples(content)
    rows = {row["name"]: StudyRow(**row, stages=()) for row in content["rows"]}
    names, measured = [*rows], list(dict.fromkeys(cell["row"] for cell in content["cells"]))
    for i, name in enumerate(measured):
        if name not in rows:
            # A hidden row, from which others start: it keeps the position of its cells.
            following = next((other for other in measured[i:] if other in rows), None)
            names.insert(len(names) if following is None else names.index(following), name)
    paper, matched = content["paper"], content["matched"]
    return Study(
        **content["study"],
        corpora=tuple(StudyCorpus(**corpus) for corpus in content["corpora"]),
        rows=tuple(
            rows.get(name) or StudyRow(name=name, title=name, seeds=(), stages=(), shown=False)
            for name in names
        ),
        columns=tuple(Column(**column) for column in content["columns"]),
        against=content["compared"]["against"],
        compared=content["compared"]["columns"],
        matched=matched and ReferenceLine(**{k: matched[k] for k in ("at", "rows", "columns")}),
        published=paper and PaperFigures(**paper),
        pictures=tuple(Chart(**chart) for chart in content["pictures"]),
    )


def _cell_figures(
    cell: Mapping[str, Any], seconds: Mapping[str, Any], samples: outcomes.Outcomes | None
) -> CellFigures:
    """Return the figures of a cell of a file, whose outcomes must be about its samples."""
    fields = {} if samples is None else outcomes.of_run(samples, cell["run"])
    own = with_tuples({key: value for key, value in cell.items() if key not in fields})
    for column, digest in fields.get("samples", {}).items():
        computed = outcomes.samples_digest(fields["ids"][column], fields["labels"][column])
        if not computed == digest == cell["samples"].get(column):
            msg = (
                f"got outcomes of run {cell['run']} in column {column} about other samples, "
                "expected those of the study's file: publish both files together"
            )
            raise StudyError(msg)
    return CellFigures(**{**own, **fields}, seconds=seconds.get(cell["run"], {}))
