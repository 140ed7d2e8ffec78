"""JSON lines: files of records, and journals that outlive a kill."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

Record = TypeVar("Record")


def read_values(path: str | Path) -> Iterator[Any]:
    """Yield the JSON value of each line of a finished file.

    Only a line feed ends a line. `str.splitlines` also cuts at U+0085, U+2028 and others, which
    JSON allows inside of a text.

    Raises:
        ValueError: a line is no JSON.
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                msg = f"got {path}, line {number}, which is no JSON ({error}), expected a record"
                raise ValueError(msg) from error


def read_lines(path: str | Path, record: Callable[[Any], Record]) -> tuple[Any, list[Record], int]:
    """Returns what the records depend on (None if unknown), the records, and their bytes.

    Reading ends at the first line that is not whole, as a kill or a full disk leaves it.

    Args:
        path: the file.
        record: makes a record of a JSON value; an exception says that the line is no record.
    """
    about: Any = None
    records: list[Record] = []
    length = 0
    with Path(path).open("rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break
            try:
                content = json.loads(line)
                if length:
                    records.append(record(content))
                else:
                    about = content["about"]
            except (AttributeError, KeyError, TypeError, ValueError):
                break
            length += len(line)
    return about, records, length


def open_lines(path: Path, about: Any, length: int) -> IO[bytes]:
    """Opens a file to append records.

    Args:
        path: the file.
        about: what the records depend on; the first line of a new file.
        length: bytes that are kept; 0 begins a new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("r+b" if length else "wb")
    if length:
        stream.truncate(length)
        stream.seek(length)
    else:
        append(stream, [{"about": about}])
    return stream


def append(stream: IO[bytes], contents: Iterable[Any]) -> None:
    """Writes whole lines at once, so that a kill leaves at most one torn line."""
    stream.write(b"".join(json.dumps(content).encode() + b"\n" for content in contents))
    stream.flush()
