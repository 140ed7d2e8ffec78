import math
from dataclasses import replace

import pytest

from app.study import study_json, tables
from app.study.study import CellFigures, ReferenceLine, Study, StudyError
from app.study.table_formats import markdown
from measure.matched import Spot, compare_with_line
from measure.uncertainty import Side
from tests.unit.app.study.study_samples import ACCURACY, ATTACKED, cell, row, study

LINE = ReferenceLine(at="accuracy", rows=("early", "late"), columns=("fooled",))


def spot(across: str, up: str) -> Spot:
    """A row whose outcomes are written as in `1101`."""
    every = [[float(one) for one in outcomes] for outcomes in (across, up)]
    sides = [Side(values=[sum(one) / len(one)], outcomes=[one]) for one in every]
    return Spot(across=sides[0], up=sides[1])


def at(across: float, up: float) -> Spot:
    return Spot(across=Side(values=[across]), up=Side(values=[up]))


def test_straight_lines_join_the_rows_of_one_kind() -> None:
    line = [at(0.9, 0.3), at(0.5, 0.1), at(0.7, 0.1)]
    for accuracy, height in ((0.5, 0.1), (0.6, 0.1), (0.8, 0.2), (0.9, 0.3)):
        found = compare_with_line(at(accuracy, 0.25), line)
        assert found is not None
        assert found.line == pytest.approx(height)
        assert found.effect == pytest.approx(0.25 - height)
        assert found.low is found.high is None
    # No extrapolation.
    assert compare_with_line(at(0.49, 0.25), line) is None
    assert compare_with_line(at(0.91, 0.25), line) is None
    # Two points above each other count as their mean.
    found = compare_with_line(at(0.5, 0.0), [*line, at(0.5, 0.3)])
    assert found is not None
    assert found.line == pytest.approx(0.2)


def test_the_mean_over_seeds_counts() -> None:
    row = Spot(across=Side(values=[0.5, 0.7]), up=Side(values=[0.2, 0.6]))
    found = compare_with_line(row, [at(0.4, 0.0), at(0.8, 0.4)])
    assert found is not None
    assert found.effect == pytest.approx(0.4 - 0.2)


@pytest.mark.long
def test_the_interval_is_that_of_the_drawn_texts() -> None:
    # The line has no spread, and lies at 0: all is right of one row, and nothing of the other.
    texts, share = 400, 0.3
    up = "1" * int(share * texts) + "0" * int((1 - share) * texts)
    line = [spot("0" * 10, "0" * texts), spot("1" * 10, "0" * texts)]
    found = compare_with_line(spot("10" * 5, up), line)
    assert found is not None
    deviation = math.sqrt(share * (1 - share) / texts)
    assert found.effect == pytest.approx(share)
    assert found.low == pytest.approx(share - 1.96 * deviation, abs=0.006)
    assert found.high == pytest.approx(share + 1.96 * deviation, abs=0.006)
    # A line that rises by 1: chance in the accuracy counts as much as chance in the height.
    line = [spot("0" * 100, "0" * texts), spot("1" * 100, "1" * texts)]
    found = compare_with_line(spot("1" * 50 + "0" * 50, up), line)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    wide = math.hypot(deviation, math.sqrt(0.25 / 100))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * wide, rel=0.05)


@pytest.mark.long
def test_rows_answer_the_same_drawn_texts() -> None:
    across, up = "1100110011", "1010110100"
    line = [spot("0" * 10, "0" * 10), spot(across, up), spot("1" * 10, "1" * 10)]
    found = compare_with_line(spot(across, up), line)
    assert found is not None
    assert found.effect == pytest.approx(0.0, abs=1e-12)
    assert found.low == pytest.approx(0.0, abs=1e-12)
    assert found.high == pytest.approx(0.0, abs=1e-12)


def test_a_line_that_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="got a line of 1 row, expected at least two"):
        compare_with_line(at(0.5, 0.5), [at(0.5, 0.5)])
    line = [spot("0000", "00"), spot("1111", "00")]
    with pytest.raises(ValueError, match="got rows with 2, 4, 4 samples"):
        compare_with_line(spot("10", "00"), line)


def lined(*cells: CellFigures) -> study_json.Content:
    return study_json.content(made(), list(cells), {})


def made() -> Study:
    rows = [row(name, seeds=(0, 1)) for name in ("early", "late", "a", "b")]
    return replace(study(*rows, columns=[ACCURACY, ATTACKED], against=[]), matched=LINE)


def both(name: str, accuracy: str, fooled: str) -> CellFigures:
    one = cell(name, 0, accuracy, values={"fooled": fooled.count("1") / len(fooled)})
    outcomes = {**one.outcomes, "fooled": tuple(map(float, fooled))}
    places = tuple(range(len(fooled)))
    return replace(
        one,
        outcomes=outcomes,
        samples={**one.samples, "fooled": "attacked"},
        ids={**one.ids, "fooled": places},
        labels={**one.labels, "fooled": places},
    )


CELLS = (
    both("early", "1100000000", "1000"),
    both("late", "1111111100", "1111"),
    both("a", "1111100000", "1110"),
    both("b", "1111111110", "1110"),
)


@pytest.mark.long
def test_a_study_with_a_line() -> None:
    found = lined(*CELLS)
    inside, outside = found["matched"]["lines"]
    assert (inside["row"], inside["column"], inside["seeds"]) == ("a", "fooled", [0])
    assert inside["line"] == pytest.approx(62.5)
    assert inside["effect"] == pytest.approx(12.5)
    assert inside["low"] < 12.5 < inside["high"]
    assert (outside["row"], outside["effect"], outside["low"]) == ("b", None, None)
    # Rows that were not run have no line.
    assert lined(CELLS[0], *CELLS[2:])["matched"]["lines"] == []
    assert lined(*CELLS[:2])["matched"]["lines"] == []


@pytest.mark.long
def test_the_table_of_a_line() -> None:
    found = lined(*CELLS)
    (table,) = tables.matched(found)
    assert table.title == "At equal accuracy: differences from the line through EARLY; LATE"
    assert table.rows[0][:6] == ["A", "TextFooler, %", "1", "50.0", "75.0", "62.5"]
    assert table.rows[0][6].startswith("+12.5 [")
    assert table.rows[1] == ["B", "TextFooler, %", "1", "90.0", "75.0", "–", "outside the line"]
    text = tables.render(found, "markdown")
    assert markdown(table) in text
    assert "- At equal accuracy: straight lines" in text
    assert "at equal accuracy,sst2,a,,fooled,," not in tables.render(found, "csv")
    assert "at equal accuracy,sst2,a,,fooled," in tables.render(found, "csv")
    # Files of older versions have none.
    del found["matched"]
    assert tables.matched(found) == []


@pytest.mark.long
def test_another_random_stream_is_no_error() -> None:
    former = lined(*CELLS)
    line = former["matched"]["lines"][0]
    low = line["low"]
    # Ends of four texts move by up to 25 points.
    for change, taken in ((10.0, low + 10.0), (60.0, low)):
        line["low"] = low + change
        again = study_json.content(made(), CELLS, {}, former=former)
        assert again["matched"]["lines"][0]["low"] == pytest.approx(taken)


@pytest.mark.long
def test_the_title_names_the_rows_that_the_line_joins() -> None:
    rows = [row(name, seeds=(0, 1)) for name in ("early", "late", "last", "a")]
    line = replace(LINE, rows=("early", "late", "last"))
    partly = replace(study(*rows, columns=[ACCURACY, ATTACKED], against=[]), matched=line)
    (table,) = tables.matched(study_json.content(partly, CELLS[:3], {}))
    assert table.title == "At equal accuracy: differences from the line through EARLY; LATE"


@pytest.mark.long
def test_only_the_seeds_of_all_count() -> None:
    further = [
        replace(both(*outcomes), seed=1, run=f"{outcomes[0]}-s1")
        for outcomes in (
            ("early", "1000000000", "0000"),
            ("late", "1111111111", "1100"),
            ("a", "1111110000", "0000"),
        )
    ]
    alone = lined(*CELLS)["matched"]["lines"][0]
    # The late row has no second seed: that of the others does not count.
    found = lined(*CELLS, further[0], further[2])["matched"]["lines"][0]
    assert found == alone
    found, other, *_ = lined(*CELLS, *further)["matched"]["lines"]
    assert (found["seeds"], found["at"], found["figure"]) == ([0, 1], 55.0, 37.5)
    # From (15, 12.5) to (90, 75).
    assert found["line"] == pytest.approx(12.5 + 62.5 * 40 / 75)
    # Row b has the first seed alone, and is beyond the line of that seed.
    assert other["at"] == 90.0
    # Without a seed in common nothing is said of the row.
    assert len(lined(*CELLS[:3], replace(CELLS[3], seed=1))["matched"]["lines"]) == 1


def test_a_figure_that_an_attack_flagged_stays_flagged() -> None:
    found = lined(replace(CELLS[0], unreliable=("fooled",)), *CELLS[1:])
    (table,) = tables.matched(found)
    assert table.rows[0][6].endswith("]†")


def test_other_samples_are_refused() -> None:
    other = replace(CELLS[2], samples={**CELLS[2].samples, "fooled": "others"})
    with pytest.raises(StudyError, match="with other samples in column fooled"):
        lined(*CELLS[:2], other)
