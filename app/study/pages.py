"""Fills the tables between markers in Markdown pages, and checks that they are up to date.

    <!-- study: docs/results/NAME.json PART -->
    <!-- /study -->

The file is looked for from the page's folder upwards. PART is `all` (also if it is left out),
`tables`, `comparisons`, `matched`, `notes`, `table CORPUS`, `comparisons CORPUS`, `matched CORPUS`,
or, with both markers in one line, figures inside a sentence:

- `figure ROW COLUMN [CORPUS]`, `mean`, `seeds`: as in the table, its mean, the figure of each seed
- `difference ROW AGAINST COLUMN [CORPUS]`, `differences`: the mean one, that at each seed

`.` instead of the file is that of the marker before. Markers in code are left alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from app.runs import atomic
from app.study import outcomes, study_json, tables
from app.study.derivation import derive, differences
from app.study.study import StudyError
from text.bounded_files import DataError, read_text

_BEGIN = re.compile(r"(?<!`)<!-- study: (?P<file>\S+?)(?: (?P<part>[^<>\n]*?))? -->")
_END = "<!-- /study -->"
_SAME = "."
"""The file of the marker before."""
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
Content = Mapping[str, Any]


class Problem(NamedTuple):
    """A place of a page that is wrong.

    Attributes:
        page: the file.
        line: counted from 1.
        text: what is wrong.
    """

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def write(page: Path) -> bool:
    """Fills all markers of a page; a page with a wrong marker is left as it is.

    Returns:
        True if the page has changed.

    Raises:
        StudyError: a marker is wrong; the message lists all that are.
        OSError: the page cannot be read or written.
    """
    before = read_text(page)
    after, problems = filled(before, page)
    if problems:
        raise StudyError("\n".join(map(str, problems)))
    if after != before:
        atomic.write_text(page, after)
    return after != before


def check(places: Iterable[Path]) -> list[Problem]:
    """Returns all that is wrong or out of date in pages, and in the files that they show.

    Args:
        places: pages, folders with pages (`*.md`) at any depth, and files of studies (`*.json`).
    """
    found: list[Problem] = []
    files: dict[Path, None] = {}
    for page in _pages(places):
        if page.suffix == ".json":
            files[page] = None
            continue
        try:
            before = read_text(page)
        except DataError as error:
            found.append(Problem(page, 1, f"got a page that cannot be read ({error})"))
            continue
        after, problems = filled(before, page)
        found += problems
        if after != before and not problems:
            repair = f"`python -m app study table --write {page}` repairs it"
            text = f"the figures here are not those of the study's file; {repair}"
            found.append(Problem(page, _first_difference(before, after), text))
        files |= dict.fromkeys(_files(before, page))
    for file in files:
        found += check_file(file)
    return found


def check_file(path: Path) -> list[Problem]:
    """Returns what does not follow from cells and outcomes in a file: figures, intervals, tests."""
    try:
        content = study_json.read(path)
        again = derive(content, outcomes.read(path, content["outcomes"]))
    except (StudyError, OSError) as error:
        return [Problem(path, 1, str(error))]
    except (KeyError, TypeError, AttributeError) as error:
        return [Problem(path, 1, f"got a study.json that cannot be computed again ({error!r})")]
    lines = differences(content, again)
    text = f"`python -m app study table {path} --publish {path.parent}` writes it anew"
    more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
    return [Problem(path, 1, f"{'; '.join(lines[:3])}{more}: {text}")] if lines else []


def _files(text: str, page: Path) -> Iterator[Path]:
    """The files that a page shows."""
    code = list(_code(text))
    for begin in _BEGIN.finditer(text):
        file = None if _inside(begin.start(), code) else _find(page, begin["file"])
        if file is not None:
            yield file


def _find(page: Path, file: str) -> Path | None:
    """The file in the nearest folder above a page; None if there is none."""
    folders = page.absolute().parents
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def filled(text: str, page: Path) -> tuple[str, list[Problem]]:
    """Returns the text of a page with its figures, and what is wrong with its markers."""
    parts, problems, position = [], [], 0
    code = list(_code(text))
    ends = [at for at in _places(text, _END) if not _inside(at, code)]
    used = 0
    file = _SAME
    for begin in _BEGIN.finditer(text):
        if _inside(begin.start(), code):
            continue
        line = text.count("\n", 0, begin.start()) + 1
        if begin.start() < position:
            problems.append(Problem(page, line, f"got a marker inside another, expected {_END}"))
            continue
        end = next((at for at in ends if at >= begin.end()), None)
        if end is None:
            problems.append(Problem(page, line, f"got a marker without {_END}, expected one"))
            continue
        used += 1
        file = file if begin["file"] == _SAME else begin["file"]
        try:
            shown = _shown(page, file, (begin["part"] or "all").split())
        except (StudyError, OSError) as error:
            problems.append(Problem(page, line, str(error)))
            continue
        # A single figure stands inside a sentence.
        inline = "\n" not in shown and "\n" not in text[begin.end() : end]
        parts += [text[position : begin.end()], shown if inline else f"\n\n{shown}\n\n"]
        position = end
    if used < len(ends):
        line = text.count("\n", 0, ends[0]) + 1
        problems.append(Problem(page, line, f"got {_END} more often than its beginning"))
    return "".join([*parts, text[position:]]), problems


def _shown(page: Path, file: str, part: list[str]) -> str:
    """The text between two markers.

    Raises:
        StudyError: no such file or part.
    """
    path = _find(page, file)
    if path is None:
        msg = (
            f"got study file {file}, which is in none of the folders above the page, expected "
            "one: `python -m app study table STUDY.yaml --publish docs/results` makes it"
        )
        raise StudyError(msg)
    content = study_json.read(path)
    name, *rest = part
    make = _PARTS.get((name, len(rest)))
    shown = None if make is None else make(content, *rest)
    if shown is None:
        known = ", ".join(" ".join([name, *["NAME"] * count]) for name, count in _PARTS)
        msg = f"got part {' '.join(part)!r} of {file}, which has none of it, expected: {known}"
        raise StudyError(msg)
    if name in ("all", "notes"):
        shown += f"\n- Printed by `python -m app study table {file}`."
    return shown


def _tables(content: Content, corpus: str | None = None) -> str | None:
    made = tables.main_tables(content, corpus)
    return "\n\n".join(map(tables.markdown, made)) or None


def _comparisons(content: Content, corpus: str | None = None) -> str | None:
    return "\n\n".join(map(tables.markdown, tables.comparisons(content, corpus))) or None


def _matched(content: Content, corpus: str | None = None) -> str | None:
    return "\n\n".join(map(tables.markdown, tables.matched(content, corpus))) or None


_PARTS: dict[tuple[str, int], Callable[..., str | None]] = {
    ("all", 0): lambda content: tables.render(content, "markdown").rstrip("\n"),
    ("tables", 0): _tables,
    ("table", 1): _tables,
    ("comparisons", 0): _comparisons,
    ("comparisons", 1): _comparisons,
    ("matched", 0): _matched,
    ("matched", 1): _matched,
    ("notes", 0): tables.noted,
    ("figure", 2): tables.figure,
    ("figure", 3): tables.figure,
    ("mean", 2): tables.mean,
    ("mean", 3): tables.mean,
    ("seeds", 2): tables.seeds,
    ("seeds", 3): tables.seeds,
    ("difference", 3): tables.difference,
    ("difference", 4): tables.difference,
    ("differences", 3): tables.differences,
    ("differences", 4): tables.differences,
}
"""The makers of a part, by its first word and the number of words after it."""


def _pages(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            yield from sorted(place.rglob("*.md"))
        else:
            yield place


def _code(text: str) -> Iterator[tuple[int, int]]:
    """The places where fenced blocks of code begin and end."""
    fence, start, position = "", 0, 0
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if found and not fence:
            fence, start = found[1], position
        elif found and found[1].startswith(fence) and line.strip() == found[1]:
            yield start, position + len(line)
            fence = ""
        position += len(line)
    if fence:
        yield start, position


def _inside(at: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= at < end for start, end in spans)


def _places(text: str, word: str) -> Iterator[int]:
    """The places of a word; not in code inside a line."""
    for found in re.finditer(f"(?<!`){re.escape(word)}", text):
        yield found.start()


def _first_difference(before: str, after: str) -> int:
    lines = zip(
        before.splitlines(), [*after.splitlines(), *[""] * before.count("\n")], strict=False
    )
    return next((i for i, (one, two) in enumerate(lines, 1) if one != two), 1)
