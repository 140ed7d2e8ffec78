"""Selects the layers and heads of the figure, and their greatest changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from measure.attention.attention_maps import AttentionMaps

MEAN = "mean"
"""Label of the mean over all heads."""
UNMOVED = 0.005
"""Smallest change of an attention weight that is reported."""
_ROUNDING = 1e-6
"""Largest difference of two passes in single precision without any mask."""


@dataclass(frozen=True)
class View:
    """A row of the figure: a layer and a head, both from 1; None is the mean of all heads."""

    layer: int
    head: int | None

    @property
    def label(self) -> str:
        """Title of the row."""
        head = "mean of heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head}"


def views(
    models: Sequence[AttentionMaps], layers: Sequence[int], heads: Sequence[int | None]
) -> list[View]:
    """Return the rows of the figure: each layer with each head; a head of None is the mean of all.

    Without layers: the first and the last of the first model.

    Raises:
        ValueError: a model lacks a layer or head.
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


def added_attention(model: AttentionMaps, view: View) -> Tensor | None:
    """Return `[N, N]` changes of the attention weights by an adversary; None without one.

    Changes within rounding are 0.
    """
    before = model.map(view.layer, view.head)
    after = model.map(view.layer, view.head, attacked=True)
    if before is None or after is None:
        return None
    added = after - before  # [N, N]
    return added.masked_fill(added.abs() < _ROUNDING, 0.0)


@dataclass(frozen=True)
class Diversion:
    """The change of an attention weight, and the share of the heads that mask this unit."""

    query: int
    key: int
    before: float
    after: float
    masked: float


def diversions(model: AttentionMaps, view: View, *, most: int = 5) -> list[Diversion]:
    """Return the greatest changes of attention weights; without an adversary, none."""
    before = model.map(view.layer, view.head)
    after = model.map(view.layer, view.head, attacked=True)
    mask, added = model.mask(view.layer, view.head), added_attention(model, view)
    if before is None or after is None or mask is None or added is None:
        return []
    moved = added.abs().flatten()
    # Stable: of equal changes the first in the text comes first on any machine.
    order = moved.argsort(descending=True, stable=True)[:most].tolist()
    changes = []
    for index in order:
        if moved[index] < UNMOVED:
            break
        # Rows are queries: index = query N + key.
        unit = query, key = divmod(index, len(before))
        weights = float(before[unit]), float(after[unit])
        changes.append(Diversion(query, key, *weights, masked=float(mask[unit])))
    return changes
