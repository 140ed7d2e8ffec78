"""Counts with their nouns, as messages and tables name them."""


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 word`, `2 words`, `1 query`, `2 queries`."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else many}"
