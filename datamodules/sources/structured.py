"""Reads files without rows of fields: CoNLL sentences, and lists in one JSON document."""

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from datamodules.sources.rows import Row, decode, sound
from text.bounded_files import LINE_LIMIT, DataError, brief, lines, opened

PARTS_LIMIT = 2**20
"""Values and lines of a JSON document: each takes up to 200 bytes of memory, but may be one byte of
the file. 16 MiB of dialogues have 600,000, including commas in texts."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def numbered(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file, which is packed if its name ends in `.gz`."""
    with opened(path) as file:
        yield from lines(path, file, packed=path.suffix == ".gz", encoding=encoding)


def read_conll(path: Path, tags: Collection[str] | None = None) -> Iterator[Row]:
    """Read sentences of tagged words: a word and its tag in a line, sentences between empty lines.

    A sentence with an invalid line is a bad row, with the number of that line. Word and tag are
    separated by a tab, or, in lines without a tab, by spaces. Without `tags`, any in the BIO scheme
    (O, B-X, I-X) is valid.

    Yields:
        Rows of `words` and `tags`, two lists of the same length; for a sentence without tags,
        `tags` is None.

    Raises:
        DataError: the file is missing or broken.
    """
    words: list[str] = []
    sentence: list[str | None] = []  # the tags of `words`
    start, problem = 0, None
    end = 0
    for end, raw in numbered(path):
        if raw.strip():
            if not sentence:
                start = end
            try:
                word, tag = _word(raw, tags)
                if sentence and (sentence[0] is None) != (tag is None):
                    msg = "got words with and without a tag in one sentence, expected one or other"
                    raise ValueError(msg)
            except ValueError as error:
                problem = problem or Row(end, {}, str(error))
                # A placeholder: the sentence still ends at the next empty line.
                word, tag = "", sentence[0] if sentence else ""
            # Tags are not repaired: an I-X after O or after another type does not become B-X.
            words.append(word)
            sentence.append(tag)
        elif sentence:
            yield problem or _sentence(start, words, sentence)
            words, sentence, problem = [], [], None
    # The last sentence may have no empty line after it.
    if sentence:
        yield problem or _sentence(start, words, sentence)
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


def read_entries(path: Path, encoding: str = "utf-8") -> Iterator[Row]:
    """Read a JSON document that is one list: a row of `value` for each entry.

    An entry with invalid texts has a `problem`. The document has at most `LINE_LIMIT` bytes and
    `PARTS_LIMIT` values and lines; it may be on one line.

    Raises:
        DataError: the file is missing or broken, or is not a JSON list.
    """
    text = _document(path, encoding)
    position = _skip(text, 0)
    if text[position : position + 1] != "[":
        msg = f"{path}: got {brief(text[position : position + 20])}, expected a JSON list, [...]"
        raise DataError(msg)
    position = _skip(text, position + 1)
    entry, line, counted = 0, 1, 0
    going = text[position : position + 1] != "]"
    while going:
        entry += 1
        # Only the part since the last entry: counting from the start would be quadratic.
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            msg = f"{path}, entry {entry}, line {line}: not a JSON value ({brief(str(error))})"
            raise DataError(msg) from error
        yield _entry(value, line, entry)
        position = _skip(text, position)
        after = text[position : position + 1]
        if after not in (",", "]"):
            msg = f"{path}, behind entry {entry}: got {brief(after)}, expected a comma or ]"
            raise DataError(msg)
        going = after == ","
        position = _skip(text, position + 1) if going else position
    rest = text[_skip(text, position + 1) :]
    if rest:
        msg = f"{path}: got {brief(rest[:20])} behind the list, expected nothing"
        raise DataError(msg)


def _skip(text: str, position: int) -> int:
    """Return the next position without white space."""
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _entry(value: Any, line: int, entry: int) -> Row:
    try:
        sound(value)
    except ValueError as error:
        return Row(line, {}, str(error), entry)
    return Row(line, {"value": value}, None, entry)


def _document(path: Path, encoding: str) -> str:
    """Return the text of a file."""
    parts: list[str] = []
    total = values = 0
    for number, raw in numbered(path, encoding):
        total += len(raw) + 1
        # Brackets and commas bound the number of Python objects before any is made.
        values += 1 + sum(raw.count(mark) for mark in (b"[", b"{", b","))
        if total > LINE_LIMIT or values > PARTS_LIMIT:
            more = f"{LINE_LIMIT:,} bytes" if total > LINE_LIMIT else f"{PARTS_LIMIT:,} values"
            msg = (
                f"{path}, line {number}: got a JSON document of more than {more}, "
                "expected a shorter one: write one object per line, as .jsonl, or several files"
            )
            raise DataError(msg)
        try:
            parts.append(decode(raw))
        except ValueError as error:
            msg = f"{path}, line {number}: {error}"
            raise DataError(msg) from error
    return "\n".join(parts)
