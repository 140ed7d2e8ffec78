"""The picture of attention maps: with and without an adversary, and what it masks."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from app.attention.attention_maps import Attention
from app.attention.attention_view import View, change, diversions
from app.cli.terminal import harmless
from app.figures.charts import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOKENS = 40
"""More of a text would not be readable."""
MASKED = "#D55E00"
"""Colour of what is masked: an orange-red that no kind of eyes takes for blue."""
_KEPT, _HALF = "#F1F1F1", "#F0C4A1"
_CELL = 0.3
_PANEL = (2.4, 5.6)
"""Inches: of a token's row, and the least and the most of a whole map."""
_POINTS = 72.0
"""To the inch."""
_FRAME = 1.4
"""Points: the line around a unit that changed."""
_CROSSED = 24
"""Tokens up to which there is room for a cross in a masked unit."""


@dataclass(frozen=True)
class _Column:
    model: Attention
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
    models: Sequence[Attention],
    views: Sequence[View],
    path: Path | None = None,
    *,
    text: str,
    about: str | None = None,
) -> "Figure":
    """Attention maps of a text as a table: a row for each view; columns for what is compared.

    Of each model: the map without the adversary and, where it has one, the map with it, the
    difference of the two, and the units that it masks. All maps of a row have the same scale of
    colours; each difference has its own, whose end stands above it.

    Args:
        models: one, or two to compare.
        views: at least one, which the models have.
        path: the PNG to write, if any; wholly or not at all.
        text: above the figure.
        about: description in the file.

    Returns:
        The figure, for TensorBoard.

    Raises:
        OSError: the file cannot be written.
    """
    columns = [column for model in models for column in _columns(model, alone=len(models) == 1)]
    length = len(models[0].tokens)
    side = min(max(_CELL * min(length, TOKENS), _PANEL[0]), _PANEL[1])
    style = {"axes.grid": False, "axes.spines.right": True, "axes.spines.top": True}
    # Names below each map, titles above; the figure's title and its legend.
    below = 0.008 * _points(side, length) * max(map(len, models[0].tokens[:TOKENS]))
    size = (
        (side + 0.3) * len(columns) + 2.4,
        (side + below + 0.55) * len(views) + 1.3 + 0.2 * len(models),
    )
    with drawing(path, about, size=size, layout="compressed", style=style) as figure:
        table = figure.subplots(len(views), len(columns), squeeze=False)
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


def _columns(model: Attention, *, alone: bool) -> list[_Column]:
    name = "" if alone else f"{harmless(model.name)}\n"
    if model.attacked is None:
        return [_Column(model, "plain", f"{name}attention")]
    return [
        _Column(model, "plain", f"{name}without the adversary"),
        _Column(model, "attacked", f"{name}with the adversary"),
        _Column(model, "change", f"{name}what it adds"),
        _Column(model, "masked", f"{name}what it masks{', drawn' if model.drawn else ''}"),
    ]


def _title(text: str, models: Sequence[Attention], *, width: float) -> str:
    """On two lines at most; about nine characters to an inch."""
    name = f"{models[0].name}: " if len(models) == 1 else ""
    line = int(9 * width)
    whole = textwrap.shorten(harmless(f"{name}“{text}”"), 2 * line - 10, placeholder=" …")
    length = len(models[0].tokens)
    note = f"\nthe first {TOKENS} of {length} tokens" if length > TOKENS else ""
    return textwrap.fill(whole, line) + note


def _row(row: "Sequence[Axes]", columns: Sequence[_Column], view: View, *, side: float) -> None:
    """The maps of a view, and beside them what their colours mean."""
    from matplotlib.colors import PowerNorm

    greatest = max(float(column.weights(view).max()) for column in columns)
    # A few weights are near 1 and most near 0: with their square roots both can be seen.
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
        _ticks(axes, column.model.tokens[:TOKENS], side=side, left=axes is row[0])
    row[0].set_ylabel(f"{view.label}\n\ntoken that attends (query)", fontsize=10)
    assert image is not None  # each model has a plain map
    figure = row[0].get_figure(root=True)
    assert figure is not None  # draw
    bar = figure.colorbar(image, ax=list(row), shrink=0.9, aspect=25, pad=0.01)
    bar.set_label("attention weight, square-root scale", fontsize=9)
    bar.ax.tick_params(labelsize=8)


def _change(axes: "Axes", column: _Column, view: View) -> None:
    """Draw what the adversary adds to each weight, on a scale of the greatest change."""
    added = _cut(change(column.model, view))
    most = float(added.abs().max())
    axes.imshow(added.numpy(), cmap="PuOr", vmin=-(most or 1.0), vmax=most or 1.0)
    axes.set_title(f"colours from -{most:.2g} to {most:.2g}" if most else "no change", fontsize=11)


def _masked(axes: "Axes", column: _Column, view: View) -> None:
    """The units that are masked, and the others the darker the nearer they are to it."""
    from matplotlib.colors import LinearSegmentedColormap

    mask, chance = column.mask(view), _cut(column.model.chance(view.layer, view.head))
    # A chance of one half is where a unit is masked; half the colour keeps the two kinds apart.
    shade = mask + (1 - mask) * chance.clamp(max=0.5)
    colours = LinearSegmentedColormap.from_list("masked", [_KEPT, MASKED])
    axes.imshow(shade.numpy(), cmap=colours, vmin=0.0, vmax=1.0)
    share, drawn = (float(one.mean()) for one in (mask, chance))
    often = "" if torch.equal(mask, chance) else f", {drawn:.1%} while training"
    axes.set_title(f"{share:.1%} masked{often}", fontsize=11)


def _crosses(axes: "Axes", column: _Column, view: View, *, side: float) -> None:
    """A tint over the units that are masked, and a cross in those that are for all heads."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    mask = column.mask(view)
    crossed = len(mask) <= _CROSSED
    full = (*to_rgb(MASKED), 0.3 if crossed else 0.5)
    tint = LinearSegmentedColormap.from_list("tint", [(*to_rgb(MASKED), 0.0), full])
    axes.imshow(mask.numpy(), cmap=tint, vmin=0.0, vmax=1.0)
    if crossed:
        queries, keys = (mask == 1).nonzero(as_tuple=True)
        area = (0.35 * _POINTS * side / len(mask)) ** 2
        axes.scatter(keys.tolist(), queries.tolist(), s=area, marker="x", color=MASKED, lw=1.0)


def _boxes(axes: "Axes", model: Attention, view: View) -> None:
    """A frame around each unit of the greatest diversions, as in the paper's Figure 1."""
    from matplotlib.patches import Rectangle

    for one in diversions(model, view):
        if max(one.query, one.key) < TOKENS:
            corner = (one.key - 0.5, one.query - 0.5)
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
    """Size of the names of tokens."""
    return min(9.0, max(5.0, 0.7 * _POINTS * side / min(tokens, TOKENS)))


def _ticks(axes: "Axes", tokens: Sequence[str], *, side: float, left: bool) -> None:
    points = _points(side, len(tokens))
    labels = [harmless(token) for token in tokens]
    axes.set_xticks(range(len(tokens)), labels, rotation=90, fontsize=points)
    axes.set_yticks(range(len(tokens)), labels if left else [], fontsize=points)
    axes.tick_params(length=2)
