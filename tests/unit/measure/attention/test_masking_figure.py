from pathlib import Path

import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from measure.attention.masking_figure import MaskedShares, masking_proportions
from measure.charts import pixels

TASKS = [
    MaskedShares(name="_sst2", shares=[[0.1, 0.05], [0.2, 0.05]]),
    MaskedShares(name="tags $x$", shares=[[0.3, 0.1]]),
]


@pytest.mark.long
def test_masking_proportions(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    figure = masking_proportions(TASKS, path, title="both")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert pixels(figure).shape == (600, 2016, 4)
    masking_proportions(TASKS, path, title="both")
    assert path.read_bytes() == content
    lines, bars = figure.axes
    # In per cent: means over the runs by layer, and of these over the layers.
    drawn = [list(one.get_ydata()) for one in lines.get_lines() if len(one.get_xdata()) == 2]  # type: ignore[arg-type] # its arrays
    assert pytest.approx([15.0, 5.0]) in drawn
    assert pytest.approx([30.0, 10.0]) in drawn
    found = [patch for patch in bars.patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() for bar in found] == pytest.approx([10.0, 20.0])
    assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in found}) == 2
    # One task has two runs, and so a spread: mean ± 5 √2 in layer 1, ± 2.5 √2 over the layers.
    (whiskers,) = (one for one in bars.collections if isinstance(one, LineCollection))
    ends = [sorted(y for _, y in segment.tolist()) for segment in whiskers.get_segments()]
    assert ends[0] == pytest.approx([10 - 2.5 * 2**0.5, 10 + 2.5 * 2**0.5])
    (legend,) = figure.legends  # of the figure, beside both: it lies over no line
    assert [text.get_text().lstrip("\u200b") for text in legend.get_texts()] == [
        "_sst2",
        "tags $x$",
    ]
    assert lines.get_ylim()[0] == 0
    assert all(float(tick).is_integer() for tick in lines.get_xticks())


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "got no tasks"),
        ([MaskedShares(name="a", shares=[])], "'a' with 0 runs of"),
        ([MaskedShares(name="a", shares=[[]])], "'a' with 1 run of"),
        ([MaskedShares(name="a", shares=[[0.1], [0.1, 0.2]])], "2 runs of .* layers, expected"),
    ],
)
def test_no_masking_to_draw(tasks: list[MaskedShares], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        masking_proportions(tasks)
