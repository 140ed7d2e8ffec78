"""JSON lines: files of records, and journals that outlive a kill."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from text.bounded_files import LINE_LIMIT, DataError, opened, parse_json, reading
from text.file_lock import take
from text.subjects import as_stored, differences, joined

Record = TypeVar("Record")


def read_lines(path: str | Path, record: Callable[[Any], Record]) -> tuple[Any, list[Record], int]:
    """Return the subject of the records (None if unknown), the records, and their bytes.

    Reading ends at the first incomplete line, as a kill or a full disk leaves it. `record` makes a
    record of a JSON value; an exception means an invalid one.
    """
    subject: Any = None
    records: list[Record] = []
    length = 0
    with opened(Path(path)) as stream:
        # A line without its end is torn, or longer than allowed.
        while (line := stream.readline(LINE_LIMIT)).endswith(b"\n"):
            try:
                with reading(path, "records"):
                    content = parse_json(line, path, "a record")
                    if length:
                        records.append(record(content))
                    else:
                        subject = content["about"]
            except DataError:
                break
            length += len(line)
    return subject, records, length


def open_lines(path: Path, subject: Any, length: int) -> IO[bytes]:
    """Open a file to append records; its first line is their subject.

    All but the first `length` bytes are cut off; 0 begins a new file.

    Raises:
        ValueError: another process writes the file.
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not emptied before it is ours.
    stream = path.open("r+b" if length else "ab")
    with suppress(OSError):  # a file system without locks
        if not take(stream):
            stream.close()
            msg = (
                f"got {path} while another process writes it, expected to be alone; wait for that "
                "one, or give another name"
            )
            raise ValueError(msg)
    if length:
        stream.truncate(length)
        stream.seek(length)
    else:
        stream.truncate(0)
        append(stream, [{"about": subject}])
    return stream


def resume_lines(
    path: Path, subject: Mapping[str, Any], record: Callable[[Any], Record], kind: str
) -> tuple[list[Record], IO[bytes]]:
    """Return the records of a file, and the file to append more; a torn line is cut off.

    Args:
        path: the file, made if there is none.
        subject: all that the records depend on.
        record: makes a record of a JSON value; an exception means an invalid one.
        kind: name of records with another subject, for the error.

    Raises:
        ValueError: the file has another subject, or another process writes it.
    """
    records: list[Record] = []
    length = 0
    if path.is_file() and path.stat().st_size:
        stored, records, length = read_lines(path, record)
        if other := differences(stored if isinstance(stored, dict) else {}, subject):
            msg = (
                f"got {path} with {kind} ({joined(other)}), expected the same: give another "
                "--output, or move the file away"
            )
            raise ValueError(msg)
    return records, open_lines(path, as_stored(subject), length)


def append(stream: IO[bytes], contents: Iterable[Any]) -> None:
    """Write whole lines at once, so that a kill leaves at most one torn line."""
    stream.write(b"".join(json.dumps(content).encode() + b"\n" for content in contents))
    stream.flush()
