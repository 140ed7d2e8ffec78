"""Agreement of raters: Krippendorff's alpha.

Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

Scale = Literal["nominal", "ordinal", "interval"]


def krippendorff(
    units: Sequence[Sequence[Hashable | None]], scale: Scale = "nominal"
) -> float | None:
    """Return Krippendorff's alpha: 1 for perfect agreement, 0 for that of chance.

    Args:
        units: for each unit the values that raters gave it; None for none. Units with fewer than
            two values say nothing about agreement, and are left out.
        scale: kind of the values; numbers but for `nominal`.

    Returns:
        Alpha; None where nothing could disagree: fewer than two units with two values, or one
        value throughout.
    """
    rated = [[value for value in unit if value is not None] for unit in units]
    rated = [unit for unit in rated if len(unit) > 1]
    totals: Counter[Any] = Counter(value for unit in rated for value in unit)
    count = totals.total()
    if len(rated) < 2 or len(totals) < 2:
        return None
    distance = _distance(scale, totals)
    # Krippendorff 2011: each unit counts its ordered pairs, by 1 / (values - 1).
    observed = sum(
        many * other_count * distance(a, b) / (len(unit) - 1)
        for unit in rated
        for a, many in Counter(unit).items()
        for b, other_count in Counter(unit).items()
    )
    expected = sum(
        many * other_total * distance(a, b)
        for a, many in totals.items()
        for b, other_total in totals.items()
    )
    return 1 - (count - 1) * observed / expected


def _distance(scale: Scale, totals: Counter[Any]) -> Callable[[Any, Any], float]:
    """Return the squared difference of two values."""
    if scale == "nominal":
        return lambda a, b: float(a != b)
    if scale == "interval":
        return lambda a, b: float(a - b) ** 2
    order = sorted(totals)

    def ordinal(a: Any, b: Any) -> float:
        low, high = sorted((a, b))
        # Ranks: half of both ends, and all between.
        between = sum(totals[value] for value in order if low <= value <= high)
        return 0.0 if a == b else float(between - (totals[a] + totals[b]) / 2) ** 2

    return ordinal
