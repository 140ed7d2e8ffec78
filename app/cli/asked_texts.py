"""Reads the texts of a command line: from options, a file, or standard input."""

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from datamodules.batching.examples import checked
from datamodules.sources.readers import decode, read_rows
from datamodules.sources.table_shape import TABLES, find_shape
from text import Text
from text.bounded_files import DataError, kind_of, lines, missing, numbered_lines, opened
from text.plural import plural

log = logging.getLogger(__name__)

STDIN = "-"
SHOWN = 5
"""Numbers of blank lines that a warning lists."""
Item = TypeVar("Item")


class NumberedText(NamedTuple):
    """A text to predict, with its first line in the file or stream (Parquet: the row)."""

    text: Text
    line: int | None = None  # counted from 1; None for a text of the command line


def add_texts(parser: argparse.ArgumentParser) -> None:
    """Add `--text` and `--file`, and the options for pairs and columns."""
    add = parser.add_argument
    add("--text", action="append", default=[], help="a text; may be given several times")
    add("--text_pair", action="append", default=[], help="the second text, where pairs are read")
    text = (
        "a table (.tsv, .csv, .json, .jsonl, .parquet) or a file with a text on each line; a tab "
    )
    add("--file", type=Path, help=f"{text}between the two of a pair")
    add("--text_column", default="text", help="column of a table with the text")
    add("--text_pair_column", default="text_pair", help="column of a table with the second text")


def read_texts(args: argparse.Namespace, *, pairs: bool) -> Iterator[NumberedText]:
    """Return the texts that the options of `add_texts` name; see `check_texts` and `read_file`."""
    if args.file is None:
        return map(NumberedText, check_texts(args.text, args.text_pair, pairs=pairs))
    if kind_of(args.file) is None:
        raise missing(args.file, "a table, or a file with a text on each line, after --file")
    return read_file(args.file, (args.text_column, args.text_pair_column), pairs=pairs)


def check_texts(texts: Sequence[str], seconds: Sequence[str], *, pairs: bool) -> list[Text]:
    """Return the texts of `--text` and, if the model reads pairs, of `--text_pair`.

    Raises:
        ValueError: an empty text or one that is not UTF-8, second texts for a model of single ones,
            or not one for each text of a pair.
    """
    if not pairs and seconds:
        msg = f"got --text_pair {seconds[0]!r} for a model of single texts, expected --text alone"
        raise ValueError(msg)
    if pairs and len(seconds) != len(texts):
        msg = (
            f"got {len(texts)} --text and {len(seconds)} --text_pair for a model of pairs, "
            "expected one --text_pair behind each --text"
        )
        raise ValueError(msg)
    for option, values in (("--text", texts), ("--text_pair", seconds)):
        for value in values:
            if not value.strip():
                msg = f"got the empty text {value!r} for {option}, expected words"
                raise ValueError(msg)
            # Python reads bytes of the command line that are not UTF-8 as half surrogate pairs.
            if any("\ud800" <= char <= "\udfff" for char in value):
                msg = f"got {value!r:.80} for {option}, expected text in UTF-8"
                raise ValueError(msg)
    return list(zip(texts, seconds, strict=True)) if pairs else list(texts)


def read_file(path: Path, columns: tuple[str, str], *, pairs: bool) -> Iterator[NumberedText]:
    """Yield the texts of a file, or `pairs` of them, reading it lazily.

    It is a table (.tsv, .csv, .json, .jsonl, .parquet; also .gz) with these `columns`, of which the
    second has second texts, or a file with a text on each line, the two of a pair with a tab
    between them. Blank lines of the latter are skipped, with a warning.

    Raises:
        DataError: file or column not found, a table without rows, or a row is unreadable or has an
            empty text; the message names the line.
    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".txt") or not name.endswith(TABLES):
        with opened(path) as file:
            numbered = lines(path, file, packed=path.suffix == ".gz")
            yield from _read_lines(numbered, str(path), pairs=pairs)
        return
    names = columns if pairs else columns[:1]
    row = None
    for row in read_rows(path, names, shape=find_shape(path)):
        problem = row.problem
        if problem is None:
            try:
                first, *second = (checked(row.values[column], column) for column in names)
            except ValueError as error:
                problem = str(error)
            else:
                yield NumberedText((first, second[0]) if pairs else first, row.line)
                continue
        msg = f"got {path}, {row.place}: {problem}"
        raise DataError(msg)
    if row is None:
        msg = f"{path}: got no rows after the names of the columns, expected texts"
        raise DataError(msg)


def read_stream(stream: BinaryIO, *, pairs: bool) -> Iterator[NumberedText]:
    """Yield the texts of a stream, one on each line; see `read_file`.

    Raises:
        DataError: a line is not UTF-8, or not a pair; the message names the line.
    """
    numbered = numbered_lines(Path("standard input"), stream)
    yield from _read_lines(numbered, "standard input", pairs=pairs)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of at most `size` items; 1 answers each line before the next one is read."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


def typed() -> bool:
    """Return True if standard input is a terminal."""
    return sys.stdin.isatty()


def _read_lines(
    numbered: Iterable[tuple[int, bytes]], source: str, *, pairs: bool
) -> Iterator[NumberedText]:
    blank: list[int] = []
    number = 0
    for number, raw in numbered:
        try:
            line = decode(raw)
        except ValueError as error:
            msg = f"got {source}, line {number}: {error}, expected text in UTF-8"
            raise DataError(msg) from error
        if not line.strip():
            blank.append(number)
            continue
        parts = line.split("\t")
        if pairs and (len(parts) != 2 or not all(part.strip() for part in parts)):
            count = sum(bool(part.strip()) for part in parts)
            msg = (
                f"got {source}, line {number} with {plural(count, 'text')}, expected the two of "
                "a pair with a tab between them"
            )
            raise DataError(msg)
        yield NumberedText((parts[0], parts[1]) if pairs else line, number)
    if not number:
        log.warning("%s: got no line, expected texts", source)
    if blank:
        numbers = ", ".join(map(str, blank[:SHOWN])) + (", ..." if len(blank) > SHOWN else "")
        log.warning("%s: skipped %s (%s)", source, plural(len(blank), "blank line"), numbers)
