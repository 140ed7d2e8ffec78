"""The learning rate over a run: warm-up, then decay."""

import math
from collections.abc import Callable
from typing import Literal

Decay = Literal["none", "linear", "cosine", "inverse_sqrt"]


def learning_rate_factor(total: int, *, warmup: float, decay: Decay) -> Callable[[int], float]:
    """Return the factor of the learning rate as a function of completed steps, for `LambdaLR`.

    Args:
        total: optimiser steps of the full run; 0 for a run without end, whose factor stays at 1.
        warmup: steps over which the factor rises from almost 0 to 1: their share of all, 0 ... 1,
            or, above 1, their number. A run of fewer steps ends during the warm-up.
        decay: shape of the decrease to 0 over the rest. inverse_sqrt: of Vaswani et al., 2017, with
            w steps of warm-up min(t / w, sqrt(w / t)) at step t = 1, 2, ..., without an end.

    Raises:
        ValueError: `warmup` is neither.
    """
    if not (0 <= warmup <= 1 or (warmup > 1 and float(warmup).is_integer())):
        msg = (
            f"got optimisation.warmup={warmup}, expected the share of all steps, 0 ... 1, or "
            "their number, a whole number above 1"
        )
        raise ValueError(msg)

    rise = warmup if warmup > 1 else warmup * total

    # A function, not an object: a scheduler's state would store an object's settings, and a run
    # that is extended would keep its old length.
    def factor(step: int) -> float:
        if decay == "inverse_sqrt":
            peak = max(rise, 1.0)
            return float(min((step + 1) / peak, (peak / (step + 1)) ** 0.5))
        if total == 0:
            return min(1.0, (step + 1) / (rise + 1))
        share = min(1.0, warmup / total) if warmup > 1 else warmup
        done = min(1.0, step / total)
        if done < share:
            return (step + 1) / (rise + 1)
        remaining = (1 - done) / (1 - share) if share < 1 else 1.0
        if decay == "linear":
            return remaining
        return 0.5 * (1 - math.cos(math.pi * remaining)) if decay == "cosine" else 1.0

    return factor
