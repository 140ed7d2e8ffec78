"""Reads a YAML mapping into a frozen dataclass, by the types of its fields; collects all errors."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+=-]*")
"""Names of rows, corpora and columns: they are parts of names of runs and files."""
_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    Any: ("anything", lambda value: True),
    str: ("a text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    # `type`, as True is an int for `isinstance`.
    int: ("a whole number from 0 on", lambda value: type(value) is int and value >= 0),
    float: ("a number", lambda value: type(value) in (int, float)),
    tuple[str, ...]: (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    ),
    tuple[int, ...]: (
        "a list of whole numbers from 0 on, at least one and each once",
        lambda value: (
            isinstance(value, list)
            and all(type(item) is int and item >= 0 for item in value)
            and 0 < len(value) == len(set(value))
        ),
    ),
}
"""By type: the text for errors, and the check of a value."""
_ABSENT: dict[Any, Any] = {str: "", float: 0.0}
"""Instead of a required value that is wrong; an empty tuple for other types."""
_MAPPING: tuple[str, Callable[[Any], bool]] = (
    "a mapping of names",
    lambda value: isinstance(value, Mapping) and all(isinstance(name, str) for name in value),
)


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
            f"{key}.{name}".removeprefix(".")
            + f": got an unknown key, expected one of {listed or 'none'}"
            for name in value
            if name not in names
        ]
        return value

    def read(self, kind: type[T], value: Any, key: str = "", name: str | None = None) -> T:
        """Return an instance of a dataclass; a wrong value becomes the default of its field.

        A field without a default is required. A null counts as absent. `key` is the position in the
        file: `rows.bert`; `name`, the key of a named mapping, is the value of the field `name` and
        the default of `title`.
        """
        # `include_extras` keeps the texts of `Annotated`.
        hints = get_type_hints(kind, include_extras=True)
        values: dict[str, Any] = {} if name is None else {"name": name}
        content = self.mapping(value, key, hints.keys() - values)
        for field in fields(kind):  # type: ignore[arg-type] # T is a dataclass
            if field.name in values:
                continue
            default = field.default
            if field.default_factory is not MISSING:
                default = field.default_factory()
            elif default is MISSING and field.name == "title" and name is not None:
                default = name
            position = f"{key}.{field.name}".removeprefix(".")
            part = content.get(field.name, MISSING)
            values[field.name] = self.check(hints[field.name], part, position, default)
        return kind(**values)

    def check(self, hint: Any, value: Any, key: str, default: Any = MISSING) -> Any:
        """Return a value of a type, with tuples for lists; the default for absent or wrong ones.

        `Annotated` types bring the text for their errors. An absent value is MISSING or None;
        MISSING as the default makes it required.
        """
        optional = NoneType in get_args(hint)
        if optional:
            hint = next(part for part in get_args(hint) if part is not NoneType)
        absent = _ABSENT.get(hint, ()) if default is MISSING else default
        if get_origin(hint) is Literal:
            # Here null may be a choice of its own: `better: null`.
            choices = (*get_args(hint), *([None] if optional else []))
            value = default if value is MISSING else value
            expected, fits = f"one of {', '.join(map(str, choices))}", choices.__contains__
        else:
            expected, fits = _kind(hint)
            if value is None or value is MISSING:
                if default is MISSING:
                    self.problems.append(f"{key}: got nothing, expected {expected}")
                return absent
        if not fits(value):
            self.add(key, value, expected)
            return absent
        return self._convert(hint, value, key)

    def _convert(self, hint: Any, value: Any, key: str) -> Any:
        if is_dataclass(hint):
            return self.read(hint, value, key)  # type: ignore[arg-type] # a class, no instance
        entry: Any = get_args(hint)[1] if get_origin(hint) is Mapping else Any
        if is_dataclass(entry):
            for name in value:
                if not NAME.fullmatch(name):
                    self.add(key, name, "a name of letters, digits and . _ @ + = -")
            return {
                name: self.read(entry, part, f"{key}.{name}", name)  # type: ignore[arg-type] # a class
                for name, part in value.items()
            }
        if entry is not Any:
            # A null is an empty mapping, but no number.
            default: Any = {} if _kind(entry)[1] is _MAPPING[1] else MISSING
            return {
                name: self.check(entry, part, f"{key}.{name}", default)
                for name, part in value.items()
            }
        if isinstance(value, list) and hint is not Any:
            return tuple(value)
        return float(value) if hint is float else value


def _kind(hint: Any) -> tuple[str, Callable[[Any], bool]]:
    if get_origin(hint) is Annotated:
        return str(get_args(hint)[1]), _kind(get_args(hint)[0])[1]
    # `read` checks a dataclass itself.
    return _KINDS[Any] if is_dataclass(hint) else _KINDS.get(hint, _MAPPING)
