"""Fills the tables between markers in Markdown pages, and checks that they are up to date.

    <!-- study: docs/results/NAME.json PART -->
    <!-- /study -->

The file is searched in the directory of the page and all those above it. PART is `all` (the
default), `tables`, `comparisons`, `matched`, `notes`, `table CORPUS`, `comparisons CORPUS`,
`matched CORPUS`, or, with both markers in one line, figures inside a sentence:

- `figure ROW COLUMN [CORPUS]`, `mean`, `seeds`: as in the table, its mean, the figure of each seed
- `difference ROW AGAINST COLUMN [CORPUS]`, `differences`: the mean one, that at each seed

The file `.` repeats that of the marker before. Markers in code are left alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from app.study import outcomes, study_json, tables
from app.study.derivation import derive, differences
from app.study.study import StudyError
from app.study.table_formats import Table, markdown
from app.study.tables import Content
from run_files import atomic
from text.bounded_files import DataError, read_text

_BEGIN = re.compile(r"(?<!`)<!-- study: (?P<file>\S+?)(?: (?P<part>[^<>\n]*?))? -->")
_END = "<!-- /study -->"
_SAME = "."
"""The file of the marker before."""
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")


class PageProblem(NamedTuple):
    """An error in a page, at a line counted from 1."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def write(page: Path) -> bool:
    """Fill all markers of a page, unless one is wrong, and return whether it has changed.

    Raises:
        StudyError: a marker is wrong; the message lists all wrong ones.
    """
    before = read_text(page)
    after, problems = fill(before, page)
    if problems:
        raise StudyError("\n".join(map(str, problems)))
    if after != before:
        atomic.write_text(page, after)
    return after != before


def check(paths: Iterable[Path]) -> list[PageProblem]:
    """Return all errors and outdated figures in pages, and in the files that they show.

    Paths are pages, directories with pages (`*.md`) at any depth, and files of studies (`*.json`).
    """
    problems: list[PageProblem] = []
    files: dict[Path, None] = {}
    pages = (sorted(path.rglob("*.md")) if path.is_dir() else [path] for path in paths)
    for page in chain.from_iterable(pages):
        if page.suffix == ".json":
            files[page] = None
            continue
        try:
            before = read_text(page)
        except DataError as error:
            problems.append(PageProblem(page, 1, f"got a page that cannot be read ({error})"))
            continue
        after, wrong = fill(before, page)
        problems += wrong
        if after != before and not wrong:
            repair = f"`steadfast study table --write {page}` repairs it"
            text = f"the figures here are not those of the study's file; {repair}"
            lines = enumerate(zip_longest(before.splitlines(), after.splitlines()), 1)
            first = next((number for number, (old, new) in lines if old != new), 1)
            problems.append(PageProblem(page, first, text))
        sources = (_find(page, begin["file"]) for begin in _outside_code(_BEGIN, before))
        files |= dict.fromkeys(file for file in sources if file is not None)
    return problems + [problem for file in files for problem in check_file(file)]


def check_file(path: Path) -> list[PageProblem]:
    """Return the figures, intervals and tests of a file that do not follow from its outcomes."""
    try:
        content = study_json.read(path)
        again = derive(content, outcomes.read(path, content["outcomes"]))
    except (StudyError, OSError) as error:
        return [PageProblem(path, 1, str(error))]
    # Content without the keys of the format.
    except (KeyError, TypeError, AttributeError) as error:
        return [PageProblem(path, 1, f"got a study.json that cannot be computed again ({error!r})")]
    lines = differences(content, again)
    text = f"`steadfast study table {path} --publish {path.parent}` writes it anew"
    more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
    return [PageProblem(path, 1, f"{'; '.join(lines[:3])}{more}: {text}")] if lines else []


def _find(page: Path, file: str) -> Path | None:
    """Return the file in the nearest directory above a page; None if not found."""
    folders = page.absolute().parents
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def fill(text: str, page: Path) -> tuple[str, list[PageProblem]]:
    """Return the text of a page with its figures, and the errors in its markers."""
    parts, problems, position, used = [], [], 0, 0
    # An end in backquotes is an example of one.
    end_marker = re.compile(f"(?<!`){re.escape(_END)}")
    ends = [match.start() for match in _outside_code(end_marker, text)]
    file = _SAME
    for begin in _outside_code(_BEGIN, text):
        line = text.count("\n", 0, begin.start()) + 1
        # Inside the text of the marker before.
        if begin.start() < position:
            problems.append(
                PageProblem(page, line, f"got a marker inside another, expected {_END}")
            )
            continue
        end = next((start for start in ends if start >= begin.end()), None)
        if end is None:
            problems.append(PageProblem(page, line, f"got a marker without {_END}, expected one"))
            continue
        used += 1
        file = file if begin["file"] == _SAME else begin["file"]
        try:
            figures = _render(page, file, (begin["part"] or "all").split())
        except (StudyError, OSError) as error:
            problems.append(PageProblem(page, line, str(error)))
            continue
        # A single figure is a part of a sentence.
        inline = "\n" not in figures and "\n" not in text[begin.end() : end]
        parts += [text[position : begin.end()], figures if inline else f"\n\n{figures}\n\n"]
        position = end
    if used < len(ends):
        line = text.count("\n", 0, ends[0]) + 1
        problems.append(PageProblem(page, line, f"got {_END} more often than its beginning"))
    return "".join([*parts, text[position:]]), problems


def _render(page: Path, file: str, part: list[str]) -> str:
    """Return the text between two markers; a StudyError if file or part is not found."""
    path = _find(page, file)
    if path is None:
        msg = (
            f"got study file {file}, which is in none of the folders above the page, expected "
            "one: `steadfast study table STUDY.yaml --publish docs/results` makes it"
        )
        raise StudyError(msg)
    content = study_json.read(path)
    name, *names = part
    # The number of words decides whether CORPUS is given.
    render = _PARTS.get((name, len(names)))
    text = None if render is None else render(content, *names)
    if text is None:
        available = ", ".join(" ".join([name, *["NAME"] * count]) for name, count in _PARTS)
        msg = f"got part {' '.join(part)!r} of {file}, which has none of it, expected: {available}"
        raise StudyError(msg)
    if name in ("all", "notes"):
        text += f"\n- Printed by `steadfast study table {file}`."
    return text


def _joined(
    make: Callable[[Content, str | None], list[Table]], content: Content, corpus: str | None = None
) -> str | None:
    return "\n\n".join(map(markdown, make(content, corpus))) or None


_FUNCTIONS: dict[str, tuple[Callable[..., str | None], tuple[int, ...]]] = {
    "all": (lambda content: tables.render(content, "markdown").rstrip("\n"), (0,)),
    "tables": (partial(_joined, tables.main_tables), (0,)),
    "table": (partial(_joined, tables.main_tables), (1,)),
    "comparisons": (partial(_joined, tables.comparisons), (0, 1)),
    "matched": (partial(_joined, tables.matched), (0, 1)),
    "notes": (tables.note_list, (0,)),
    "figure": (tables.figure, (2, 3)),
    "mean": (partial(tables.figures_by_seed, mean=True), (2, 3)),
    "seeds": (tables.figures_by_seed, (2, 3)),
    "difference": (partial(tables.differences_by_seed, mean=True), (3, 4)),
    "differences": (tables.differences_by_seed, (3, 4)),
}
_PARTS = {
    (name, count): function for name, (function, counts) in _FUNCTIONS.items() for count in counts
}
"""The function of a part, by its first word and the number of words after it."""


def _outside_code(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that are not in fenced blocks of code."""
    # As in CommonMark: a fence ends with as many signs of its kind, or more.
    blocks, fence, start, position = [], "", 0, 0
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line)
        if match and not fence:
            fence, start = match[1], position
        elif match and match[1].startswith(fence) and line.strip() == match[1]:
            blocks.append((start, position + len(line)))
            fence = ""
        position += len(line)
    if fence:  # never closed
        blocks.append((start, position))
    for match in pattern.finditer(text):
        if not any(begin <= match.start() < end for begin, end in blocks):
            yield match
