"""The course of a weight of the objective over a run."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from text import check_choice, check_range

Shape = Literal["constant", "linear", "cosine", "step"]


@dataclass(frozen=True, kw_only=True)
class WeightSchedule:
    """A weight that rises from 0 to its final value, so that training begins with clean accuracy.

    Attributes:
        shape: constant: the final value in all steps; linear: in proportion to the steps; cosine:
            half a wave, slow at both ends; step: in equal jumps.
        ramp: share of all steps in which the weight rises; the rest has the final value.
        jumps: number of jumps of shape step, the last one at the end of the ramp.
    """

    shape: Shape = "constant"
    ramp: float = 1.0
    jumps: int = 4

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("schedule.shape", self.shape, get_args(Shape))
        check_range({"schedule.ramp": self.ramp}, least=0, most=1)
        check_range({"schedule.jumps": self.jumps}, least=1)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        if self.shape == "constant":
            return dict.fromkeys(("ramp", "jumps"), "a constant schedule")
        return {} if self.shape == "step" else {"jumps": f"a {self.shape} schedule"}

    @property
    def lasting(self) -> dict[str, str]:
        """Return the settings that need the length of the run, each with a value that does not."""
        return {"shape": "constant"} if self.shape != "constant" and self.ramp > 0 else {}

    def factor(self, progress: float) -> float:
        """Return the share of the final value after a share `progress` (0 ... 1) of the run."""
        if self.shape == "constant" or progress >= self.ramp:
            return 1.0
        share = progress / self.ramp
        if self.shape == "linear":
            return share
        if self.shape == "cosine":
            return (1 - math.cos(math.pi * share)) / 2
        return math.floor(share * self.jumps) / self.jumps


CONSTANT = WeightSchedule()
"""The final value in all steps."""
