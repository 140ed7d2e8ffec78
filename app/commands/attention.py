"""Draw the attention maps of a trained model for a text.

For a model with an adversary: also the maps under the adversary, and the units that it masks.
Writes attention.png into the run and to TensorBoard; prints predictions, masked units and the
greatest changes.
"""

import argparse
from pathlib import Path

from app.cli.run_options import RUN, add_option, command_parser, find_model
from attacks.digests import digest
from measure.attention.attention_figure import TOKENS, draw
from measure.attention.attention_maps import AttentionModel
from measure.attention.attention_report import report
from measure.attention.attention_text import same_tokenizer, sample_of
from measure.attention.attention_view import MEAN, views
from measure.charts import pixels
from run_files.devices import torch_device
from run_files.event_files import evaluation_writer
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from run_files.weights import shelf, warn_unfinished, weights_of
from text import check_range

_TAG = 60
"""Length of the picture's name in TensorBoard, in characters of the text."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_range({"--seed": args.seed}, least=0, most=2**31 - 1)
    run, checkpoint = find_model("attention", args)
    weights = weights_of(checkpoint)
    path = _picture(None if run is None else shelf(run, weights), checkpoint, args.output)
    warn_unfinished(checkpoint)
    device = torch_device(args.device)
    models = [AttentionModel(checkpoint, device=device)]
    if args.against is not None:
        models.append(AttentionModel(Path(args.against), device=device))
        tokenizers = [model.classifier.require_tokenizer() for model in models]
        if not same_tokenizer(*tokenizers):
            msg = (
                f"got {args.against} with another tokenizer than {checkpoint}, expected the same: "
                "maps of other tokens do not compare"
            )
            raise ValueError(msg)
    # Both models check the text before the first pass.
    samples = [sample_of(model.classifier, args.text, args.text_pair) for model in models]
    first = models[0].attend(samples[0], seed=args.seed)
    maps = [first]
    if len(models) > 1:
        # Of a multiple choice, both show the choice that the first model predicts.
        maps.append(models[1].attend(samples[1], first.row, seed=args.seed))
        lengths = [len(attention.tokens) for attention in maps]
        if lengths[0] != lengths[1]:
            msg = (
                f"got {args.against}, which reads {lengths[1]} tokens of the text, and "
                f"{checkpoint}, which reads {lengths[0]}, expected a text that both read whole: "
                "give a shorter one"
            )
            raise ValueError(msg)
    rows = views(maps, args.layers, args.heads)
    text = " / ".join([args.text, *args.text_pair[first.row : first.row + 1]])
    figure = draw(maps, rows, path, text=text, description=str(weights))
    files = [str(path)]
    if run is not None:
        files.append(f"TensorBoard of {run.name}")
        # Under the beginning of the text.
        writer = evaluation_writer(run, f"attention-{digest([text])[:8]}")
        tag = " ".join(harmless(text).split())[:_TAG]
        writer.add_image(f"attention/{tag}", pixels(figure), 0, dataformats="HWC")
        writer.close()
    print(report(maps, rows))
    if len(first.tokens) > TOKENS:
        print(f"\nthe picture has the first {TOKENS} of {len(first.tokens)} tokens")
    print(harmless(f"\n{', '.join(files)}"))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("attention", __doc__, *RUN, "--device")
    add = parser.add_argument
    add("--text", required=True, help="the text")
    text = "the second text of a pair; for multiple choice all choices: the predicted one is drawn"
    add("--text_pair", nargs="+", default=[], metavar="TEXT", help=text)
    text = "layers to draw, counted from 1 (default: the first and the last)"
    add("--layers", type=int, nargs="+", default=[], metavar="N", help=text)
    text = f"heads to draw of each layer, counted from 1; {MEAN} (default): the mean of all heads"
    add("--heads", type=_head, nargs="+", default=[None], metavar="N", help=text)
    text = (
        "draw the masks at random with this seed, as in training (default: mask the units whose "
        "probability of being masked is above one half; there may be none)"
    )
    add_option(parser, "--seed", default=None, help=text)
    text = "a second checkpoint with the same tokenizer; its maps are drawn next to the first ones"
    add("--against", metavar="FILE", help=text)
    add_option(parser, "--output", help="picture to write (default: attention.png in the run)")
    return parser


def _head(text: str) -> int | None:
    if text == MEAN:
        return None
    try:
        return int(text)
    except ValueError as error:
        msg = f"got {text!r}, expected a number from 1 or {MEAN}"
        raise argparse.ArgumentTypeError(msg) from error


def _picture(run: RunDirectory | None, checkpoint: Path, out: str | None) -> Path:
    if out is not None:
        if Path(out).suffix.lower() != ".png":
            msg = f"got --output {out}, expected the name of a .png file"
            raise ValueError(msg)
        return Path(out)
    if run is None:
        msg = f"got {checkpoint}, which is in no run, expected --output FILE.png for the picture"
        raise ValueError(msg)
    return run.path / "attention.png"
