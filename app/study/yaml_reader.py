"""Reads a YAML mapping into a frozen dataclass, by the types of its fields; collects all errors."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+=-]*")
"""Names of rows, corpora and columns: they are parts of names of runs and files."""
_EXPECTED: dict[Any, str] = {
    str: "a text",
    tuple[str, ...]: "a list of texts",
    tuple[int, ...]: "a list of whole numbers from 0 on",
    float: "a number",
    int: "a whole number from 0 on",
    bool: "true or false",
}


class YamlReader:
    """Collects in `problems` one line per error: the key, the value found, the value expected."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def add(self, key: str, value: Any, expected: str) -> None:
        """Add a line about the value of a key, such as `rows.bert.title`."""
        self.problems.append(f"{key or 'the file'}: got {value!r}, expected {expected}")

    def mapping(self, value: Any, key: str, names: Iterable[str]) -> Mapping[str, Any]:
        """Return a mapping with no other keys than `names`; an empty one for anything else."""
        listed = ", ".join(sorted(names))
        if not isinstance(value, Mapping):
            if value is not None:
                self.add(key, value, f"a mapping with {listed}")
            return {}
        self.problems += [
            f"{_join(key, name)}: got an unknown key, expected one of {listed or 'none'}"
            for name in value
            if name not in names
        ]
        return value

    def read(self, kind: type[T], value: Any, key: str = "", name: str | None = None) -> T:
        """Return an instance of a dataclass; a wrong value becomes the default of its field.

        A field without a default is required. A null counts as absent.

        Args:
            kind: the dataclass.
            value: the mapping.
            key: its position in the file: `rows.bert`.
            name: key of a named mapping: value of the field `name`, and default of `title`.
        """
        # `include_extras` keeps the texts of `Annotated`.
        hints = get_type_hints(kind, include_extras=True)
        values: dict[str, Any] = {}
        if name is not None:
            values["name"] = name
            del hints["name"]
        content = self.mapping(value, key, hints)
        for field in fields(kind):  # type: ignore[arg-type] # T is a dataclass
            if field.name not in hints:
                continue
            default = field.default
            if field.default_factory is not MISSING:
                default = field.default_factory()
            # A named entry has its name as title.
            elif default is MISSING and field.name == "title" and name is not None:
                default = name
            part = content.get(field.name, MISSING)
            values[field.name] = self.check(
                hints[field.name], part, _join(key, field.name), default
            )
        return kind(**values)

    def check(self, hint: Any, value: Any, key: str, default: Any = MISSING) -> Any:
        """Return a value of a type, with tuples for lists; the default for absent or wrong ones.

        Args:
            hint: the type, such as `tuple[str, ...]`; `Annotated` with the text for its errors.
            value: MISSING or None where there is none.
            key: its position in the file.
            default: MISSING for a value that is required.
        """
        # `X | None`: reads X.
        optional = NoneType in get_args(hint)
        if optional:
            hint = next(part for part in get_args(hint) if part is not NoneType)
        if get_origin(hint) is Literal:
            # Here null may be a choice of its own: `better: null`.
            choices = (*get_args(hint), *([None] if optional else []))
            value = default if value is MISSING else value
            fits, expected = value in choices, f"one of {', '.join(map(str, choices))}"
        else:
            if value is None or value is MISSING:
                if default is MISSING:
                    self.problems.append(f"{key}: got nothing, expected {_expected(hint)}")
                return _absent(hint, default)
            fits, expected = _fits(value, hint), _expected(hint)
        if not fits:
            self.add(key, value, expected)
            return _absent(hint, default)
        return self._convert(hint, value, key)

    def _convert(self, hint: Any, value: Any, key: str) -> Any:
        if is_dataclass(hint):
            return self.read(hint, value, key)  # type: ignore[arg-type] # a class, no instance
        if get_origin(hint) is Mapping and is_dataclass(get_args(hint)[1]):
            entry: type[Any] = get_args(hint)[1]
            for name in value:
                if not NAME.fullmatch(name):
                    self.add(key, name, "a name of letters, digits and . _ @ + = -")
            return {
                name: self.read(entry, part, f"{key}.{name}", name) for name, part in value.items()
            }
        if isinstance(value, list) and hint is not Any:
            return tuple(value)
        return float(value) if hint is float else value


def _absent(hint: Any, default: Any) -> Any:
    return ("" if hint is str else ()) if default is MISSING else default


def _join(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)


def _expected(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return str(get_args(hint)[1])
    return _EXPECTED.get(hint, "a mapping of names")


def _fits(value: Any, hint: Any) -> bool:
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if hint == tuple[str, ...]:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if hint == tuple[int, ...]:
        # `type`, as True is an int for `isinstance`.
        counts = isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
        return counts and 0 < len(value) == len(set(value))
    if hint is int:
        return type(value) is int and value >= 0
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    # `read` checks a dataclass itself.
    return hint is Any or is_dataclass(hint) or isinstance(value, hint)
