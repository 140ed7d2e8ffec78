"""Reads files from any source: regular files, within limits, with one kind of error.

A foreign file may be a named pipe that never ends, a few kilobytes that unpack to gigabytes, or a
document so deep that its parser gives up. Every reader of the project uses this module, and its
only exception is `DataError`, which names the file and the expected content.
"""

import codecs
import csv
import difflib
import gzip
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from text.multi_line_error import MultiLineError

LINE_LIMIT = 16 * 2**20
"""Bytes of the longest line, and of the longest text: a novel has 3 million characters."""
# For all of the process: Python itself refuses fields of more than 131,072 characters.
csv.field_size_limit(LINE_LIMIT)
DOCUMENT_LIMIT = 512 * 2**20
"""Bytes of a file that is read as a whole; lists of neighbours of all words have 30 million."""
YAML_LIMIT = 2**20
"""Bytes of a YAML file; the largest of ours has 20,000."""
VALUES_LIMIT = 100_000
"""Values of a YAML file; an alias counts as all the values it refers to."""
DEPTH_LIMIT = 100
"""Lists and objects within each other; the deepest file of ours has 12."""
DIGITS_LIMIT = 40
"""Digits of a whole number; those of states of generators have 39."""
EXPANSION = 50
"""Times that a packed file may grow: gzip makes text 2 to 5 times smaller, zeros 1,000 times."""

ROW = 64
"""Bytes added to the length of each row: the Python object of a short row takes far more memory."""
# Bytes that are unpacked at a time.
_PART = 2**20
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# A training reads its settings many times; libyaml, where yaml has it, is nine times as fast.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_Stream = BinaryIO | TextIOWrapper


class DataError(MultiLineError):
    """Data that cannot be used; the message names the file, and the line where there is one."""


def brief(value: Any, length: int = 200) -> str:
    """Return the `repr` of a value, without control characters, cut to a length for a message."""
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}... ({len(text):,} characters)"


def kind_of(path: Path) -> str | None:
    """Return the kind of a path, links followed: `file`, another word, or None if it is absent."""
    try:
        mode = path.stat().st_mode
    except OSError:
        # A link to nowhere, or into a folder that is closed to us.
        return "a broken link" if path.is_symlink() else None
    return "file" if stat.S_ISREG(mode) else _other(mode)


def _other(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "no regular file")


def refuse(path: Path, kind: str | None) -> DataError:
    """Return the error for a pipe, a device and the like: reading one may never end."""
    if kind is None:
        return missing(path, "a file")
    return DataError(f"got {path}, which is {kind}, expected a regular file: remove or replace it")


def missing(path: Path, expected: str) -> DataError:
    """Return the error for a file that is not there; it has the similar names in its folder."""
    names: list[str] = []
    with suppress(OSError):
        names = sorted(other.name for other in path.parent.iterdir())
    near = difflib.get_close_matches(path.name, names, cutoff=0.75)
    there = f" (there is {', '.join(near)})" if near else ""
    return DataError(f"got {path}, not found, expected {expected}{there}")


@contextmanager
def reading(path: object, expected: str) -> Iterator[None]:
    """Turn any exception of a parser into a `DataError`: foreign bytes lead parsers to any kind.

    The message names `path`, the file, and `expected`, its expected content.

    Raises:
        DataError: the body has raised an exception; a `DataError` passes unchanged.
    """
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        msg = f"got {path}, which cannot be read ({error.strerror or error}), expected {expected}"
        raise DataError(msg) from error
    except Exception as error:
        msg = f"got {path}, which cannot be read ({_reason(error)}), expected {expected}"
        raise DataError(msg) from error


def _reason(error: Exception) -> str:
    """Return the message of an exception in one line, or its kind where it says nothing."""
    if isinstance(error, RecursionError):
        return f"more than {DEPTH_LIMIT} levels of lists and objects"
    text = " ".join(str(error).split())
    text = text if len(text) <= 200 else f"{text[:200]}..."
    # The text of a KeyError is the key alone.
    lookup = isinstance(error, LookupError)
    return f"{type(error).__name__} {text}".strip() if lookup or not text else text


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file to read; anything else is refused before a byte of it is read.

    Raises:
        DataError: it is not a regular file, or may not be read.
    """
    kind = kind_of(path)
    if kind != "file":
        raise refuse(path, kind)
    # Another file may have replaced it by now: opening a pipe must not wait for its other end.
    with reading(path, "a file that may be read"):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise refuse(path, _other(mode))
        yield file


def allowance(file: BinaryIO) -> int:
    """Return the number of bytes that a packed file may unpack to; at least that of one line."""
    return max(LINE_LIMIT, EXPANSION * os.fstat(file.fileno()).st_size)


def too_large(path: Path, position: str, limit: int) -> DataError:
    """Return the error for a file that grows beyond its allowance."""
    return DataError(
        f"{path}, {position}: got what would take more than {limit:,} bytes of memory from a file "
        f"of {path.stat().st_size:,}, expected text, which is never packed that tightly: "
        "look at what is in it, and give it unpacked, as .jsonl or .tsv, if that is what you want"
    )


def lines(
    path: Path, file: BinaryIO, *, packed: bool, encoding: str = "utf-8"
) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines, without line end and byte order mark, one at a time.

    Args:
        path: the file, for messages.
        file: its bytes.
        packed: True for gzip.
        encoding: of the file; lines are UTF-8 in any case. UTF-8 itself is not checked.

    Raises:
        DataError: UTF-16 as UTF-8, bytes that are not of the encoding, a line longer than
            `LINE_LIMIT`, a gzip bomb, or a broken gzip file.
    """
    limit = allowance(file) if packed else None
    # A GzipFile reads lines in Python, at a quarter of the speed of a buffer around it.
    with BufferedReader(gzip.GzipFile(fileobj=file)) if packed else nullcontext(file) as stream:
        # Other line ends, such as U+2028, are characters of a text.
        wrapper = TextIOWrapper(stream, encoding, newline="\n") if encoding != "utf-8" else stream
        with wrapper:
            yield from numbered_lines(path, wrapper, limit)


def numbered_lines(
    path: Path, stream: _Stream, limit: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream as `lines` does, of `limit` bytes in all; it stays open."""
    number = total = 0
    try:
        while line := stream.readline(LINE_LIMIT + 1):
            raw = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
            number += 1
            # The limit counts memory, not bytes: empty lines take memory too.
            total += len(raw) + ROW
            if limit is not None and total > limit:
                raise too_large(path, f"line {number}", limit)
            if len(raw) > LINE_LIMIT:
                msg = (
                    f"{path}, line {number}: got more than {LINE_LIMIT:,} bytes without a line "
                    "end, expected lines of text: is it a text file, with one row per line?"
                )
                raise DataError(msg)
            if number == 1:
                if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    msg = f"{path}: got UTF-16, expected UTF-8: convert the file"
                    raise DataError(msg)
                raw = raw.removeprefix(codecs.BOM_UTF8)
            yield number, raw.removesuffix(b"\n").removesuffix(b"\r")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        msg = f"{path}, after line {number}: the gzip file is broken or cut off ({error})"
        raise DataError(msg) from error
    except UnicodeError as error:
        encoding = getattr(stream, "encoding", "utf-8")
        msg = f"{path}, after line {number}: got bytes that are not {encoding} ({error}): "
        msg += "name another encoding, or none"
        raise DataError(msg) from error


def read_bytes(path: Path, *, limit: int = DOCUMENT_LIMIT) -> bytes:
    """Read a file as a whole, unpacked where its name ends in `.gz` or it begins as gzip does.

    Raises:
        DataError: it is not a regular file, cannot be read, or has more than `limit` bytes,
            unpacked.
    """
    with opened(path) as file, reading(path, "a whole file"):
        # No text of UTF-8 begins with the two bytes of gzip.
        packed = path.suffix == ".gz" or file.peek(2)[:2] == b"\x1f\x8b"
        most = min(limit, allowance(file)) if packed else limit
        if packed:
            content = _unpacked(file, most)
        else:
            # Never more than the size of the file: Python allocates before it reads.
            content = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
        if len(content) <= most:
            return content
        if most < limit:
            raise too_large(path, "unpacked", most)
    msg = f"got {path} of more than {limit:,} bytes, expected fewer"
    raise DataError(msg)


def _unpacked(file: BinaryIO, most: int) -> bytes:
    """Unpack at most one byte more than allowed."""
    parts, rest = list[bytes](), most + 1
    with gzip.GzipFile(fileobj=file) as stream:
        while part := stream.read(min(rest, _PART)):
            parts.append(part)
            rest -= len(part)
    return b"".join(parts)


def read_text(path: Path, *, limit: int = DOCUMENT_LIMIT) -> str:
    """Read a file of UTF-8 as a whole; a byte order mark at its begin is left out.

    Raises:
        DataError: see `read_bytes`, or it is not UTF-8.
    """
    return decode(read_bytes(path, limit=limit), path)


def decode(raw: bytes, path: object) -> str:
    """Return UTF-8 as text, without a byte order mark at its begin; see `read_text`."""
    with reading(path, "text in UTF-8"):
        return raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")


def read_json(path: Path, expected: str) -> Any:
    """Read a file of one JSON value.

    Raises:
        DataError: see `read_bytes` and `parse_json`.
    """
    return parse_json(read_bytes(path), path, expected)


def json_lines(path: Path, expected: str) -> Iterator[tuple[int, Any]]:
    r"""Yield the number and the JSON value of each line; only `\n` ends one.

    Raises:
        DataError: a line cannot be read; it is named.
    """
    with opened(path) as file:
        for number, raw in lines(path, file, packed=path.suffix == ".gz"):
            yield number, parse_json(raw, f"{path}, line {number}", expected)


def parse_json(raw: bytes | str, path: object, expected: str) -> Any:
    """Return the JSON value of a text; its source and expected content are for the message.

    Raises:
        DataError: it is not JSON, is deeper than `DEPTH_LIMIT`, or has a whole number with more
            digits than `DIGITS_LIMIT` or half a surrogate pair.
    """
    text = raw if isinstance(raw, str) else decode(raw, path)
    with reading(path, expected):
        value = json.loads(text, parse_int=_integer)
        _check_depth(value)
        if "\\ud" in text or "\\uD" in text:
            # Fails for half a surrogate pair, which no later command could write.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_LIMIT:
        msg = f"a number of {len(digits):,} digits"
        raise ValueError(msg)
    return int(digits)


def _check_depth(value: Any) -> None:
    """Raise RecursionError for a value so deep that recursive functions could not walk it."""
    # Breadth first: this check itself must not recurse.
    level, depth = [value], 0
    while level := [
        part
        for container in level
        if isinstance(container, dict | list)
        for part in (container.values() if isinstance(container, dict) else container)
        if isinstance(part, dict | list)
    ]:
        depth += 1
        if depth > DEPTH_LIMIT:
            raise RecursionError


def read_csv(path: Path, expected: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the last line number and the fields of each record of a CSV file.

    Raises:
        DataError: a record cannot be read; its line is named.
    """
    with opened(path) as file:
        numbered = lines(path, file, packed=path.suffix == ".gz")
        parser = csv.reader((decode(raw, path) + "\n" for _, raw in numbered), strict=True)
        while True:
            with reading(f"{path}, line {parser.line_num + 1}", expected):
                fields = next(parser, None)
            if fields is None:
                return
            yield parser.line_num, fields


@contextmanager
def opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive to read.

    Raises:
        DataError: it is not an archive in a regular file, or has encrypted entries or an
            unsupported compression.
    """
    with opened(path) as file, reading(path, "a zip archive"):
        archive = zipfile.ZipFile(file)
        for entry in archive.infolist():
            if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _COMPRESSIONS:
                msg = f"got {path} with {entry.filename!r:.80}, which is encrypted or packed by "
                msg += f"method {entry.compress_type}, expected one that is stored or deflated"
                raise DataError(msg)
        yield archive


def zip_member(path: Path, archive: zipfile.ZipFile, name: str, *, limit: int) -> bytes:
    """Read one entry of an archive of `opened_zip` as a whole.

    Raises:
        DataError: the entry is missing or broken, or unpacks to more than `limit` bytes or more
            than `EXPANSION` times its size.
    """
    with reading(f"{path}: {name}", "an entry of the archive"):
        entry = archive.getinfo(name)
        # The archive's own `file_size` may be false: read one byte more than allowed.
        most = min(limit, max(LINE_LIMIT, EXPANSION * entry.compress_size))
        with archive.open(entry) as stream:
            content = stream.read(most + 1)
    if len(content) > most:
        msg = f"{path}: got {name!r} of more than {most:,} bytes, expected fewer"
        raise DataError(msg)
    return content


def read_yaml(path: Path, expected: str) -> Any:
    """Read a YAML file; see `parse_yaml`.

    Raises:
        DataError: see `read_text` and `parse_yaml`.
    """
    return parse_yaml(read_text(path, limit=YAML_LIMIT), path, expected)


def parse_yaml(text: str, path: object, expected: str) -> Any:
    """Return the value of a YAML document: mappings, lists, texts, numbers, flags and None.

    Its source, `path`, and its expected content are for the message.

    Raises:
        DataError: it is not YAML, is deeper than `DEPTH_LIMIT`, has more than `VALUES_LIMIT` values
            once its aliases are expanded, the same key twice, or a value of another kind.
    """
    with reading(path, expected):
        return _plain(_load_yaml(text))


@lru_cache(maxsize=16)
def _load_yaml(text: str) -> Any:
    """Return the value of a document; a command reads the settings of its run up to seven times."""
    check_yaml(text)
    return yaml.load(text, Loader=_Loader)


def check_yaml(text: str) -> None:
    """Check the size of a YAML document before any of its aliases is expanded.

    Raises:
        ValueError: it is too large or too deep, or has an alias within itself.
        YAMLError: it is not YAML.
    """
    # For each open list or mapping: its anchor, and its [values, levels] so far.
    waiting: list[tuple[str | None, list[int]]] = [(None, [0, 0])]
    anchors: dict[str, list[int]] = {}
    for event in yaml.parse(text, Loader=_SafeLoader):
        size = [1, 0]
        if isinstance(event, yaml.CollectionStartEvent):
            waiting.append((event.anchor, size))
            anchors.pop(event.anchor or "", None)
        elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            anchor = event.anchor if isinstance(event, yaml.NodeEvent) else None
            if isinstance(event, yaml.CollectionEndEvent):
                anchor, size = waiting.pop()
            elif isinstance(event, yaml.AliasEvent):
                if anchor not in anchors:
                    msg = f"the alias *{anchor} of nothing that ends before it"
                    raise ValueError(msg)
                # An alias counts as the complete value of its anchor.
                size = anchors[anchor]
            if anchor is not None:
                anchors[anchor] = size
            parent = waiting[-1][1]
            parent[:] = parent[0] + size[0], max(parent[1], size[1] + 1)
        if waiting[-1][1][0] > VALUES_LIMIT or len(waiting) + waiting[-1][1][1] > DEPTH_LIMIT:
            msg = f"more than {VALUES_LIMIT:,} values or {DEPTH_LIMIT} levels, aliases included"
            raise ValueError(msg)


class _Loader(_SafeLoader):  # type: ignore[misc] # one of two classes
    """Refuses a repeated key, of which YAML would silently take the second."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """See `yaml.SafeLoader`."""
        first: dict[str, Any] = {}
        for key, _ in node.value:
            if key.value in first and key.tag != "tag:yaml.org,2002:merge":
                numbers = first[key.value].start_mark.line + 1, key.start_mark.line + 1
                msg = f"twice the key {key.value!r} in lines {numbers[0]} and {numbers[1]}"
                raise yaml.constructor.ConstructorError(None, None, msg)
            first[key.value] = key
        return super().construct_mapping(node, deep)


def _plain(value: Any) -> Any:
    """Return a copy of a value in which aliases do not share lists and mappings."""
    if isinstance(value, dict):
        return {_plain(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, int) and abs(value) >= 10**DIGITS_LIMIT:
        msg = f"a number of more than {DIGITS_LIMIT} digits"
        raise ValueError(msg)
    if value is not None and not isinstance(value, bool | int | float | str):
        msg = f"a {type(value).__name__}, {brief(str(value))}: a text needs quotes there"
        raise ValueError(msg)
    return value
