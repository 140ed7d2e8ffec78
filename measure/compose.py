"""Build your own attack from the classes and arguments in a YAML file."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from attacks.compat import Compat, CompatName
from attacks.composition import Attack
from attacks.goals import Goal
from attacks.resources.catalogue import Resources
from text.module_names import own_package, real_name

HOMES = (
    "attacks.transformations",
    "attacks.transformations.expected_words",
    "attacks.transformations.inserted_words",
    "attacks.transformations.subwords",
    "attacks.constraints",
    "attacks.constraints.fluency",
    "attacks.constraints.sentence_similarity",
    "attacks.constraints.thought_vectors",
    "attacks.constraints.preconstraints",
    "attacks.search",
    "attacks.strategies",
    "attacks.goals",
)
"""Modules to search for a class that is named without its module."""
_PARTS = {
    "transformation": ("propose",),
    "search": ("steps",),
    "goal": ("judge", "reached", "score"),
    "pre_constraints": ("allowed",),
    "constraints": ("keep", "cost"),
}
"""The parts of an attack, and the names that each must have (`attacks.composition`)."""
_METHODS = ("propose", "steps", "judge", "allowed", "keep")
_NEEDED = ("name", "transformation", "search")
_LISTS = ("pre_constraints", "constraints")

Sources = Mapping[str, Callable[[], Any]]
"""The default of an argument by its name; loaded only if a class has the argument."""


def compose(
    spec: Mapping[str, Any], resources: Resources, *, compat: CompatName, goal: Goal
) -> Attack:
    """Build the attack that a file describes.

    The file has `name`, `transformation`, `search`, optionally `goal` (else it is the argument),
    `pre_constraints`, `constraints` and `white_box`; parts as `class_path` and `init_args`. It need
    not have `compat`, nor the arguments that are resources: `neighbours`, `vectors`, `wordnet`,
    `tagger`, `encoder`, `model` and `tokenizer` of a masked language model, `words` of a list of
    stop words.

    Raises:
        ValueError: unknown classes or arguments, or a class without the methods of its part.
    """
    keys = {*_PARTS, "name", "white_box"}
    if not set(_NEEDED) <= set(spec) <= keys:
        msg = (
            f"got an attack with {', '.join(sorted(spec))}; expected {', '.join(_NEEDED)}, and of "
            f"{', '.join(sorted(keys - set(_NEEDED)))} what is wanted"
        )
        raise ValueError(msg)
    sources = _sources(resources, compat)
    # Depth first: the parts of a part are objects before its arguments are checked.
    parts = {key: _build(spec[key], sources) for key in _PARTS if key in spec}
    for key, part in parts.items():
        _check_part(key, part, spec[key])
    return Attack(
        name=str(spec["name"]),
        transformation=parts["transformation"],
        search=parts["search"],
        goal=parts.get("goal", goal),
        pre_constraints=parts.get("pre_constraints", ()),
        constraints=parts.get("constraints", ()),
        compat=Compat(compat),
        white_box=bool(spec.get("white_box", False)),
    )


def _sources(resources: Resources, compat: CompatName) -> Sources:
    return {
        "neighbours": resources.neighbours,
        "vectors": resources.vectors,
        "wordnet": resources.wordnet,
        "inflected": resources.inflected,
        "tagger": resources.tagger,
        "encoder": resources.sentence_encoder,
        "model": lambda: resources.masked_lm()[0],
        "tokenizer": lambda: resources.masked_lm()[1],
        "words": resources.stop_words,
        "compat": lambda: compat,
    }


def _check_part(key: str, part: Any, content: Any) -> None:
    """Raise ValueError unless an object, or a list of them, has the methods of its part."""
    # One constraint without a list is a likely mistake in YAML.
    if isinstance(part, list) != (key in _LISTS):
        expected = "a list of parts" if key in _LISTS else "one part"
        msg = f"got {key} {content!r}, expected {expected}"
        raise ValueError(msg)
    for item in part if isinstance(part, list) else [part]:
        missing = [name for name in _PARTS[key] if not hasattr(item, name)]
        if missing:
            msg = f"got {type(item).__name__} as {key}, expected {', '.join(missing)} of it"
            raise ValueError(msg)


def _build(value: Any, sources: Sources) -> Any:
    """Replace class paths by objects, also inside of lists and dictionaries."""
    if isinstance(value, list):
        return [_build(item, sources) for item in value]
    if not isinstance(value, dict):
        return value
    if "class_path" not in value:
        return {key: _build(item, sources) for key, item in value.items()}
    path, arguments = str(value["class_path"]), value.get("init_args") or {}
    if strange := sorted(set(value) - {"class_path", "init_args"}):
        msg = f"got {', '.join(strange)} next to class_path {path!r}, expected init_args at most"
        raise ValueError(msg)
    part = _find_class(path)
    objects = {key: _build(item, sources) for key, item in arguments.items() if _has_class(item)}
    for name in inspect.signature(part).parameters:
        # The file has priority over the default resource.
        if name in sources and name not in arguments:
            objects[name] = sources[name]()
    plain = {key: item for key, item in arguments.items() if key not in objects}
    return part(**_check_arguments(part, plain, set(objects)), **objects)


def _has_class(value: Any) -> bool:
    """Return True if there is a class path somewhere in a value."""
    if isinstance(value, list):
        return any(map(_has_class, value))
    return isinstance(value, dict) and (
        "class_path" in value or any(map(_has_class, value.values()))
    )


def _check_arguments(part: Any, plain: Mapping[str, Any], objects: set[str]) -> dict[str, Any]:
    """Check the names and types of arguments, and return them."""
    parser = ArgumentParser(exit_on_error=False)
    # Not of objects: jsonargparse would demand the exact annotations of their protocol.
    parser.add_class_arguments(part, fail_untyped=False, skip={*objects})
    try:
        parsed: dict[str, Any] = parser.parse_object(dict(plain)).as_dict()
    except ArgumentError as error:
        msg = f"got wrong init_args of {part.__name__}: {' '.join(str(error).split())}"
        raise ValueError(msg) from error
    return parsed


def _find_class(path: str) -> Any:
    """Find a class by its name.

    Raises:
        ValueError: the class does not exist, or it is not a part of an attack.
    """
    module, _, name = path.rpartition(".")
    part = None
    for home in [module] if module else HOMES:
        # A user's package may have the name of one of ours.
        for known in dict.fromkeys((real_name(home), home)):
            with suppress(ImportError):
                part = part or getattr(import_module(known), name, None)
        if part is not None:
            break
    if part is None:
        where = module or ", ".join(HOMES)
        msg = f"got class_path {path!r}, which is not in {where}, expected a class there"
        raise ValueError(msg)
    # A foreign file must not call arbitrary code, such as subprocess.Popen.
    ours = own_package(getattr(part, "__module__", None) or "") == "attacks"
    if not inspect.isclass(part) or not (ours or any(hasattr(part, name) for name in _METHODS)):
        msg = f"got class_path {path!r}, expected a class with {' or '.join(_METHODS)}"
        raise ValueError(msg)
    return part
