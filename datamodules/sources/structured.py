"""Files whose samples are no rows of fields: CoNLL sentences, and lists in one JSON document."""

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from datamodules.sources.readers import Row, decode, sound
from text.bounded_files import (
    LINE_LIMIT,
    DataError,
    brief,
    lines,
    opened,
)

PARTS_LIMIT = 2**20
"""Values and lines of a JSON document: each takes up to 200 bytes of memory, and as little as one
of the file. In 16 MiB of dialogues there are 600,000, commas in texts counted too."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a file, which is packed if its name ends in `.gz`.

    Raises:
        DataError: no such file, or one that is broken as a whole.
    """
    with opened(path) as file:
        yield from lines(path, file, packed=path.suffix == ".gz")


def read_conll(path: Path, tags: Collection[str] | None = None) -> Iterator[Row]:
    """Read sentences of tagged words: a word and its tag in a line, sentences between empty lines.

    Tags are taken as they stand: an I-X behind O or behind another type is not made a B-X. A
    sentence with a line that cannot be read is a bad row, told by that line.

    Args:
        path: word and tag are between tabs, or, in lines without a tab, between spaces.
        tags: those there are; any in the BIO scheme (O, B-X, I-X) if not given.

    Yields:
        Rows of `words` and `tags`, two lists of the same length; of a sentence whose words all
        stand alone, `tags` is None.

    Raises:
        DataError: no such file, or one that is broken as a whole.
    """
    words: list[str] = []
    found: list[str | None] = []
    start, problem = 0, None
    end = 0
    for end, raw in numbered(path):
        if raw.strip():
            if not found:
                start = end
            try:
                word, tag = _word(raw, tags)
                if found and (found[0] is None) != (tag is None):
                    msg = "got words with and without a tag in one sentence, expected one or other"
                    raise ValueError(msg)
            except ValueError as error:
                problem = problem or Row(end, {}, str(error))
                word, tag = "", found[0] if found else ""
            words.append(word)
            found.append(tag)
        elif found:
            yield problem or _sentence(start, words, found)
            words, found, problem = [], [], None
    if found:
        yield problem or _sentence(start, words, found)
    if end == 0:
        msg = f"{path}: got an empty file, expected a word and its tag in each line"
        raise DataError(msg)


def _sentence(start: int, words: list[str], tags: list[str | None]) -> Row:
    return Row(start, {"words": words, "tags": None if tags[0] is None else tags})


def _word(raw: bytes, tags: Collection[str] | None) -> tuple[str, str | None]:
    line = decode(raw)
    fields = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
    if len(fields) > 2:
        msg = f"got {len(fields)} fields, expected 2, a word and its tag"
        raise ValueError(msg)
    if not fields[0].strip():
        msg = "got no word before the tag, expected one"
        raise ValueError(msg)
    tag = fields[1].strip() if len(fields) == 2 else ""
    if not tag:
        return fields[0], None
    if tags is None and not (tag == "O" or re.fullmatch(r"[BI]-\S+", tag)):
        msg = f"got tag {brief(tag)}, expected O, B-<type> or I-<type>"
        raise ValueError(msg)
    if tags is not None and tag not in tags:
        msg = f"got tag {brief(tag)}, expected one of {brief(list(tags))}"
        raise ValueError(msg)
    return fields[0], tag


def read_entries(path: Path) -> Iterator[Row]:
    """Read a JSON document that is one list, entry by entry.

    Args:
        path: a document of at most `LINE_LIMIT` bytes and `PARTS_LIMIT` values and lines; it may be
            on one line.

    Yields:
        Rows of `value`, the entry; an entry whose texts cannot be used comes with its `problem`.

    Raises:
        DataError: no such file, one that is broken as a whole, no list, or an entry that is no
            JSON, behind which nothing can be read.
    """
    text = _document(path)
    place = _skip(text, 0)
    if text[place : place + 1] != "[":
        msg = f"{path}: got {brief(text[place : place + 20])}, expected a JSON list, [...]"
        raise DataError(msg)
    place = _skip(text, place + 1)
    entry, line, counted = 0, 1, 0
    going = text[place : place + 1] != "]"
    while going:
        entry += 1
        line, counted = line + text.count("\n", counted, place), place
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            msg = f"{path}, entry {entry}, line {line}: not a JSON value ({brief(str(error))})"
            raise DataError(msg) from error
        yield _entry(value, line, entry)
        place = _skip(text, place)
        after = text[place : place + 1]
        if after not in (",", "]"):
            msg = f"{path}, behind entry {entry}: got {brief(after)}, expected a comma or ]"
            raise DataError(msg)
        going = after == ","
        place = _skip(text, place + 1) if going else place
    rest = text[_skip(text, place + 1) :]
    if rest:
        msg = f"{path}: got {brief(rest[:20])} behind the list, expected nothing"
        raise DataError(msg)


def _skip(text: str, place: int) -> int:
    """The next place without white space."""
    match = _SPACE.match(text, place)
    return place if match is None else match.end()


def _entry(value: Any, line: int, entry: int) -> Row:
    try:
        sound(value)
    except ValueError as error:
        return Row(line, {}, str(error), entry)
    return Row(line, {"value": value}, None, entry)


def _document(path: Path) -> str:
    """A whole file as text."""
    parts: list[str] = []
    total = values = 0
    for number, raw in numbered(path):
        total += len(raw) + 1
        values += 1 + sum(raw.count(mark) for mark in (b"[", b"{", b","))
        if total > LINE_LIMIT or values > PARTS_LIMIT:
            more = f"{LINE_LIMIT:,} bytes" if total > LINE_LIMIT else f"{PARTS_LIMIT:,} values"
            msg = (
                f"{path}, line {number}: got a JSON document of more than {more}, "
                "expected a shorter one: share it out to several files"
            )
            raise DataError(msg)
        try:
            parts.append(decode(raw))
        except ValueError as error:
            msg = f"{path}, line {number}: {error}"
            raise DataError(msg) from error
    return "\n".join(parts)
