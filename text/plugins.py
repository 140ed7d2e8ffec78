"""Methods, corpora, recipes and measurements of other installed packages, by entry points.

A package declares them in its `pyproject.toml`: examples/plugin, docs/python.md.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

log = logging.getLogger(__name__)

Group = Literal[
    "steadfast.methods", "steadfast.corpora", "steadfast.recipes", "steadfast.measurements"
]


@cache
def plugins(group: Group) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group, by name; of two with one name the first."""
    return {point.name: point for point in reversed([*entry_points(group=group)])}


def load_plugin(point: EntryPoint) -> Any:
    """Import the object of an entry point.

    Raises:
        ValueError: its package cannot be imported, or lacks the object.
    """
    try:
        return point.load()
    # Code of others may fail in any way.
    except Exception as error:
        package = "an unknown package" if point.dist is None else point.dist.name
        reason = (str(error) or type(error).__name__).splitlines()[0]
        msg = (
            f"got plug-in {point.name} of {package}, which cannot be imported ({reason}), expected "
            f"{point.value}: mend the package, or uninstall it"
        )
        raise ValueError(msg) from error


def load_classes(group: Group, known: Mapping[str, type], base: type) -> Iterator[tuple[str, type]]:
    """Yield names and classes of a group, derived from `base`; a faulty one is only a warning.

    A fault of one package must not stop commands that do not use it. No plug-in replaces one of our
    own classes, `known`.
    """
    for name, point in plugins(group).items():
        try:
            if name in known:
                msg = f"got plug-in {name}, the name of one of our own, expected another name"
                raise ValueError(msg)
            loaded = load_plugin(point)
            if not (isinstance(loaded, type) and issubclass(loaded, base)) or (
                loaded.__name__ != name
            ):
                msg = (
                    f"got plug-in {name}, which is {point.value}, expected a {base.__name__} of "
                    "this name"
                )
                raise ValueError(msg)
        except ValueError as error:
            log.warning("%s", error)
        else:
            yield name, loaded
