"""The page papers.md, made from papers.yaml: `python -m docs.papers` writes it."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

DOCS = Path(__file__).parent
PAGE = DOCS / "papers.md"
STATES = {
    "reproduced": "measured at the paper's size, with its outcome",
    "not reproduced": "measured, the figures point in the other direction",
    "undecidable here": "measured, the difference is within chance, or of one seed",
    "cut": "measured at a smaller size",
    "not run": "not measured",
    "proved": "a statement with a proof on our pages",
    "tested": "a statement, definition or setting that our tests check",
    "refuted": "a statement that is false as printed, with a counterexample",
    "illustration": "a drawing, definition or quotation: nothing to measure",
}


@dataclass(frozen=True)
class PaperRow:
    """A part of a paper.

    Attributes:
        item: its name in the paper, as `Equations 3-6`, with a part of it in brackets.
        what: its content.
        page: page and section of `docs/` that have it here.
        state: one of `STATES`.
        command: name among the commands of the paper, or a test file; None if nothing has it.
        ground: what was cut, or why.
    """

    item: str
    what: str
    page: str
    state: str
    command: str | None = None
    ground: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper with all its parts.

    Attributes:
        numbered: the numbers that the paper has, by kind: `{"Table": "1-11"}`.
        commands: commands of this repository, by name.
        missing: rows worth running next, with their costs.
    """

    name: str
    title: str
    authors: str
    page: str
    numbered: dict[str, str]
    commands: dict[str, str]
    missing: list[dict[str, Any]]
    rows: list[PaperRow]


def read_papers() -> list[Paper]:
    """Return the papers of papers.yaml."""
    content = yaml.safe_load((DOCS / "papers.yaml").read_text(encoding="utf-8"))["papers"]
    papers = []
    for paper in content.values():
        rows = [PaperRow(**row) for row in paper.pop("rows")]
        papers.append(Paper(**paper, rows=rows))
    return papers


def hours(cost: dict[str, Any]) -> float:
    """Return the hours of `runs` runs, by the median of published runs that are `like` them."""
    content = json.loads((DOCS / "results" / f"{cost['study']}.json").read_text(encoding="utf-8"))
    seconds = [
        sum(stages.values())
        for run, stages in content["seconds"].items()
        if re.match(str(cost["like"]), run)
    ]
    return float(cost["runs"] * median(seconds) / 3600)


def target(paper: Paper, row: PaperRow) -> str:
    """Return page and section of a row: a section alone is one of the paper's page."""
    return paper.page + row.page if row.page.startswith("#") else row.page


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield from (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    yield ""


def paper_section(paper: Paper) -> Iterator[str]:
    """Yield the lines of a paper: source, commands, parts."""
    source = f"{paper.title} ({paper.authors})."
    yield from (f"## {paper.name}", "", source, f"[Page]({paper.page}).", "")
    for name, command in paper.commands.items():
        line, *more = wrapped(command)
        yield from (f"    # {name}", f"    {line}", *(f"        {part}" for part in more))
    yield ""
    # Links by number: with the addresses, a row would be twice as long.
    stem = Path(paper.page).stem
    targets = dict.fromkeys(target(paper, row) for row in paper.rows)
    labels = {address: f"{stem}-{number}" for number, address in enumerate(targets, start=1)}
    rows = [
        [
            row.item,
            row.what,
            f"`{row.command}`" if row.command else "–",
            f"[{row.state}][{labels[target(paper, row)]}]",
            row.ground,
        ]
        for row in paper.rows
    ]
    yield from table(["part", "content", "command", "state", "ground"], rows)
    yield from (f"[{label}]: {address}" for address, label in labels.items())
    yield ""


def wrapped(command: str) -> list[str]:
    """Return the lines of a command: options that do not fit begin a new line."""
    lines: list[str] = []
    for option in re.split(" (?=--)", command):
        if lines and len(lines[-1]) + len(option) < 105:
            lines[-1] += f" {option}"
        else:
            lines.append(option)
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


INTRODUCTION = """\
# The five papers, part by part

    python -m docs.papers                          # writes this page from docs/papers.yaml
    python -m pytest tests/unit -k test_l2_bounds  # a test of the column "command"

Each numbered table, figure and statement of the papers, and the central equations, with the command
that measures or checks it here. `tests/unit/packaging/test_paper_rows.py` checks that no number is
missing and that every command, section and published study exists.
"""

COSTS = """\
Rows that would add most to each paper. Hours are those of the runs, one after the other: the
median time of published runs of this kind (`docs/results`), on a CPU that other programs shared.
"""


def render() -> str:
    """Return the page."""
    papers = read_papers()
    lines = [INTRODUCTION, "## States", ""]
    lines += table(["state", "meaning"], [[name, meaning] for name, meaning in STATES.items()])
    counts = [Counter(row.state for row in paper.rows) for paper in papers]
    lines += table(
        ["paper", "rows", *STATES],
        [
            [paper.name, str(len(paper.rows)), *(str(count[state]) for state in STATES)]
            for paper, count in zip(papers, counts, strict=True)
        ],
    )
    lines += ["## Rows to run next", "", COSTS]
    costs = [
        [
            paper.name,
            entry["item"],
            f"`{entry['command']}`",
            f"{hours(entry['cost']):.1f}" if isinstance(entry["cost"], dict) else entry["cost"],
        ]
        for paper in papers
        for entry in paper.missing
    ]
    lines += table(["paper", "rows", "command", "hours"], costs)
    for paper in papers:
        lines += paper_section(paper)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
