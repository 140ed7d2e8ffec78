"""Converts settings, frozen dataclasses, to the plain values of checkpoints and back."""

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from layers.attention.own_attention import no_imports

CODE = ("optimizer", "lr_scheduler")
"""Settings that are code, which checkpoints do not store."""


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Return the settings of a class by name, including those that `**base` passes to its bases."""
    settings: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if (constructor := vars(base).get("__init__")) is None:
            continue
        own = list(inspect.signature(constructor).parameters.values())[1:]
        for parameter in own:
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                settings.setdefault(parameter.name, parameter)
        # Without `**base`, no setting reaches the bases.
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in own):
            break
    return settings


def names(cls: type) -> Iterator[str]:
    """Yield the names of a class's settings; those of a group as `group.name`."""
    for name, annotation in _types(cls).items():
        yield name
        for group in _dataclasses(annotation):
            yield from (f"{name}.{inner}" for inner in names(group))


def plain(value: Any) -> Any:
    """Return settings as scalars, lists and dictionaries, without those that are code."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items() if name not in CODE}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def rebuilt(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a class from their `plain` values, without importing anything.

    Annotations of its constructor or fields determine the dataclasses.

    Raises:
        TypeError: a setting that one of these dataclasses does not have.
    """
    types_of = _types(cls)
    with no_imports():
        return {name: _typed(types_of.get(name), value) for name, value in settings.items()}


def named(instance: object, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values from which an object can be built again."""
    return {"name": type(instance).__name__, "settings": dict(settings)}


def within(group: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return a copy with the group's name before the names of its settings."""
    return {f"{group}.{name}": reason for name, reason in names.items()}


def _typed(annotation: Any, value: Any) -> Any:
    """Return a value; a mapping as the dataclass of the annotation, if it has one."""
    # A union has at most one dataclass; the other member is None.
    group = next(iter(_dataclasses(annotation)), None)
    if group is None or not isinstance(value, Mapping):
        return value
    return group(**rebuilt(group, value))


def _types(cls: type) -> dict[str, Any]:
    """Return the types of a class's settings by name."""
    if is_dataclass(cls):
        return typing.get_type_hints(cls)
    return {name: parameter.annotation for name, parameter in parameters(cls).items()}


def _dataclasses(annotation: Any) -> list[type]:
    """Return the dataclasses that an annotation allows."""
    either = (
        typing.get_args(annotation) if isinstance(annotation, types.UnionType) else [annotation]
    )
    return [kind for kind in either if isinstance(kind, type) and is_dataclass(kind)]
