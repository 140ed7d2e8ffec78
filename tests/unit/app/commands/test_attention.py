from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from matplotlib.patches import Rectangle

from lit_modules import TextClassifier
from measure.attention.attention_figure import TOKENS, draw
from measure.attention.attention_report import report
from measure.attention.attention_view import Diversion, View, added_attention, diversions, views
from measure.charts import pixels
from tests.run_command import run_command
from tests.unit.measure.attention.attention_models import asa, made, saved

main = partial(run_command, "attention")

WORDS = ["[CLS]", "a", "film", "[SEP]"]
BOTH = [View(1, None), View(2, 2)]


def test_what_changed_most() -> None:
    model = made(WORDS)
    # The second head masks the first token: its 1/4 goes to the others, which have 1/3 then.
    assert diversions(model, View(1, 1)) == []
    found = diversions(model, View(1, 2), most=4)
    assert found == [Diversion(query, 0, 0.25, 0.0, 1.0) for query in range(4)]
    (first, *_), every = found, diversions(model, View(1, None), most=100)
    assert every[0] == replace(first, after=0.125, masked=0.5)
    assert every[4].after == pytest.approx((0.25 + 1 / 3) / 2)
    assert every[4].masked == 0
    assert len(every) == 16
    assert diversions(model, View(2, None)) == []
    assert diversions(made(WORDS, adversary=False), View(1, 2)) == []


def test_rounding_is_no_change() -> None:
    model = made(WORDS)
    assert model.attacked is not None
    for size, expected in ((1e-8, 0.0), (1e-4, 1e-4)):
        maps = [model.plain.maps[0], model.plain.maps[1] + size]
        found = added_attention(
            replace(model, attacked=replace(model.attacked, maps=maps)), View(2, 1)
        )
        assert found is not None
        assert found.flatten().tolist() == pytest.approx([expected] * 16, rel=1e-3)


def test_views() -> None:
    model = made(WORDS)
    assert views([model], [], [None]) == [View(1, None), View(2, None)]
    assert views([model], [2, 2], [2, None, 2]) == [View(2, 2), View(2, None)]
    assert View(11, 2).label == "layer 11, head 2"
    with pytest.raises(ValueError, match=r"got --layers 3 for a.ckpt, expected 1 to 2"):
        views([model], [1, 3], [None])
    with pytest.raises(ValueError, match=r"got --layers 0 for"):
        views([model], [0], [None])
    with pytest.raises(ValueError, match=r"got --heads 3 for a.ckpt, expected 1 to 2"):
        views([model], [], [None, 3])
    short = replace(model, plain=replace(model.plain, maps=model.plain.maps[:1]))
    with pytest.raises(ValueError, match=r"got --layers 2 for a.ckpt, expected 1 to 1"):
        views([model, replace(short, checkpoint=Path("a.ckpt"))], [], [None])


@pytest.mark.slow
def test_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.png"
    figure = draw([made(WORDS)], BOTH, path, text="a film")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    draw([made(WORDS)], BOTH, path, text="a film")
    assert path.read_bytes() == content
    table = figure.axes[:8]
    titles = [axes.get_title() for axes in table]
    assert titles == [
        "without the adversary",
        "with the adversary",
        "what it adds\ncolours from -0.12 to 0.12",
        "what it masks\n12.5% masked",
        "",
        "",
        "no change",
        "0.0% masked, 25.0% while training",
    ]
    assert table[0].get_ylabel().startswith("layer 1, mean of heads")
    assert table[4].get_ylabel().startswith("layer 2, head 2")
    for axes in table:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == WORDS
    assert [tick.get_text() for tick in table[0].get_yticklabels()] == WORDS
    # One scale for both maps of a layer, and what is masked on one of its own.
    plain, attacked, added, masked = (axes.get_images()[0] for axes in table[:4])
    # The difference has a scale of its own, which its greatest value fills.
    assert added.get_clim() == (-0.125, 0.125)
    shown = torch.as_tensor(added.get_array())
    assert shown[:, 0].tolist() == pytest.approx([-0.125] * 4)
    assert shown[:, 1:].flatten().tolist() == pytest.approx([1 / 24] * 12)
    assert plain.get_clim() == attacked.get_clim()
    assert plain.get_clim() == pytest.approx((0.0, (0.25 + 1 / 3) / 2))
    assert masked.get_clim() == (0.0, 1.0)
    shade = torch.as_tensor(masked.get_array())
    # Masked for one of two heads.
    assert shade[:, 0].tolist() == pytest.approx([0.75] * 4)
    assert not shade[:, 1:].any()
    # What changed most is framed in all four.
    frames = [[one for one in axes.patches if isinstance(one, Rectangle)] for axes in table]
    assert [len(one) for one in frames] == [5, 5, 5, 5, 0, 0, 0, 0]
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 3


def test_a_cross_in_each_masked_unit() -> None:
    figure = draw([made(WORDS)], [View(1, 2)], text="a film")
    attacked = figure.axes[1]
    (crosses,) = [one for one in attacked.collections if len(one.get_offsets())]  # type: ignore[arg-type] # its array
    assert sorted(map(tuple, torch.as_tensor(crosses.get_offsets()).tolist())) == [
        (0.0, float(query)) for query in range(4)
    ]


@pytest.mark.long
def test_two_models_side_by_side() -> None:
    models = [made(WORDS, name="asa"), made(WORDS, adversary=False, name="plain $x$")]
    figure = draw(models, BOTH[:1], text="a film")
    titles = [axes.get_title() for axes in figure.axes[:5]]
    assert titles[0] == "asa\nwithout the adversary"
    assert titles[4] == "plain $x$\nattention"
    alone = draw(models[1:], BOTH[:1], text="a film")
    assert alone.axes[0].get_title() == "attention"
    assert not alone.legends


@pytest.mark.slow
def test_any_token_is_drawn() -> None:
    # One row has all that shows a token: both axes and the title. Drawing it is what can fail.
    tokens = ["$x_", "_a", "模型", "\x1b[31m", "100%_\\"]
    figure = draw([made(tokens)], BOTH[:1], text="".join(token * 8 for token in tokens))
    assert pixels(figure).shape[2] == 4


@pytest.mark.long
@pytest.mark.parametrize("count", [pytest.param(TOKENS, marks=pytest.mark.slow), TOKENS + 1])
def test_a_long_text_is_cut(count: int) -> None:
    figure = draw([made(["word"] * count)], BOTH[:1], text="word " * count)
    assert len(figure.axes[0].get_xticks()) == TOKENS
    images = [torch.as_tensor(axes.get_images()[0].get_array()) for axes in figure.axes[:4]]
    assert {tuple(one.shape) for one in images} == {(TOKENS, TOKENS)}
    assert (f"the first {TOKENS} of {count} tokens" in figure.get_suptitle()) == (count > TOKENS)
    assert figure.get_figwidth() * figure.dpi < 4000


def test_what_is_printed() -> None:
    text = report([replace(made(WORDS), cut=True), made(WORDS, adversary=False)], [View(1, 2)])
    assert "made: ASA, a.ckpt" in text
    assert "all but the first 4 tokens are cut off" in text
    assert "prediction: good -> good with the adversary" in text
    assert "  bad   0.2500 -> 0.2500" in text
    assert "  layer  1  12.5% (12.5%)" in text
    assert "  layer  2  0.0% (25.0%)" in text
    assert "layer 1, head 2: what changed most; no weight by more than 0.25" in text
    assert "  film -> [CLS]   0.250 -> 0.000  masked" in text
    assert text.endswith("no adversary: a model trained with one (ASA) shows both sides")
    still = report([made(WORDS)], [View(2, None)])
    assert "layer 2, mean of heads: what changed most; no weight by more than 0\n" in still
    assert still.endswith("  nothing by 0.005 or more")
    quiet = made(WORDS)
    quiet = replace(quiet, masked=[masked & False for masked in quiet.masked])
    assert "nothing is likelier masked than not: --seed 0" in report([quiet], [View(1, None)])
    assert "--seed" not in report([replace(quiet, drawn=True)], [View(1, None)])
    assert "--seed" not in text
    assert "masked for 50% of the heads" in report([made(WORDS)], [View(1, None)])
    assert report([made(["\x1b[2J"])], [View(2, None)]).count("\x1b") == 0


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints, and one that has the name of a picture."""
    folder = tmp_path_factory.mktemp("models")
    saved(folder / "a.ckpt", asa())
    saved(folder / "t.ckpt", asa(vocab_size=40))
    saved(folder / "s.ckpt", asa(max_length=8))
    saved(folder / "o.ckpt", lambda: TextClassifier(width=16, heads=4, depth=1))
    (folder / "folder.png").mkdir()
    return folder


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], ValueError, "got neither --run nor --ckpt_path"),
        (["--run=none"], FileNotFoundError, "got run 'none', which is not in runs"),
        (["--ckpt_path=none.ckpt", "--output=a.png"], ValueError, "none.ckpt, not found"),
        (["--ckpt_path=a.ckpt"], ValueError, "got a.ckpt, which is in no run, expected --output"),
        (
            ["--ckpt_path=a.ckpt", "--output=a.jpg"],
            ValueError,
            "got --output a.jpg, expected the name",
        ),
        (["--ckpt_path=a.ckpt", "--output=b.png", "--device=gpu"], ValueError, "got --device gpu"),
        (
            ["--ckpt_path=a.ckpt", "--output=b.png", "--text_pair=x"],
            ValueError,
            "got 1 text as --text_pair",
        ),
        (
            ["--ckpt_path=a.ckpt", "--output=b.png", "--layers", "1", "9"],
            ValueError,
            "got --layers 9 for a.ckpt, expected 1 to 3",
        ),
        (["--ckpt_path=a.ckpt", "--seed=-1"], ValueError, "got --seed=-1, expected a whole number"),
        (["--ckpt_path=a.ckpt", "--output=b.png", "--heads=3"], ValueError, "expected 1 to 2"),
        (["--ckpt_path=o.ckpt", "--output=b.png"], ValueError, "got o.ckpt of TextClassifier"),
        (["--ckpt_path=a.ckpt", "--output=b.png", "--against=t.ckpt"], ValueError, "another token"),
        (["--ckpt_path=a.ckpt", "--output=b.png", "--against=x.ckpt"], ValueError, "not found"),
        (["--ckpt_path=a.ckpt", "--output=b.png", "--text= "], ValueError, "without a single word"),
        pytest.param(
            ["--ckpt_path=a.ckpt", "--output=folder.png"],
            OSError,
            "could not write folder.png",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be(
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(models)
    with pytest.raises(error, match=message):
        main(["--text=a film", *arguments])
    assert not Path("b.png").exists()


@pytest.mark.slow
def test_texts_of_another_length(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    arguments = ["--ckpt_path=a.ckpt", "--against=s.ckpt", "--output=a.png"]
    assert main(["--text=it is", *arguments]) == 0
    with pytest.raises(ValueError, match=r"s.ckpt, which reads 8 tokens .*, expected a text that"):
        main([f"--text={'it is ' * 6}", *arguments])


@pytest.mark.parametrize(
    "arguments", [["--text"], [], ["--text=a", "--heads=x"], ["--text=a", "--layer=1"]]
)
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "`steadfast attention --help` lists" in capsys.readouterr().err
