"""`python -m app attention`: what a trained model attends to in a text, and what masks do to it."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.attention.attention_figure import TOKENS, draw
from app.attention.attention_maps import Model
from app.attention.attention_report import report
from app.attention.attention_text import same_tokenizer, sample_of
from app.attention.attention_view import MEAN, views
from app.cli.terminal import harmless
from app.figures.charts import pixels
from app.processes.devices import torch_device
from app.runs.resume import evaluated
from app.runs.run_directory import RunDirectory
from app.runs.weights import shelf, unfinished, weights_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

_TAG = 60
"""Characters of a text that its picture is filed under in TensorBoard."""


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: what follows `attention` on the command line.

    Returns:
        0.

    Raises:
        ValueError: a model without such attention, or settings that make no sense for it.
        OSError: no such run, or a file that cannot be written.
    """
    args = _parser().parse_args(argv)
    if args.draw is not None and not 0 <= args.draw < 2**31:
        msg = f"got --draw {args.draw}, expected a seed from 0 to {2**31 - 1}"
        raise ValueError(msg)
    run, checkpoint = evaluated("attention", Path(args.runs_dir), args.run, args.ckpt_path)
    weights = weights_of(checkpoint)
    path = _picture(None if run is None else shelf(run, weights), checkpoint, args.out)
    if (said := unfinished(checkpoint)) is not None:
        log.warning("%s", said)
    device = torch_device(args.device)
    models = [Model(checkpoint, device=device)]
    if args.against is not None:
        models.append(Model(Path(args.against), device=device))
        first, second = (model.classifier.require_tokenizer() for model in models)
        if not same_tokenizer(first, second):
            msg = (
                f"got {args.against} with another tokenizer than {checkpoint}, expected the same: "
                "maps of other tokens do not compare"
            )
            raise ValueError(msg)
    # Before the first pass, whatever is wrong with the text for either of them.
    samples = [sample_of(model.classifier, args.text, args.text_pair) for model in models]
    found = [models[0].attend(samples[0], seed=args.draw)]
    found += [models[1].attend(sample, found[0].row, seed=args.draw) for sample in samples[1:]]
    if len({len(one.tokens) for one in found}) > 1:
        msg = (
            f"got {args.against}, which reads {len(found[1].tokens)} tokens of the text, and "
            f"{checkpoint}, which reads {len(found[0].tokens)}, expected a text that both read "
            "whole: give a shorter one"
        )
        raise ValueError(msg)
    rows = views(found, args.layers, args.heads)
    shown = " / ".join([args.text, *args.text_pair[found[0].row : found[0].row + 1]])
    figure = draw(found, rows, path, text=shown, about=str(weights))
    written = [str(path)]
    if run is not None:
        written.append(f"TensorBoard of {run.name}")
        _file(run, figure, shown)
    print(report(found, rows))
    if len(found[0].tokens) > TOKENS:
        print(f"\nthe picture has the first {TOKENS} of {len(found[0].tokens)} tokens")
    print(harmless(f"\n{', '.join(written)}"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steadfast attention",
        description="Draw what a trained model attends to in a text: attention maps without its "
        "adversary and with it, and the units that the adversary masks. Writes attention.png into "
        "the run, and the same to TensorBoard; prints predictions, masked units and what changed "
        "most. Models without an adversary (all but those of ASA) have maps only.",
        allow_abbrev=False,
    )
    parser.add_argument("--text", required=True, help="the text")
    parser.add_argument(
        "--text_pair",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="the second text, for models of pairs; all choices, for multiple choice, of which "
        "the predicted one is drawn",
    )
    parser.add_argument("--run", metavar="NAME", help="the run; by default that of --ckpt_path")
    parser.add_argument("--runs_dir", default="runs", metavar="DIR", help="default: runs")
    parser.add_argument(
        "--ckpt_path", metavar="FILE", help="checkpoint to look at; by default best.ckpt of the run"
    )
    parser.add_argument(
        "--layers",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="layers to draw, counted from 1 (default: the first and the last)",
    )
    parser.add_argument(
        "--heads",
        type=_head,
        nargs="+",
        default=[None],
        metavar="N",
        help=f"heads to draw of each layer, counted from 1, or {MEAN} for the mean of all "
        f"(default: {MEAN})",
    )
    parser.add_argument(
        "--draw",
        type=int,
        metavar="SEED",
        help="draw the masks with this seed, as while training; by default the adversary masks, "
        "without noise, what it is likelier to mask than not, which may be nothing",
    )
    parser.add_argument(
        "--against",
        metavar="FILE",
        help="a second checkpoint, of the same tokenizer, whose maps are drawn beside the first's",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="the picture (default: attention.png in the run)"
    )
    parser.add_argument(
        "--device", default="auto", help="auto (default: a GPU if there is one), cpu, cuda, cuda:1"
    )
    parser.add_argument(
        "--debug", action="store_true", help="show where an error came from (STEADFAST_DEBUG=1)"
    )
    return parser


def _head(given: str) -> int | None:
    if given == MEAN:
        return None
    try:
        return int(given)
    except ValueError as error:
        msg = f"got {given!r}, expected a number from 1 or {MEAN}"
        raise argparse.ArgumentTypeError(msg) from error


def _picture(run: RunDirectory | None, checkpoint: Path, out: str | None) -> Path:
    if out is not None:
        if Path(out).suffix.lower() != ".png":
            msg = f"got --out {out}, expected the name of a .png file"
            raise ValueError(msg)
        return Path(out)
    if run is None:
        msg = f"got {checkpoint}, which lies in no run, expected --out FILE.png for the picture"
        raise ValueError(msg)
    return run.path / "attention.png"


def _file(run: RunDirectory, figure: "Figure", text: str) -> None:
    """Put the picture into TensorBoard, under the beginning of the text."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(run.path))
    tag = " ".join(harmless(text).split())[:_TAG]
    writer.add_image(f"attention/{tag}", pixels(figure), 0, dataformats="HWC")
    writer.close()
