"""Settings as frozen dataclasses, and the plain values of them that checkpoints hold."""

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from layers.attention.own_attention import no_imports

CODE = ("optimizer", "lr_scheduler")
"""Settings that are code and so are not stored in checkpoints."""


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Returns the settings of a class by name, those that `**base` hands to its bases included."""
    found: dict[str, inspect.Parameter] = {}
    for one in cls.__mro__:
        if (constructor := vars(one).get("__init__")) is None:
            continue
        own = list(inspect.signature(constructor).parameters.values())[1:]
        for parameter in own:
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in own):
            break
    return found


def names(cls: type) -> Iterator[str]:
    """Yields the names of a class's settings; those of a group stand behind its name and a dot."""
    for name, annotation in _types(cls).items():
        yield name
        yield from (f"{name}.{one}" for group in _dataclasses(annotation) for one in names(group))


def plain(value: Any) -> Any:
    """Returns settings as scalars, lists and dictionaries, without those that are code."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items() if name not in CODE}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def rebuilt(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a class from what `plain` made of them, without importing anything.

    Args:
        cls: whose constructor, or whose fields, say which of them are dataclasses.
        settings: plain values.

    Raises:
        TypeError: a setting that one of these dataclasses does not have.
    """
    types_of = _types(cls)
    with no_imports():
        return {name: _typed(types_of.get(name), value) for name, value in settings.items()}


def named(one: object, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the plain values from which an object can be built again."""
    return {"name": type(one).__name__, "settings": dict(settings)}


def within(group: str, names: Mapping[str, str]) -> dict[str, str]:
    """Returns the same with the group's name before the names of its settings."""
    return {f"{group}.{name}": reason for name, reason in names.items()}


def _typed(annotation: Any, value: Any) -> Any:
    """Returns a value, or the dataclass that the annotation asks for in place of a mapping."""
    group = next(iter(_dataclasses(annotation)), None)
    return (
        value if group is None or not isinstance(value, Mapping) else group(**rebuilt(group, value))
    )


def _types(cls: type) -> dict[str, Any]:
    """Returns the types of a class's settings by name."""
    if is_dataclass(cls):
        return typing.get_type_hints(cls)
    return {name: one.annotation for name, one in parameters(cls).items()}


def _dataclasses(annotation: Any) -> list[type]:
    """Returns the dataclasses that an annotation allows."""
    either = (
        typing.get_args(annotation) if isinstance(annotation, types.UnionType) else [annotation]
    )
    return [one for one in either if isinstance(one, type) and is_dataclass(one)]
