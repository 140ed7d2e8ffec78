"""Checks that a JSON value has the shape that its reader relies on."""

import math
import types
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from text.bounded_files import DataError, brief

_SCALARS: dict[Any, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


def check_shape(value: Any, kind: Any, path: object, at: str = "") -> None:
    """Raise DataError unless a JSON value is of a kind.

    Args:
        value: as `parse_json` returns it.
        kind: a `TypedDict`, `dict[str, X]`, `list[X]`, `tuple[X, ...]`, a union, `Literal`, `str`,
            `int`, `float` (a finite one, whole ones too), `bool`, None or Any.
        path: the file, for the message.
        at: path within the document, for the message.
    """
    reason = _difference(value, kind, at)
    if reason is not None:
        msg = f"got {path} with {reason}; it is damaged: move it away"
        raise DataError(msg)


def _difference(value: Any, kind: Any, at: str) -> str | None:
    origin = get_origin(kind)
    if origin is NotRequired:
        return _difference(value, get_args(kind)[0], at)
    if origin in (Union, types.UnionType):
        reasons = [_difference(value, member, at) for member in get_args(kind)]
        return None if None in reasons else reasons[0]
    if hasattr(kind, "__required_keys__"):
        return _of_fields(value, kind, at)
    if origin in (list, tuple):
        items = enumerate(value) if isinstance(value, list) else None
        return _first(items, get_args(kind)[0], at, value, "a list")
    if origin is dict:
        fields = value.items() if isinstance(value, dict) else None
        return _first(fields, get_args(kind)[1], at, value, "an object")
    fits = kind is Any or _is_scalar(value, kind)
    return None if fits else _wrong(value, at, _SCALARS.get(kind, f"one of {get_args(kind)}"))


def _of_fields(value: Any, kind: Any, at: str) -> str | None:
    if not isinstance(value, dict):
        return _wrong(value, at, "an object")
    if lost := kind.__required_keys__ - value.keys():
        return f"no {', '.join(sorted(lost))}{f' in {at}' if at else ''}"
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in value and (reason := _difference(value[name], hint, f"{at}.{name}".lstrip("."))):
            return reason
    return None


def _first(parts: Any, kind: Any, at: str, value: Any, expected: str) -> str | None:
    """Return the first difference of the parts of a list or an object."""
    if parts is None:
        return _wrong(value, at, expected)
    if kind is Any:  # the values of records: nothing to find in thousands of them
        return None
    reasons = (_difference(part, kind, f"{at}.{name}".lstrip(".")) for name, part in parts)
    return next((reason for reason in reasons if reason), None)


def _is_scalar(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind


def _wrong(value: Any, at: str, expected: str) -> str:
    kinds: Mapping[type, str] = {dict: "an object", list: "a list"}
    actual = kinds.get(type(value)) or brief(value, 60)
    return f"{actual}{f' as {at}' if at else ''}, expected {expected}"
