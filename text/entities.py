"""Entities of tagged words."""

from collections.abc import Iterable


def entities(tags: Iterable[str]) -> set[tuple[str, int, int]]:
    """Return type, first word and end (exclusive) of each entity of a sentence."""
    result: set[tuple[str, int, int]] = set()
    kind, start, end = "", 0, -1
    for end, tag in enumerate([*tags, "O"]):  # a last O ends an open entity
        mark, _, of = tag.partition("-")
        continues = mark == "I" and of == kind
        if kind and not continues:
            result.add((kind, start, end))
            kind = ""
        if mark in ("B", "I") and not continues:
            kind, start = of, end
    return result
