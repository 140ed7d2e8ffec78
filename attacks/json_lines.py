"""JSON lines: files of records, and journals that outlive a kill."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from text.bounded_files import LINE_LIMIT, DataError, opened, parse_json, reading
from text.file_lock import take

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


def append(stream: IO[bytes], contents: Iterable[Any]) -> None:
    """Write whole lines at once, so that a kill leaves at most one torn line."""
    stream.write(b"".join(json.dumps(content).encode() + b"\n" for content in contents))
    stream.flush()
