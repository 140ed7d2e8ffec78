"""Settings of weights that are kept unitary."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from layers.unitary import METHODS
from text import check_choice, check_range

if TYPE_CHECKING:
    from pytorch_lightning import Callback

    from lit_modules.shared.unitary_projection import UnitaryProjection


@dataclass(frozen=True, kw_only=True)
class Unitary:
    """The settings of weights that are kept unitary.

    Attributes:
        method: qr: the paper's factor; polar: the nearest unitary matrix (ours); none: no weight is
            projected.
        weights: regular expressions of names of weights; null: query, key, value and attention
            output of every layer.
        every_n_steps: project after every n-th step; also before each validation and at the end of
            each epoch, so that all evaluated and stored weights are unitary.
        gradual_steps: number of steps over which the distance to unitary weights is closed in equal
            parts; 0: project at once before the first step (ours).
    """

    method: Literal["none", "qr", "polar"] = "qr"
    weights: list[str] | None = None
    every_n_steps: int = 1
    gradual_steps: int = 0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_choice("unitary.method", self.method, ("none", *METHODS))
        check_range({"unitary.every_n_steps": self.every_n_steps}, least=1)
        check_range({"unitary.gradual_steps": self.gradual_steps}, least=0)
        if self.gradual_steps and self.every_n_steps > 1:
            msg = (
                f"got unitary.every_n_steps={self.every_n_steps} beside unitary.gradual_steps="
                f"{self.gradual_steps}, expected 1: every step closes a part of the distance"
            )
            raise ValueError(msg)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        names = ("weights", "every_n_steps", "gradual_steps") if self.method == "none" else ()
        return dict.fromkeys(names, "unitary.method=none")


class UnitaryWeights:
    """A part of modules whose weights may be kept unitary; it comes before the base module."""

    unitary: Unitary

    @cached_property
    def projection(self) -> "UnitaryProjection | None":
        """The callback that projects the weights; None for the method none."""
        from lit_modules.shared.unitary_projection import UnitaryProjection

        return None if self.unitary.method == "none" else UnitaryProjection(self.unitary)

    def configure_callbacks(self) -> list["Callback"]:
        """Return the projection, which is part of the method."""
        return [] if self.projection is None else [self.projection]
