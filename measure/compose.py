"""Builds an attack of one's own from the classes and arguments in a YAML file."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from attacks.compat import Compat, CompatName
from attacks.composition import Attack
from attacks.goals import Goal
from attacks.resources.catalogue import Resources

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
"""Modules that are searched for classes named without their module."""
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


def compose(
    spec: Mapping[str, Any], resources: Resources, *, compat: CompatName, goal: Goal
) -> Attack:
    """Builds the attack that a file describes.

    Arguments that are resources (`neighbours`, `vectors`, `wordnet`, `tagger`, `encoder`, `model`
    and `tokenizer` of a masked language model, `words` of a list of stop words) need not be given,
    and neither need `compat`.

    Args:
        spec: `name`, `transformation`, `search`, and if wanted `goal`, `pre_constraints`,
            `constraints` and `white_box`; parts as `class_path` and `init_args`.
        resources: where word vectors and the like come from.
        compat: see `Attack`.
        goal: where the file has none.

    Raises:
        ValueError: unknown classes or arguments, or a class that cannot do what it is named for.
    """
    known = {*_PARTS, "name", "white_box"}
    if not set(_NEEDED) <= set(spec) <= known:
        msg = (
            f"got an attack with {', '.join(sorted(spec))}; expected {', '.join(_NEEDED)}, and of "
            f"{', '.join(sorted(known - set(_NEEDED)))} what is wanted"
        )
        raise ValueError(msg)
    sources = _sources(resources, compat)
    parts = {key: _built(spec[key], sources) for key in _PARTS if key in spec}
    for key, part in parts.items():
        if isinstance(part, list) != (key in _LISTS):
            expected = "a list of parts" if key in _LISTS else "one part"
            msg = f"got {key} {spec[key]!r}, expected {expected}"
            raise ValueError(msg)
        for one in part if isinstance(part, list) else [part]:
            missing = [name for name in _PARTS[key] if not hasattr(one, name)]
            if missing:
                msg = f"got {type(one).__name__} as {key}, expected {', '.join(missing)} of it"
                raise ValueError(msg)
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
    """Returns the sources of arguments that are not given, by name."""
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


def _built(value: Any, sources: Sources) -> Any:
    """Replaces class paths by objects."""
    if isinstance(value, list):
        return [_built(one, sources) for one in value]
    if not isinstance(value, dict):
        return value
    if "class_path" not in value:
        return {key: _built(one, sources) for key, one in value.items()}
    path, given = str(value["class_path"]), value.get("init_args") or {}
    if strange := sorted(set(value) - {"class_path", "init_args"}):
        msg = f"got {', '.join(strange)} beside class_path {path!r}, expected init_args at most"
        raise ValueError(msg)
    found = _find(path)
    objects = {key: _built(one, sources) for key, one in given.items() if _has_class(one)}
    for name in inspect.signature(found).parameters:
        if name in sources and name not in given:
            objects[name] = sources[name]()
    plain = {key: one for key, one in given.items() if key not in objects}
    return found(**_checked(found, plain, set(objects)), **objects)


def _has_class(value: Any) -> bool:
    """Returns True if there is a class path somewhere in a value."""
    if isinstance(value, list):
        return any(map(_has_class, value))
    return isinstance(value, dict) and (
        "class_path" in value or any(map(_has_class, value.values()))
    )


def _checked(found: Any, plain: Mapping[str, Any], objects: set[str]) -> dict[str, Any]:
    """Checks the names and types of arguments.

    Objects are left out: jsonargparse would demand the exact annotations of their protocol.
    """
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(found, fail_untyped=False, skip={*objects})
    try:
        parsed: dict[str, Any] = parser.parse_object(dict(plain)).as_dict()
    except ArgumentError as error:
        msg = f"got wrong init_args of {found.__name__}: {' '.join(str(error).split())}"
        raise ValueError(msg) from error
    return parsed


def _find(path: str) -> Any:
    """Finds a class by its name.

    Raises:
        ValueError: there is none; or it is no part of an attack: a foreign file must not call
            arbitrary code.
    """
    module, _, name = path.rpartition(".")
    found = None
    for home in [module] if module else HOMES:
        try:
            found = getattr(import_module(home), name, None)
        except ImportError:
            continue
        if found is not None:
            break
    if found is None:
        where = module or ", ".join(HOMES)
        msg = f"got class_path {path!r}, which is not in {where}, expected a class there"
        raise ValueError(msg)
    ours = getattr(found, "__module__", "").split(".")[0] == "attacks"
    if not inspect.isclass(found) or not (ours or any(hasattr(found, one) for one in _METHODS)):
        msg = f"got class_path {path!r}, expected a class with {' or '.join(_METHODS)}"
        raise ValueError(msg)
    return found
