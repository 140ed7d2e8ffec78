"""JSON lines: files of records, and journals that outlive a kill."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import IO, Any, TypeVar

from text import Text
from text.bounded_files import LINE_LIMIT, DataError, opened, parse_json, reading
from text.file_lock import take
from text.subjects import as_stored, differences, joined

Record = TypeVar("Record")

_BEGIN = b'{"about": '
_SUBJECT = "the settings with which a file of records begins: give another file"


def writable(text: Text) -> bool:
    """Return False for a text with half a surrogate pair: its line could not be read again."""
    try:
        "".join(text).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_lines(path: str | Path, record: Callable[[Any], Record]) -> tuple[Any, list[Record], int]:
    """Return the subject of the records (None without a first line), the records, and their bytes.

    A last record that cannot be read is left out, as a kill or a full disk leaves it. `record`
    makes a record of a JSON value; an exception means an invalid one.

    Raises:
        DataError: another line cannot be read; it is named.
    """
    subject: Any = None
    records: list[Record] = []
    length = 0
    with opened(Path(path)) as stream:
        for number in count(1):
            line = stream.readline(LINE_LIMIT)
            place = f"{path}, line {number}"
            expected = "a record: remove that line, or give another file" if length else _SUBJECT
            try:
                with reading(place, expected):
                    if not line.endswith(b"\n"):
                        msg = f"no line end in {len(line):,} bytes"
                        raise ValueError(msg)
                    content = parse_json(line, place, expected)
                    if length:
                        records.append(record(content))
                    else:
                        subject = content["about"]
            except DataError:
                # A file of another kind is not empty, even if it has no line end.
                ours = length or _BEGIN.startswith(line[: len(_BEGIN)])
                if not ours or stream.read(1):
                    raise
                break
            length += len(line)
    return subject, records, length


def open_lines(path: Path) -> IO[bytes]:
    """Open a file for this process alone, made if there is none; read it only then.

    Raises:
        ValueError: another process writes the file.
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("ab")
    with suppress(OSError):  # a file system without locks
        if not take(stream):
            stream.close()
            msg = (
                f"got {path} while another process writes it, expected to be alone; wait for that "
                "one, or give another name"
            )
            raise ValueError(msg)
    return stream


def cut_lines(stream: IO[bytes], subject: Any, length: int) -> None:
    """Cut off all but the first `length` bytes; 0 begins the file, its first line the subject."""
    stream.truncate(length)
    if not length:
        append(stream, [{"about": subject}])


def resume_lines(
    path: Path, subject: Mapping[str, Any], record: Callable[[Any], Record], kind: str
) -> tuple[list[Record], IO[bytes]]:
    """Return the records of a file, and the file to append more; a torn line is cut off.

    Args:
        path: the file, made if there is none.
        subject: all that the records depend on.
        record: makes a record of a JSON value; an exception means an invalid one.
        kind: name of a file with another subject, in an error.

    Raises:
        ValueError: the file has another subject, a line before the last one cannot be read, or
            another process writes it.
    """
    stream = open_lines(path)
    try:
        stored, records, length = read_lines(path, record)
        other = differences(stored if isinstance(stored, dict) else {}, subject)
        if length and other:
            msg = (
                f"got {path}, {kind} ({joined(other)}), expected the same: give another path "
                "or --output, or move the file away"
            )
            raise ValueError(msg)
        cut_lines(stream, as_stored(subject), length)
    except BaseException:
        stream.close()
        raise
    return records, stream


def append(stream: IO[bytes], contents: Iterable[Any]) -> None:
    """Write whole lines at once, so that a kill leaves at most one torn line.

    Raises:
        OSError: they could not be written; the file is closed.
    """
    lines = b"".join(json.dumps(content).encode() + b"\n" for content in contents)
    try:
        stream.write(lines)
        stream.flush()
    except OSError as error:
        error.filename = str(stream.name)
        # Closing writes the rest again, and its error would replace this one.
        with suppress(OSError):
            stream.close()
        raise
