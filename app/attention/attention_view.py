"""Selects what the figure shows: layers and heads, and their greatest changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from app.attention.attention_maps import Attention

MEAN = "mean"
"""Label of the mean over all heads."""
UNMOVED = 0.005
"""Changes of attention weights below this are not worth a line."""
_ROUNDING = 1e-6
"""Two passes in single precision may differ by as much where nothing is masked."""


@dataclass(frozen=True)
class View:
    """A row of the figure.

    Attributes:
        layer: counted from 1, as in the paper.
        head: counted from 1; None for the mean of all.
    """

    layer: int
    head: int | None

    @property
    def label(self) -> str:
        """For people."""
        return f"layer {self.layer}, " + (
            "mean of heads" if self.head is None else f"head {self.head}"
        )


def views(
    models: Sequence[Attention], layers: Sequence[int], heads: Sequence[int | None]
) -> list[View]:
    """The rows of the figure: each layer with each head.

    Args:
        models: which all have to have them.
        layers: counted from 1; the first and the last of the first model if there are none.
        heads: counted from 1; None for the mean of all.

    Raises:
        ValueError: a model has no such layer or head.
    """
    first = models[0]
    chosen = list(dict.fromkeys(layers or (1, first.layers)))
    for model in models:
        for option, numbers, count in (
            ("--layers", chosen, model.layers),
            ("--heads", [head for head in heads if head is not None], model.heads),
        ):
            if absent := [number for number in numbers if not 1 <= number <= count]:
                msg = f"got {option} {absent[0]} for {model.checkpoint}, expected 1 to {count}"
                raise ValueError(msg)
    return [View(layer, head) for layer in chosen for head in dict.fromkeys(heads)]


def change(model: Attention, view: View) -> Tensor | None:
    """`[N, N]`: what an adversary adds to each attention weight; None where there is none.

    What may come from rounding alone is 0.
    """
    before = model.map(view.layer, view.head)
    after = model.map(view.layer, view.head, attacked=True)
    if before is None or after is None:
        return None
    added = after - before
    return added.masked_fill(added.abs() < _ROUNDING, 0.0)


@dataclass(frozen=True)
class Diversion:
    """One change, by an adversary, of the attention of one token to another.

    Attributes:
        query: position of the token that attends.
        key: position of the token that it attends to.
        before: attention weight without the adversary.
        after: and with it.
        masked: the share of the heads for which the adversary masks the unit.
    """

    query: int
    key: int
    before: float
    after: float
    masked: float


def diversions(model: Attention, view: View, *, most: int = 5) -> list[Diversion]:
    """The greatest changes of attention weights, the greatest first.

    Args:
        model: with an adversary; none are found without.
        view: where.
        most: how many at most.
    """
    before = model.map(view.layer, view.head)
    after = model.map(view.layer, view.head, attacked=True)
    mask, added = model.mask(view.layer, view.head), change(model, view)
    if before is None or after is None or mask is None or added is None:
        return []
    moved = added.abs().flatten()
    # Stable, so that of equal changes the first in the text comes first on any machine.
    order = moved.argsort(descending=True, stable=True)[:most].tolist()
    found = []
    for place in order:
        if moved[place] < UNMOVED:
            break
        query, key = divmod(place, len(before))
        unit = (query, key)
        found.append(
            Diversion(query, key, float(before[unit]), float(after[unit]), float(mask[unit]))
        )
    return found
