"""Reads mappings of a YAML file field by field, and collects all that is wrong."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

Kind = Literal[
    "text", "texts", "numbers", "number", "count", "flag", "mapping", "settings", "files"
]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+=-]*")
"""Names of rows, corpora and columns: they stand in names of runs and files."""
_WANTED: dict[Kind, str] = {
    "text": "a text",
    "texts": "a list of texts",
    "files": "a list of settings files",
    "numbers": "a list of whole numbers from 0 on",
    "number": "a number",
    "count": "a whole number from 0 on",
    "flag": "true or false",
    "mapping": "a mapping of names",
    "settings": "settings by their names on the command line, as model.objective.gamma: 2",
}


class Fields:
    """One mapping of the file.

    Args:
        value: what stands there; None for nothing.
        where: its place, for messages: `rows.bert`.
        known: all keys that it may have.
        problems: a line is added for each problem.
    """

    def __init__(self, value: Any, where: str, known: set[str], problems: list[str]) -> None:
        self.where, self.problems = where, problems
        if value is not None and not isinstance(value, Mapping):
            self.problem("", value, f"a mapping with {', '.join(sorted(known))}")
            value = None
        self.values: Mapping[str, Any] = value or {}
        for key in self.values:
            if key not in known:
                self.problems.append(
                    f"{self.at(str(key))}: got an unknown key, expected one of "
                    f"{', '.join(sorted(known)) or 'none'}"
                )

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def problem(self, key: str, got: Any, expected: str) -> None:
        """Adds a line about a value."""
        self.problems.append(f"{self.at(key)}: got {got!r}, expected {expected}")

    def get(self, key: str, kind: Kind, default: Any) -> Any:
        """Returns a value of a kind; the default where there is none, or a wrong one."""
        value = self.values.get(key)
        if value is None:
            return default
        if not _fits(value, kind):
            self.problem(key, value, _WANTED[kind])
            return default
        return tuple(value) if kind in ("texts", "files", "numbers") else value

    def required(self, key: str, kind: Kind, default: Any) -> Any:
        """The same, of a value that has to be there."""
        if self.values.get(key) is None:
            self.problems.append(f"{self.at(key)}: got nothing, expected {_WANTED[kind]}")
        return self.get(key, kind, default)

    def choice(self, key: str, choices: tuple[Any, ...], default: Any) -> Any:
        """Returns one of several values."""
        value = self.values.get(key, default)
        if value not in choices:
            self.problem(key, value, f"one of {', '.join(map(str, choices))}")
            return default
        return value

    def named(self, key: str, known: set[str]) -> Iterator[tuple[str, "Fields"]]:
        """Returns the mappings that a mapping of names holds."""
        for name, value in self.get(key, "mapping", {}).items():
            if not NAME.fullmatch(str(name)):
                self.problem(key, name, "a name of letters, digits and . _ @ + = -")
            yield str(name), Fields(value, self.at(f"{key}.{name}"), known, self.problems)

    def at(self, key: str) -> str:
        """Returns the place of a key, for messages."""
        return ".".join(part for part in (self.where, key) if part) or "the file"


def _fits(value: Any, kind: Kind) -> bool:
    if kind in ("texts", "files"):
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind == "numbers":
        whole = isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)
        return whole and bool(value) and len(set(value)) == len(value)
    if kind in ("mapping", "settings"):
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    if kind == "count":
        return type(value) is int and value >= 0
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, bool if kind == "flag" else str)
