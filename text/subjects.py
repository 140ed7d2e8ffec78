"""Comparison of two subjects: of what stored records are about, and of what is asked for now.

A subject is a plain dictionary of all that an outcome depends on: weights, data, resources,
settings. Two outcomes with equal subjects are interchangeable. This is the only place that
compares them.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

Subject = Mapping[str, Any]

_NAMED = 4
"""Differences that a message names."""


class Difference(NamedTuple):
    """An entry in which two subjects differ; an absent entry is None.

    Attributes:
        name: its name.
        before: its stored value.
        now: its value now.
    """

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        if isinstance(self.before, Mapping) and isinstance(self.now, Mapping):
            # Only the entries that differ: the beginnings of both may be the same.
            before, now = flat(self.before, self.name), flat(self.now, self.name)
            return joined(differences(before, now))
        return f"{self.name} {shortened(self.before)} -> {shortened(self.now)}"


def as_stored(subject: Subject) -> dict[str, Any]:
    """Return a subject as it is read from JSON: a tuple is a list, a path a string."""
    content: dict[str, Any] = json.loads(json.dumps(subject, default=str))
    return content


def differences(
    before: Subject, now: Subject, *, only: Collection[str] | None = None
) -> list[Difference]:
    """Return the differences between two subjects.

    Args:
        before: the stored subject.
        now: the present one.
        only: names to compare; all if None.
    """
    before, now = as_stored(before), as_stored(now)
    return [
        Difference(name, before.get(name), now.get(name))
        for name in {**before, **now}
        if before.get(name) != now.get(name) and (only is None or name in only)
    ]


def joined(changes: Sequence[Difference]) -> str:
    """Return some differences for a message, and the number of the others."""
    more = f" and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    return ", ".join(map(str, changes[:_NAMED])) + more


def shortened(value: Any) -> str:
    """Return a value as JSON of at most 48 characters."""
    content = json.dumps(value, default=str)
    return content if len(content) <= 48 else f"{content[:45]}..."


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested settings as a flat dictionary with dotted names."""
    if not isinstance(tree, Mapping) or not tree:
        return {prefix: tree}
    values: dict[str, Any] = {}
    for key, value in tree.items():
        values |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return values
