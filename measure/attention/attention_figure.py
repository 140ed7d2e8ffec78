"""The picture of attention maps: with and without an adversary, and the masked units."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from measure.attention.attention_maps import AttentionMaps
from measure.attention.attention_view import View, added_attention, diversions
from measure.charts import drawing
from run_files.terminal import harmless

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOKENS = 40
"""Tokens that are drawn: more would not be readable."""
MASKED = "#D55E00"
"""Colour of masked units: an orange-red that colour-blind readers can tell from blue."""
_UNMASKED, _HALF = "#F1F1F1", "#F0C4A1"
_CELL = 0.3
_PANEL = (2.4, 5.6)
"""Inches: the row of a token, and the smallest and the largest side of a map."""
_POINTS = 72.0
"""Points per inch."""
_FRAME = 1.4
"""Width in points of the line around a changed unit."""
_CROSSED = 24
"""Largest number of tokens with space for a cross in a masked unit."""


@dataclass(frozen=True)
class _Column:
    model: AttentionMaps
    kind: Literal["plain", "attacked", "change", "masked"]
    title: str

    def weights(self, view: View) -> Tensor:
        return _cut(self.model.map(view.layer, view.head, attacked=self.kind == "attacked"))

    def mask(self, view: View) -> Tensor:
        return _cut(self.model.mask(view.layer, view.head))


def _cut(values: Tensor | None) -> Tensor:
    assert values is not None  # _columns
    return values[:TOKENS, :TOKENS]


def draw(
    models: Sequence[AttentionMaps],
    views: Sequence[View],
    path: Path | None = None,
    *,
    text: str,
    description: str | None = None,
) -> "Figure":
    """Draw the attention maps of a text: a row for each view, columns for the compared maps.

    Columns of each of the one or two models: the map without the adversary and, if it has one, the
    map with it, the difference of the two, and the masked units. All maps of a row have the same
    scale of colours; each difference has its own, with its end in the title. `path` is the PNG to
    write, if any; the returned figure is for TensorBoard.
    """
    columns = [column for model in models for column in _columns(model, alone=len(models) == 1)]
    length = len(models[0].tokens)
    side = min(max(_CELL * min(length, TOKENS), _PANEL[0]), _PANEL[1])
    style = {"axes.grid": False, "axes.spines.right": True, "axes.spines.top": True}
    # Names of tokens below each map; 0.8 % of an inch for each of their points and characters.
    below = 0.008 * _points(side, length) * max(map(len, models[0].tokens[:TOKENS]))
    size = (
        (side + 0.3) * len(columns) + 2.4,
        (side + below + 0.55) * len(views) + 1.3 + 0.2 * len(models),
    )
    with drawing(path, description, size=size, layout="compressed", style=style) as figure:
        table = figure.subplots(len(views), len(columns), squeeze=False)
        # Rows are views, columns are kinds of maps.
        for row, view in zip(table, views, strict=True):
            _row(list(row), columns, view, side=side)
        for axes, column in zip(table[0], columns, strict=True):
            axes.set_title("\n".join(filter(None, [column.title, axes.get_title()])), fontsize=11)
        for axes in table[-1]:
            axes.set_xlabel("token attended to (key)", fontsize=10)
        if any(model.attacked is not None for model in models):
            _legend(figure)
        figure.suptitle(_title(text, models, width=size[0]), fontsize=12)
    return figure


def _columns(model: AttentionMaps, *, alone: bool) -> list[_Column]:
    name = "" if alone else f"{harmless(model.name)}\n"
    if model.attacked is None:
        return [_Column(model, "plain", f"{name}attention")]
    return [
        _Column(model, "plain", f"{name}without the adversary"),
        _Column(model, "attacked", f"{name}with the adversary"),
        _Column(model, "change", f"{name}what it adds"),
        _Column(model, "masked", f"{name}what it masks{', drawn' if model.drawn else ''}"),
    ]


def _title(text: str, models: Sequence[AttentionMaps], *, width: float) -> str:
    """Return the title on at most two lines; an inch has about nine characters."""
    name = f"{models[0].name}: " if len(models) == 1 else ""
    line = int(9 * width)
    title = textwrap.shorten(harmless(f"{name}“{text}”"), 2 * line - 10, placeholder=" …")
    length = len(models[0].tokens)
    note = f"\nthe first {TOKENS} of {length} tokens" if length > TOKENS else ""
    return textwrap.fill(title, line) + note


def _row(row: "Sequence[Axes]", columns: Sequence[_Column], view: View, *, side: float) -> None:
    """Draw the maps of a view, and the bar of their colours."""
    from matplotlib.colors import PowerNorm

    greatest = max(float(column.weights(view).max()) for column in columns)
    # A few weights are near 1 and most near 0: their square roots make both visible.
    scale: dict[str, Any] = {"cmap": "Blues", "norm": PowerNorm(0.5, 0.0, greatest)}
    image = None
    for axes, column in zip(row, columns, strict=True):
        if column.kind == "masked":
            _masked(axes, column, view)
        elif column.kind == "change":
            _change(axes, column, view)
        else:
            image = axes.imshow(column.weights(view).numpy(), **scale)
            if column.kind == "attacked":
                _crosses(axes, column, view, side=side)
        _boxes(axes, column.model, view)
        _ticks(axes, column.model.tokens[:TOKENS], side=side, named=axes is row[0])
    row[0].set_ylabel(f"{view.label}\n\ntoken that attends (query)", fontsize=10)
    assert image is not None  # each model has a plain map
    figure = row[0].get_figure(root=True)
    assert figure is not None  # draw
    bar = figure.colorbar(image, ax=list(row), shrink=0.9, aspect=25, pad=0.01)
    bar.set_label("attention weight, square-root scale", fontsize=9)
    bar.ax.tick_params(labelsize=8)


def _change(axes: "Axes", column: _Column, view: View) -> None:
    """Draw the change of each weight by the adversary, on a scale of the greatest change."""
    added = _cut(added_attention(column.model, view))
    most = float(added.abs().max())
    # Symmetric around 0, so that white is no change; `or 1.0` where nothing changes.
    axes.imshow(added.numpy(), cmap="PuOr", vmin=-(most or 1.0), vmax=most or 1.0)
    axes.set_title(f"colours from -{most:.2g} to {most:.2g}" if most else "no change", fontsize=11)


def _masked(axes: "Axes", column: _Column, view: View) -> None:
    """Draw the masked units; others are darker the more often they are masked in training."""
    from matplotlib.colors import LinearSegmentedColormap

    mask, chance = column.mask(view), _cut(column.model.chance(view.layer, view.head))
    # A unit is masked above a chance of one half: unmasked ones have at most half the colour.
    shade = mask + (1 - mask) * chance.clamp(max=0.5)
    colours = LinearSegmentedColormap.from_list("masked", [_UNMASKED, MASKED])
    axes.imshow(shade.numpy(), cmap=colours, vmin=0.0, vmax=1.0)
    share, drawn = float(mask.mean()), float(chance.mean())
    often = "" if torch.equal(mask, chance) else f", {drawn:.1%} while training"
    axes.set_title(f"{share:.1%} masked{often}", fontsize=11)


def _crosses(axes: "Axes", column: _Column, view: View, *, side: float) -> None:
    """Tint the masked units, and cross those that are masked for all heads."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    mask = column.mask(view)
    crossed = len(mask) <= _CROSSED
    full = (*to_rgb(MASKED), 0.3 if crossed else 0.5)
    tint = LinearSegmentedColormap.from_list("tint", [(*to_rgb(MASKED), 0.0), full])
    axes.imshow(mask.numpy(), cmap=tint, vmin=0.0, vmax=1.0)
    if crossed:
        # A share of 1: masked for all heads.
        queries, keys = (mask == 1).nonzero(as_tuple=True)
        area = (0.35 * _POINTS * side / len(mask)) ** 2
        axes.scatter(keys.tolist(), queries.tolist(), s=area, marker="x", color=MASKED, lw=1.0)


def _boxes(axes: "Axes", model: AttentionMaps, view: View) -> None:
    """Frame the units of the greatest diversions, as in the paper's Figure 1."""
    from matplotlib.patches import Rectangle

    for diversion in diversions(model, view):
        if max(diversion.query, diversion.key) < TOKENS:
            # Keys are columns, queries are rows.
            corner = (diversion.key - 0.5, diversion.query - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="black", linewidth=_FRAME))


def _legend(figure: "Figure") -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=MASKED, label="masked by the adversary"),
        Patch(facecolor=_HALF, label="kept, but at times masked while training"),
        Patch(facecolor="white", edgecolor="black", linewidth=_FRAME, label="changed most"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=10)


def _points(side: float, tokens: int) -> float:
    """Return the size of the names of tokens."""
    return min(9.0, max(5.0, 0.7 * _POINTS * side / min(tokens, TOKENS)))


def _ticks(axes: "Axes", tokens: Sequence[str], *, side: float, named: bool) -> None:
    points = _points(side, len(tokens))
    # A text may hold control characters.
    labels = [harmless(token) for token in tokens]
    axes.set_xticks(range(len(tokens)), labels, rotation=90, fontsize=points)
    axes.set_yticks(range(len(tokens)), labels if named else [], fontsize=points)
    axes.tick_params(length=2)
