"""The page of the five papers: no number is missing, and what a row names exists."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs import papers
from docs.papers import Paper, PaperRow
from tests.unit.packaging import test_commands, test_pages
from tests.unit.packaging.metadata import ROOT

PAPERS = papers.read_papers()
ROWS = [
    pytest.param(paper, row, id=f"{paper.name}: {row.item}")
    for paper in PAPERS
    for row in paper.rows
]
MEASURED = ("reproduced", "not reproduced", "undecidable here", "cut")
EACH_PAPER = pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
EACH_ROW = pytest.mark.parametrize(("paper", "row"), ROWS)


def expand(numbers: str) -> list[str]:
    """Return the numbers of `4.1, 5.1-5.3`: 4.1, 5.1, 5.2, 5.3."""
    expanded = []
    for part in numbers.split(", "):
        first, _, last = part.partition("-")
        chapter = first.rstrip("0123456789")
        start, stop = (int(end.removeprefix(chapter)) for end in (first, last or first))
        expanded += [f"{chapter}{number}" for number in range(start, stop + 1)]
    return expanded


def missing_numbers(paper: Paper) -> list[str]:
    """Return the numbered parts of a paper without a row, and rows without such a part."""
    differences = []
    for kind, numbers in paper.numbered.items():
        items = (re.fullmatch(rf"{kind}s? ([^(]+?)(?: \(.*\))?", row.item) for row in paper.rows)
        listed = {number for item in items if item for number in expand(item[1])}
        differences += [f"{kind} {number}" for number in listed ^ set(expand(numbers))]
    return sorted(differences)


def result_of(paper: Paper, row: PaperRow) -> Path | None:
    """Return the published result of the study that a row names; None for another command."""
    study = re.search(
        r"study run configs/studies/(?:\w+/)?(\w+)\.yaml", paper.commands[str(row.command)]
    )
    return ROOT / "docs" / "results" / f"{study[1]}.json" if study else None


def test_the_page_is_made_from_the_file() -> None:
    assert papers.PAGE.read_text(encoding="utf-8") == papers.render(), "run: python -m docs.papers"


def test_ranges_of_numbers() -> None:
    assert expand("4.1, 5.9-5.11, F.1-F.2, 7") == [
        *("4.1", "5.9", "5.10", "5.11"),
        *("F.1", "F.2", "7"),
    ]


@EACH_PAPER
def test_no_number_is_missing(paper: Paper) -> None:
    assert missing_numbers(paper) == []
    items = [row.item for row in paper.rows]
    assert len(items) == len(set(items))


@EACH_PAPER
def test_a_removed_row_is_noticed(paper: Paper) -> None:
    for kind in paper.numbered:
        (row, *_) = (row for row in paper.rows if row.item.startswith(kind))
        # Parts of a table, as `Table 1 (SST-2)`, have the same number.
        number = row.item.partition(" (")[0]
        rest = [other for other in paper.rows if other.item.partition(" (")[0] != number]
        assert missing_numbers(replace(paper, rows=rest))


@EACH_PAPER
def test_every_command_is_one_and_is_used(paper: Paper) -> None:
    # tests/unit/packaging/test_commands.py reads the commands of the page with their parsers.
    for command in paper.commands.values():
        (words,) = test_commands.command(command)
        assert tuple(words) in test_commands.PAGE_OF
    used = {row.command for row in paper.rows} | {entry["command"] for entry in paper.missing}
    assert set(paper.commands) - used == set()
    assert {entry["command"] for entry in paper.missing} <= set(paper.commands)


@EACH_ROW
def test_what_a_row_names_exists(paper: Paper, row: PaperRow) -> None:
    assert row.state in papers.STATES
    page, _, section = papers.target(paper, row).partition("#")
    assert not section or section in test_pages.sections(ROOT / "docs" / page)
    if row.command is None:
        assert row.state in ("not run", "illustration")
    elif row.command not in paper.commands:
        files = list((ROOT / "tests" / "unit").rglob(f"{row.command}.py"))
        assert len(files) == 1
    assert row.ground or row.state in ("proved", "tested")


@EACH_ROW
def test_what_is_measured_is_published_and_nothing_else(paper: Paper, row: PaperRow) -> None:
    if row.command not in paper.commands:
        assert row.state not in MEASURED
        return
    result = result_of(paper, row)
    if result is not None:
        assert result.exists() == (row.state in MEASURED)
    elif row.state in MEASURED:
        program = re.match(r"(?:python -m )?\S+(?: [a-z]\w+)?", paper.commands[row.command])
        page = papers.target(paper, row).partition("#")[0]
        assert program is not None
        assert program[0] in (ROOT / "docs" / page).read_text(encoding="utf-8")
