"""The learning rate over a run: warm-up, then decay."""

import math
from collections.abc import Callable
from typing import Literal

Decay = Literal["none", "linear", "cosine"]


def learning_rate_factor(total: int, *, warmup: float, decay: Decay) -> Callable[[int], float]:
    """The factor of the learning rate as a function of the optimiser steps done; for `LambdaLR`.

    A function and not an object: a scheduler's state would keep an object's settings, and a run
    that is made longer would go on with the old length.

    Args:
        total: optimiser steps of the whole run; 0 for a run without end, whose factor is 1.
        warmup: share of them over which the factor rises from almost 0 to 1.
        decay: shape of its way back to 0 over the rest.

    Raises:
        ValueError: `warmup` is no share.
    """
    if not 0 <= warmup <= 1:
        msg = f"got warmup={warmup}, expected the share of all steps, 0 ... 1"
        raise ValueError(msg)

    def factor(step: int) -> float:
        if total == 0:
            return 1.0
        done = min(1.0, step / total)
        if done < warmup:
            return (step + 1) / (warmup * total + 1)
        left = (1 - done) / (1 - warmup) if warmup < 1 else 1.0
        if decay == "linear":
            return left
        return 0.5 * (1 - math.cos(math.pi * left)) if decay == "cosine" else 1.0

    return factor
