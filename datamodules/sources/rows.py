"""A row of a file, and the checks of its strings."""

from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal, NamedTuple

Split = Literal["train", "validation", "test"]


class Row(NamedTuple):
    """One row as it was read, from a line (Parquet: a row) counted from 1.

    `entry` is its number in a JSON document. A row with a `problem` cannot be used, and has no
    values.
    """

    line: int
    values: Mapping[str, Any]
    problem: str | None = None
    entry: int | None = None

    @property
    def place(self) -> str:
        """Its position in the file, for messages."""
        entry = "" if self.entry is None else f"entry {self.entry}, "
        return f"{entry}line {self.line}"


def decode(raw: bytes) -> str:
    """Decode one line without its end; a failure has a message for the user."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        position = f"byte 0x{raw[error.start]:02x} at column {error.start + 1}"
        msg = f"broken encoding: {position} is not UTF-8"
        raise ValueError(msg) from error
    if "\0" in text:
        msg = "broken encoding: a NUL character"
        raise ValueError(msg)
    return text


def sound(value: Any) -> None:
    """Raise a ValueError unless the strings of a JSON value are sound, at any depth.

    A NUL character, or half a surrogate pair, cannot be written, and no pretrained tokenizer
    accepts it.
    """
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            decode(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(chain(value, value.values()))


def check_row(line: int, values: dict[str, Any]) -> Row:
    """Return a row after a check of its strings, from escapes (JSON) or bytes (Parquet)."""
    try:
        for column, value in values.items():
            if isinstance(value, bytes):
                values[column] = decode(value)
            else:
                sound(value)
    except ValueError as error:
        return Row(line, {}, str(error))
    return Row(line, values)


def look_up(value: Mapping[str, Any], name: str) -> list[Any]:
    """Return the value of a column of a JSON object in a list; an empty list if it is absent.

    The name is a key, or a path of keys with dots, such as `meta.label`.
    """
    if name in value:
        return [value[name]]
    part: Any = value
    for key in name.split("."):
        if not isinstance(part, dict) or key not in part:
            return []
        part = part[key]
    return [part]
