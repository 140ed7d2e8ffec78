"""Measure how far the logits of a model are from the decision boundary, layer by layer.

Also measure how far an attack moves the activations of each layer. The texts are those of
RUN/attacks/RECIPE.jsonl. Writes RUN/diagnostics.json, RUN/layer_similarity.png and the same to
TensorBoard.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from app.cli.run_options import RUN, add_option, command_parser, find_model
from measure.diagnosis import measure, read
from measure.diagnosis_report import table, write
from run_files import run_directory
from run_files.devices import torch_device
from run_files.weights import shelf, warn_unfinished, weights_of
from text import check_range


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_range({"--num_samples": args.samples, "--batch_size": args.batch_size}, least=1)
    runs, device = Path(args.runs_dir), torch_device(args.device)
    run, checkpoint = find_model("diagnose", args)
    if run is None:
        msg = f"got {checkpoint}, which lies in no run, expected --run NAME with records of attacks"
        raise ValueError(msg)
    files = run if checkpoint == run.chosen else shelf(run, weights_of(checkpoint))
    compared = [run_directory.existing(runs, name) for name in dict.fromkeys(args.against)]
    for measured in (checkpoint, *(other.chosen for other in compared)):
        warn_unfinished(measured)
    # The records of an attack on these weights; if missing, those of the attack on the run.
    attacked = files if (files.path / "attacks" / f"{args.recipe}.jsonl").is_file() else run
    records = read(attacked, args.recipe, samples=args.samples)
    # All records are read first: measuring the first model may take minutes.
    texts = [
        records if args.same_texts else read(o, args.recipe, samples=args.samples) for o in compared
    ]
    on_device = partial(measure, batch_size=args.batch_size, device=device)
    first = on_device(checkpoint, files, records, pooling=args.pooling)
    rest = [
        on_device(other.chosen, other, theirs, pooling=first.pooling)
        for other, theirs in zip(compared, texts, strict=True)
    ]
    write(files, args.recipe, [first, *rest], options(vars(args)))
    print(table([first, *rest]))
    print(f"\n{files.path / 'diagnostics.json'}, {files.path / 'layer_similarity.png'}")
    return 0


def options(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a result depends on, as `diagnostics.json` has them."""
    return {name: args[name] for name in ("samples", "pooling", "against", "same_texts")}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("diagnose", __doc__, *RUN, "--device")
    add = parser.add_argument
    add("--recipe", default="textfooler", metavar="NAME", help="the recipe of the attack")
    text = "number of records to measure, a fixed random choice"
    # diagnostics.json names it `samples`.
    add_option(parser, "--num_samples", dest="samples", default=1000, help=text)
    text = "the vector of a text: that of its first token, or the mean over all tokens (default: "
    add("--pooling", choices=("first", "mean"), help=f"{text}as the first model classifies)")
    text = "more runs in the same figure, each with the records of its own attack"
    add("--against", nargs="+", default=[], metavar="RUN", help=text)
    text = "measure all runs on the texts of the attack on the first run"
    add("--same_texts", action="store_true", help=text)
    add_option(parser, "--batch_size", default=32)
    return parser
