"""Comparison of two subjects: of what stored records are about, and of what is asked for now.

A subject is a plain dictionary of all that an outcome depends on: weights, data, resources,
settings. Two outcomes with equal subjects are interchangeable.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Subject = Mapping[str, Any]

_NAMED = 4
"""Differences that a message names."""


def as_stored(subject: Subject) -> dict[str, Any]:
    """Return a subject as it is read from JSON: tuples are lists there."""
    content: dict[str, Any] = json.loads(json.dumps(subject))
    return content


def differences(before: Subject, now: Subject) -> list[str]:
    """Return the differences between two subjects, as `name before -> now`."""
    return [
        f"{key} {shortened(before.get(key))} -> {shortened(now.get(key))}"
        for key in {**before, **now}
        if before.get(key) != now.get(key)
    ]


def joined(changes: Sequence[str]) -> str:
    """Return some differences for a message, and the number of the others."""
    more = f" and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    return ", ".join(changes[:_NAMED]) + more


def shortened(value: Any) -> str:
    """Return a value as JSON of at most 48 characters."""
    content = json.dumps(value, default=str)
    return content if len(content) <= 48 else f"{content[:45]}..."
