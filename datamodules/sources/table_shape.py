"""Finds out how a table is written: its format, separator and encoding."""

import codecs
import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal

from text.bounded_files import DataError, kind_of, lines, missing, opened, reading

ENDINGS = (".jsonl", ".tsv", ".csv", ".parquet")
"""Endings of the files of a corpus in the order tried; `.gz` may follow all but the last."""
TABLES = (*ENDINGS, ".json", ".ndjson", ".psv", ".txt")
"""Endings of a user's own tables."""
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""Names of the separators, in the order tried."""
_JSON = (".json", ".jsonl", ".ndjson")
_SAMPLE = 50
"""Lines that decide the separator."""
_HEAD = 2**16
"""Bytes that decide the format."""
# A byte order mark of UTF-16 is the beginning of one of UTF-32.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_FOREIGN = {
    b"PK\x03\x04": "a zip archive or a workbook (Excel, LibreOffice): save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel: save the sheet as CSV",
    b"%PDF": "a PDF: extract its texts first",
    b"SQLite format": "a database: export a table as CSV",
}


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """The way in which a table is written.

    Attributes:
        format: a table of fields, one JSON object per line, one JSON array of objects, or Parquet.
        separator: the character between the fields of a table.
        quoted: True if fields may be in double quotes, and then have separators and line ends.
        encoding: name of a codec.
        remarks: reasons for an encoding or a separator that was not expected.
    """

    format: Literal["table", "JSON lines", "JSON array", "Parquet"]
    separator: str = ","
    quoted: bool = False
    encoding: str = "utf-8"
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = {separator: name for name, separator in SEPARATORS.items()}
        separator = names.get(self.separator, repr(self.separator))
        parts: list[str] = [self.format]
        parts += [f"separator {separator}"] if self.format == "table" else []
        parts += [] if self.format == "Parquet" else [f"encoding {self.encoding}"]
        return ", ".join(parts)


def usual_shape(path: Path, quoted: bool | None = None) -> TableShape:
    """Return the shape that the ending of a file of a corpus stands for.

    `.tsv`, `.csv`, `.jsonl` (each may also end with `.gz`) or `.parquet`. By default, CSV is
    `quoted`, see `TableShape`, and TSV is not.

    Raises:
        DataError: another ending, or no such file.
    """
    ending = file_ending(path)
    if ending not in ENDINGS or (ending == ".parquet" and path.suffix == ".gz"):
        msg = f"got {path}, expected a file ending in {', '.join(ENDINGS)} (.gz but for Parquet)"
        raise DataError(msg)
    if kind_of(path) is None:
        raise missing(path, f"a {ending[1:]} file")
    if ending in (".jsonl", ".parquet"):
        return TableShape(format="JSON lines" if ending == ".jsonl" else "Parquet")
    separator = "\t" if ending == ".tsv" else ","
    return TableShape(
        format="table", separator=separator, quoted=ending == ".csv" if quoted is None else quoted
    )


def find_shape(
    path: str | Path, separator: str | None = None, encoding: str | None = None
) -> TableShape:
    """Return the shape of a user's table of any ending (`.gz` is unpacked), from its content.

    The separator, a character or a key of `SEPARATORS`, and the encoding, the name of a codec, are
    found if None.

    Raises:
        DataError: no such file, or not a table.
        ValueError: an unknown separator or encoding.
    """
    path = Path(path)
    if kind_of(path) is None:
        raise missing(path, "a table")
    separator, encoding = check_separator(separator), check_encoding(encoding)
    with opened(path):  # a regular file
        state = path.stat()
    return _find_shape(path, separator, encoding, (state.st_size, state.st_mtime_ns))


def check_separator(separator: str | None) -> str | None:
    """Return the character that a separator names.

    Raises:
        ValueError: it names none.
    """
    character = {**SEPARATORS, "\\t": "\t"}.get(separator or "", separator)
    if character is None or (len(character) == 1 and character not in '\r\n"'):
        return character
    msg = f"got --data.separator {separator!r}, expected a character, or {', '.join(SEPARATORS)}"
    raise ValueError(msg)


def check_encoding(encoding: str | None) -> str | None:
    """Return the name of the codec of an encoding.

    Raises:
        ValueError: there is no such codec of texts.
    """
    try:
        name = None if encoding is None else codecs.lookup(encoding).name
        "".encode(name or "utf-8")  # fails for codecs of bytes, such as `hex`
    except LookupError as error:
        usual = "utf-8, utf-16, latin-1, cp1252, cp1251, gb18030 or shift_jis"
        msg = f"got --data.encoding {encoding}, expected an encoding, such as {usual}"
        raise ValueError(msg) from error
    # UTF-8 is read with or without a byte order mark.
    return {"utf-8-sig": "utf-8", "iso8859-1": "latin-1"}.get(name or "", name)


def file_ending(path: Path) -> str:
    """Return the ending of a file in lower case, without `.gz`."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


@lru_cache(maxsize=64)
def _find_shape(
    path: Path,
    separator: str | None,
    encoding: str | None,
    state: tuple[int, int],  # a changed file is read again
) -> TableShape:
    with (
        opened(path) as file,
        gzip.GzipFile(fileobj=file) if _packed(path) else nullcontext(file) as stream,
        reading(path, "a table"),
    ):
        head = stream.read(_HEAD)
    if head.startswith(b"PAR1"):
        return TableShape(format="Parquet")
    for mark, content in _FOREIGN.items():
        if head.startswith(mark):
            msg = f"got {path}, which is {content}"
            raise DataError(msg)
    remarks: list[str] = []
    if encoding is None:
        encoding, reason = _find_encoding(path, head)
        remarks += reason
    ending = file_ending(path)
    # The head may end inside a character.
    first = head.decode(encoding, "replace").lstrip("\ufeff \t\r\n")[:1]
    if ending in _JSON or (ending not in (".csv", ".tsv", ".psv") and first in ("{", "[")):
        if separator is not None:
            msg = f"got --data.separator for {path}, which is JSON, expected it without"
            raise DataError(msg)
        if ending != ".jsonl" and head.decode(encoding, "replace").split("\n", 1)[0].strip() == "{":
            msg = f"got {path}, which is one JSON object over several lines, expected an array of "
            msg += "objects, [...], or one object per line (`jq -c '.KEY[]'` makes these)"
            raise DataError(msg)
        array = first == "["
        return TableShape(
            format="JSON array" if array else "JSON lines",
            encoding=encoding,
            remarks=tuple(remarks),
        )
    usual = {".tsv": "\t", ".csv": ",", ".psv": "|"}.get(ending)
    if separator is None:
        separator = _find_separator(path, encoding, usual, quoted_tab=ending == ".csv")
        if usual is not None and separator != usual:
            remarks.append(f"the header has {separator!r} between its columns")
    return TableShape(
        format="table",
        separator=separator,
        quoted=separator != "\t" or ending == ".csv",
        encoding=encoding,
        remarks=tuple(remarks),
    )


def _packed(path: Path) -> bool:
    return path.suffix == ".gz"


def _find_encoding(path: Path, head: bytes) -> tuple[str, list[str]]:
    """Return the encoding of a file and the reason for it.

    Latin-1 only if no line is UTF-8 with other characters than ASCII: a file of UTF-8 with a few
    broken lines stays UTF-8, and these are bad rows.
    """
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name, ["byte order mark"]
    # In UTF-16 the high byte of Latin letters is zero.
    zeros = [head[start::2].count(0) / max(1, len(head[start::2])) for start in (0, 1)]
    if max(zeros) > 0.3 and min(zeros) < 0.05:
        return ("utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"), ["every second byte is zero"]
    broken: list[tuple[int, bytes]] = []
    with opened(path) as file:
        for number, raw in lines(path, file, packed=_packed(path)):
            if raw.isascii():
                continue
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError:
                broken.append((number, raw))
            else:
                return "utf-8", []
    # Bytes of control characters in Latin-1 are quotation marks in Windows' extension of it.
    marks = {byte for _, raw in broken for byte in raw if 0x80 <= byte < 0xA0}
    name = "cp1252" if marks else "latin-1"
    if not broken or marks & {0x81, 0x8D, 0x8F, 0x90, 0x9D}:
        return "utf-8", []
    number, raw = broken[0]
    # Only between spaces: others may be the characters in question.
    words = (word for word in raw.decode(name).split(" ") if not word.isascii())
    return name, [f"not UTF-8 in line {number}, which reads {next(words)[:40]!r}"]


def _find_separator(path: Path, encoding: str, usual: str | None, *, quoted_tab: bool) -> str:
    """Return the separator with which most of the first lines have as many fields as the header."""
    with opened(path) as file:
        numbered = lines(path, file, packed=_packed(path), encoding=encoding)
        sample = [raw.decode("utf-8", "replace") for _, raw in islice(numbered, _SAMPLE)]
    candidates = [*([usual] if usual else []), *SEPARATORS.values()]
    shares = {}
    for separator in candidates:
        quoted = separator != "\t" or quoted_tab
        widths = [len(fields) for fields in _split(sample, separator, quoted=quoted) if fields]
        if widths and widths[0] > 1:
            shares[separator] = sum(width == widths[0] for width in widths) / len(widths)
    return max(shares, key=lambda name: shares[name]) if shares else usual or ","


def _split(sample: Sequence[str], separator: str, *, quoted: bool) -> Iterator[list[str]]:
    if not quoted:
        yield from (line.split(separator) for line in sample if line)
        return
    try:
        yield from csv.reader((f"{line}\n" for line in sample), delimiter=separator)
    except csv.Error:  # a field beyond the library's limit: the lines before it decide
        return
