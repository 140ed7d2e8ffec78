import warnings
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.study import study_json
from app.study.pictures import draw, draw_all
from app.study.study import CellFigures, Chart, ReferenceLine
from tests.unit.app.study.study_samples import ACCURACY, ATTACKED, cell, row, study

CELLS = [
    cell("a", 0, "1100", values={"fooled": 0.5}),
    cell("a", 1, "1000", values={"fooled": 0.25}, unreliable=["fooled"]),
    cell("b", 0, "1111", values={"fooled": None}),
]


def content(*pictures: Chart, cells: list[CellFigures]) -> study_json.Content:
    made = study(row("a"), row("b"), row("_$c$"), columns=[ACCURACY, ATTACKED])
    return study_json.content(replace(made, pictures=pictures), cells, {})


def picture(kind: str, *columns: str, corpus: str | None = "sst2") -> Chart:
    return Chart(name=kind, kind=kind, columns=columns, corpus=corpus)  # type: ignore[arg-type] # a parameter


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("bars", ["accuracy"]),
        ("bars", ["accuracy", "fooled"]),
        ("lines", ["accuracy", "fooled"]),
        ("scatter", ["accuracy", "fooled"]),
    ],
)
def test_both_formats(tmp_path: Path, kind: str, columns: list[str]) -> None:
    found = content(picture(kind, *columns), cells=CELLS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = draw_all(found, tmp_path)
    assert [path.name for path in written] == [f"tiny-{kind}.png", f"tiny-{kind}.svg"]
    png, svg = (path.read_bytes() for path in written)
    assert png.startswith(b"\x89PNG")
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    # Neither a version nor a date.
    assert not any(word in png + svg for word in (b"Software", b"creator", b"Matplotlib", b":date"))
    # The same figures, the same bytes.
    draw_all(found, tmp_path)
    assert [path.read_bytes() for path in written] == [png, svg]


def test_intervals_of_shares_end_at_their_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(
        "app.study.pictures.grouped_bars", lambda names, series, *_, **__: drawn.extend(series)
    )
    found = content(picture("bars", "accuracy"), cells=[cell("a", 0, "10"), cell("a", 1, "11")])
    assert (found["figures"][0]["low"], found["figures"][0]["high"]) == (0, 100)
    assert draw(found, found["pictures"][0], tmp_path / "a.png")
    (bars,) = drawn
    assert (bars.low, bars.height, bars.high) == ([0.0], [75.0], [100.0])


def test_nothing_to_draw(tmp_path: Path) -> None:
    found = content(picture("bars", "accuracy"), cells=[])
    assert draw_all(found, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    # Of two figures one is missing: there is no point.
    found = content(picture("scatter", "accuracy", "fooled"), cells=[cell("a", 0, "10")])
    assert not draw(found, found["pictures"][0], tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("across", "joined"), [("accuracy", [(25.0, 20.0), (75.0, 50.0)]), ("fooled", [])]
)
def test_a_line_through_the_rows_of_one_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, across: str, joined: list[tuple[float, float]]
) -> None:
    drawn = {}
    monkeypatch.setattr("app.study.pictures.scatter", lambda *_, **given: drawn.update(given))
    cells = [
        cell("late", 0, "1110", values={"fooled": 0.5}),
        cell("early", 0, "1000", values={"fooled": 0.2}),
        cell("a", 0, "1100", values={"fooled": 0.4}),
    ]
    rows = [row(name, seeds=(0,)) for name in ("late", "early", "a")]
    up = "fooled" if across == "accuracy" else "accuracy"
    made = replace(
        study(*rows, columns=[ACCURACY, ATTACKED], against=[]),
        matched=ReferenceLine(at="accuracy", rows=("late", "early"), columns=("fooled",)),
        pictures=(picture("scatter", across, up),),
    )
    found = study_json.content(made, cells, {})
    assert draw(found, found["pictures"][0], tmp_path / "a.png")
    assert drawn["line"] == joined
