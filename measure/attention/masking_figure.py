"""The picture of the units that an adversary masks, by layer and by task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from measure.charts import STYLE, aslant, boxes, drawing, plain_label, points
from text.plural import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class MaskedShares:
    """The shares of units that an adversary masks on a task.

    Attributes:
        name: name of the task or run, in the legend.
        shares: `[S, L]` share (0 to 1) of the masked units for each run (seed) and layer; at least
            one run, all with equally many layers.
    """

    name: str
    shares: Sequence[Sequence[float]]


def masking_proportions(
    tasks: Sequence[MaskedShares], path: Path | None = None, *, title: str = ""
) -> "Figure":
    """Draw Figure 5 of Wu et al. (2023): masked units (a) in each layer and (b) on each task.

    Lines and bars are means over the runs, with their standard deviation if there are several. The
    returned figure is for TensorBoard.

    Raises:
        ValueError: nothing to draw, or runs of a task with different numbers of layers.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    _check(tasks)
    width, height = STYLE["figure.figsize"]
    with drawing(path, size=(2.1 * width, height)) as figure:
        lines, bars = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        bars.set_axisbelow(True)
        bars.grid(visible=False, axis="x")
        for i, task in enumerate(tasks):
            shares = 100 * np.asarray(task.shares, dtype=np.float64)  # [S, L]
            several = len(shares) > 1
            lines.errorbar(
                np.arange(1, shares.shape[1] + 1),
                shares.mean(axis=0),
                # Over seeds; a single one has no deviation.
                yerr=shares.std(axis=0, ddof=1) if several else None,
                **points(i, task.name),
            )
            means = shares.mean(axis=1)  # [S]
            std = means.std(ddof=1) if several else None
            bars.bar(i, means.mean(), 0.7, yerr=std, capsize=3, **boxes(i))
        lines.set(xlabel="layer", ylabel="masked units", title="(a) between layers")
        lines.set_ylim(bottom=0.0)
        lines.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        lines.yaxis.set_major_formatter(PercentFormatter())
        # Outside of the panels: inside it would cover lines near the top.
        figure.legend(*lines.get_legend_handles_labels(), loc="outside right upper")
        bars.set(title="(b) between tasks, mean of the layers")
        bars.set_xticks(range(len(tasks)), [plain_label(task.name) for task in tasks])
        aslant(bars, [task.name for task in tasks])
        figure.suptitle(plain_label(title))
    return figure


def _check(tasks: Sequence[MaskedShares]) -> None:
    if not tasks:
        msg = "got no tasks to draw, expected at least one"
        raise ValueError(msg)
    for task in tasks:
        layers = [len(run) for run in task.shares]
        if len(set(layers)) != 1 or layers[0] == 0:
            msg = (
                f"got {task.name!r} with {plural(len(layers), 'run')} of {layers} layers, "
                "expected at least one run, and in each as many layers, at least one"
            )
            raise ValueError(msg)
