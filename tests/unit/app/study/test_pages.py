import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.study import outcomes, pages, study_json, tables
from app.study.study import CellFigures, ReferenceLine, Study, StudyError
from tests.unit.app.study.study_samples import cell, row, study

HARD, EASY = "1000000000" * 20, "1111111100" * 20


def publish(docs: Path, made: Study, cells: list[CellFigures]) -> None:
    path = docs / "results" / "tiny.json"
    study_json.write(path, study_json.content(made, cells, {}))
    outcomes.write(path, study_json.outcomes_of(made, cells))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page beside which there is a study's file."""
    line = ReferenceLine(at="accuracy", rows=("a", "b"), columns=("accuracy",))
    made = replace(study(row("a"), row("b"), row("other")), matched=line)
    cells = [cell("a", 0, HARD), cell("b", 0, EASY), cell("other", 0, "0" * 200)]
    publish(tmp_path / "docs", made, cells)
    (tmp_path / "docs" / "methods").mkdir()
    return tmp_path / "docs" / "methods" / "page.md"


def marked(part: str, inside: str = "") -> str:
    return f"<!-- study: docs/results/tiny.json{part} -->{inside}<!-- /study -->"


def test_a_page_is_filled(page: Path) -> None:
    begin, _, end = marked("").partition("-->")
    page.write_text(
        f"# Title\n\n{begin}-->\nold\n{end}\n\nThe end: {marked(' figure b accuracy sst2')}.\n"
    )
    assert pages.check([page.parent]) != []
    assert pages.write(page)
    text = page.read_text()
    assert text.startswith(f"# Title\n\n{begin}-->\n\n**SST-2**\n\n|")
    assert "old" not in text
    assert "**Differences from: A**" in text
    assert f"- Printed by `steadfast study table docs/results/tiny.json`.\n\n{end}" in text
    # A single figure stands in its sentence.
    assert "-->80.0 (1 seed)<!-- /study -->.\n" in text
    assert pages.check([page.parent]) == []
    assert not pages.write(page)
    assert page.read_text() == text


@pytest.mark.parametrize(
    ("part", "there", "not_there"),
    [
        (" tables", "accuracy, %", "Differences"),
        (" table sst2", "accuracy, %", "Differences"),
        (" comparisons", "p texts", "Printed by"),
        (" comparisons sst2", "p texts", "Printed by"),
        (" matched", "outside the line", "Printed by"),
        (" notes", "- One seed:", "p texts |"),
        (" all", "Printed by", "¿"),
    ],
)
def test_parts(page: Path, part: str, there: str, not_there: str) -> None:
    page.write_text(marked(part, "\n") + "\n")
    pages.write(page)
    assert there in page.read_text()
    assert not_there not in page.read_text()


def test_a_figure_that_was_typed_is_found(page: Path) -> None:
    page.write_text(f"one\n\n{marked(' tables', chr(10))}\n")
    pages.write(page)
    page.write_text(page.read_text().replace("80.0", "88.0"))
    (problem,) = pages.check([page])
    assert (problem.page, problem.line) == (page, 10)
    assert f"steadfast study table --write {page}" in str(problem)


def test_new_figures_of_a_study_are_found(page: Path) -> None:
    page.write_text(marked(" figure a accuracy sst2"))
    pages.write(page)
    publish(page.parents[1], study(), [cell("a", 0, EASY)])
    assert [one.line for one in pages.check([page])] == [1]


def test_differences_in_prose_are_those_of_unrounded_figures(page: Path) -> None:
    # 45.25 - 41.7 are 3.55, and 45.3 - 41.7 are 3.6.
    cells = [
        cell(name, seed, values={"accuracy": value + seed / 1000})
        for name, value in {"a": 0.41704, "b": 0.45248}.items()
        for seed in range(2)
    ]
    publish(page.parents[1], study(), cells)
    same = "<!-- study: . {} -->9.9<!-- /study -->".format
    page.write_text(
        f"By {marked(' difference b a accuracy sst2')} ({same('differences b a accuracy sst2')}) "
        f"of {same('mean b accuracy sst2')} ({same('seeds b accuracy sst2')}).\n"
    )
    (problem,) = pages.check([page])
    assert problem.line == 1
    pages.write(page)
    plain = re.sub(r"<!--.*?-->", "", page.read_text())
    assert plain == "By +3.5 (+3.5 and +3.5) of 45.3 (45.2 and 45.3).\n"
    page.write_text(page.read_text().replace("+3.5 and", "+3.6 and"))
    assert len(pages.check([page])) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x\n<!-- study: docs/results/tiny.json -->\n", "got a marker without <!-- /study -->"),
        ("x\n<!-- /study -->\n", "got <!-- /study --> more often"),
        (f"x\n{marked(' chart')}", "got part 'chart' of docs/results/tiny.json"),
        (f"x\n{marked(' table news')}", "got part 'table news'"),
        (f"x\n{marked(' figure c accuracy sst2')}", "got part 'figure c accuracy sst2'"),
        (f"x\n{marked(' difference c a accuracy sst2')}", "got part 'difference c a accuracy"),
        (f"x\n{marked('').replace('tiny', 'absent')}", "got study file docs/results/absent.json"),
        (
            "x\n" + marked("", "<!-- study: docs/results/tiny.json -->\n"),
            "got a marker inside another",
        ),
    ],
)
def test_wrong_markers(page: Path, text: str, said: str) -> None:
    page.write_text(text)
    assert said in str(pages.check([page])[0])
    assert str(pages.check([page])[0]).startswith(f"{page}:2: ")
    with pytest.raises(StudyError, match=r"page\.md:2: got"):
        pages.write(page)
    assert page.read_text() == text


def test_code_is_left_alone(page: Path) -> None:
    begin = "<!-- study: docs/results/tiny.json -->"
    text = f"Write `{begin}` and `<!-- /study -->`:\n\n```md\n{begin}\nold\n<!-- /study -->\n```\n"
    page.write_text(text)
    assert pages.check([page]) == []
    assert not pages.write(page)
    page.write_text(f"{text}\n{marked(' tables', chr(10))}\n")
    assert pages.write(page)
    assert page.read_text().startswith(text)


def test_pages_that_are_not_there(tmp_path: Path) -> None:
    (problem,) = pages.check([tmp_path / "absent.md"])
    assert "cannot be read" in problem.text


def test_the_table_is_that_of_the_command(page: Path) -> None:
    page.write_text(marked("", "\n"))
    pages.write(page)
    content = study_json.read(page.parents[1] / "results" / "tiny.json")
    assert tables.render(content, "markdown").rstrip("\n") in page.read_text()
