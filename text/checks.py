"""Checks settings; a message names the first invalid setting and its valid values."""

import math
from collections.abc import Mapping, Sequence


def check_range(
    settings: Mapping[str, float | None],
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> None:
    """Raise ValueError for the first setting that is not finite or out of its range.

    Args:
        settings: values by name; None, of a setting that may be left out, is in every range.
        least: smallest value.
        above: all values are greater.
        most: greatest value.
        below: all values are smaller.
    """
    for name, value in settings.items():
        if value is None:
            continue
        sound = (
            math.isfinite(value)
            and (least is None or value >= least)
            and (above is None or value > above)
            and (most is None or value <= most)
            and (below is None or value < below)
        )
        if not sound:
            bounds = (("at least", least), ("more than", above), ("at most", most))
            limits = [
                f"{words} {bound:,}"
                for words, bound in (*bounds, ("less than", below))
                if bound is not None
            ]
            kind = "a whole number" if isinstance(value, int) else "a finite number"
            msg = f"got {name}={value}, expected {kind} of {' and '.join(limits)}"
            raise ValueError(msg if limits else f"got {name}={value}, expected {kind}")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ValueError unless a setting is one of its choices."""
    if value not in choices:
        msg = f"got {name}={value!r}, expected one of {', '.join(choices)}"
        raise ValueError(msg)
