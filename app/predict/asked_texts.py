"""The texts that the command line asks about: given words, a file, or standard input."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from datamodules.sources.files import DataError, lines, opened
from datamodules.sources.readers import ENDINGS, decode, read_rows
from text import Text

STDIN = "-"


def add_texts(parser: argparse.ArgumentParser) -> None:
    """Adds `--text` and `--file`, and what goes with them."""
    add = parser.add_argument
    add("--text", action="append", default=[], help="a text; may be given several times")
    add("--text_pair", action="append", default=[], help="the second text, where pairs are read")
    text = "a table (.tsv, .csv, .jsonl, .parquet) or a file with a text on each line; a tab "
    add("--file", type=Path, help=f"{text}between the two of a pair")
    add("--text_column", default="text", help="column of a table with the text (default: text)")
    text = "column of a table with the second text (default: text_pair)"
    add("--text_pair_column", default="text_pair", help=text)


def texts_of(args: argparse.Namespace, *, pairs: bool) -> Iterator[Text]:
    """Returns the texts that the options of `add_texts` name; see `given` and `of_file`."""
    if args.file is None:
        return iter(given(args.text, args.text_pair, pairs=pairs))
    return of_file(args.file, (args.text_column, args.text_pair_column), pairs=pairs)


def given(texts: Sequence[str], seconds: Sequence[str], *, pairs: bool) -> list[Text]:
    """Returns the texts of `--text` and `--text_pair`.

    Args:
        texts: of `--text`.
        seconds: of `--text_pair`, one for each.
        pairs: True if the model answers to pairs.

    Raises:
        ValueError: second texts for a model of single ones, or not one for each text of a pair.
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
    return list(zip(texts, seconds, strict=True)) if pairs else list(texts)


def of_file(path: Path, columns: tuple[str, str], *, pairs: bool) -> Iterator[Text]:
    """Yields the texts of a file, read as they are asked for.

    Args:
        path: a table (.tsv, .csv, .jsonl, .parquet; also .gz), or another file with a text on each
            line, the two of a pair with a tab between them.
        columns: names of the columns of a table with the texts, and with the second ones.
        pairs: True if the model answers to pairs.

    Raises:
        DataError: no such file or column, or a row that cannot be read; it names the line.
    """
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith(ENDINGS):
        with opened(path) as file:
            numbered = lines(path, file, packed=path.suffix == ".gz")
            yield from _by_line(numbered, str(path), pairs=pairs)
        return
    wanted = columns if pairs else columns[:1]
    for row in read_rows(path, wanted):
        if row.problem is not None:
            msg = f"got {path}, {row.place}: {row.problem}"
            raise DataError(msg)
        values = [row.values[column] for column in wanted]
        if not all(isinstance(value, str) for value in values):
            msg = f"got {path}, {row.place}: {values} in {', '.join(wanted)}, expected texts"
            raise DataError(msg)
        yield (values[0], values[1]) if pairs else values[0]


def of_stream(stream: IO[bytes], *, pairs: bool) -> Iterator[Text]:
    """Yields the texts of a stream, one on each line; see `of_file`.

    Args:
        stream: of bytes.
        pairs: True if the model answers to pairs.

    Raises:
        DataError: a line that is no UTF-8, or no pair; it names the line.
    """
    numbered = enumerate((raw.rstrip(b"\r\n") for raw in stream), start=1)
    yield from _by_line(numbered, "standard input", pairs=pairs)


def chunks(texts: Iterable[Text], size: int) -> Iterator[list[Text]]:
    """Yields lists of at most `size` texts.

    Args:
        texts: any number of them.
        size: 1 answers each line before the next one is read.
    """
    source = iter(texts)
    while found := list(islice(source, size)):
        yield found


def typed() -> bool:
    """Returns True if somebody types into standard input."""
    return sys.stdin.isatty()


def _by_line(numbered: Iterable[tuple[int, bytes]], where: str, *, pairs: bool) -> Iterator[Text]:
    for number, raw in numbered:
        try:
            line = decode(raw)
        except ValueError as error:
            msg = f"got {where}, line {number}: {error}, expected text in UTF-8"
            raise DataError(msg) from error
        if not line.strip():
            continue
        parts = line.split("\t")
        if pairs and len(parts) != 2:
            msg = (
                f"got {where}, line {number} with {len(parts)} texts, expected the two of a pair "
                "with a tab between them"
            )
            raise DataError(msg)
        yield (parts[0], parts[1]) if pairs else line
