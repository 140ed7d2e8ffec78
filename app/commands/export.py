"""Write a trained model as a folder to share, and upload it.

Weights as safetensors, settings, vocabulary and classes as JSON, a model card with figures. A
classifier on an encoder of `transformers` is also written for that library.
"""

import argparse
from pathlib import Path

from app.cli.run_options import RUN, add_option, command_parser, find_model
from app.export import FILE
from app.hub_folder import adopt_classifier, check_repository, push_folder, write_folder
from run_files.terminal import harmless


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.push is None and args.revision is not None:
        msg = f"got --revision {args.revision} without --push, expected --push OWNER/NAME"
        raise ValueError(msg)
    if args.push is not None:
        check_repository(args.push)
    folder, onnx, pairs = Path(args.output), args.onnx == "true", args.pairs == "true"
    if args.victim is None:
        run, checkpoint = find_model("export", args)
        write_folder(run, checkpoint, folder, onnx=onnx)
    elif args.run is None and args.ckpt_path is None:
        adopt_classifier(args.victim, folder, pairs=pairs, onnx=onnx)
    else:
        msg = f"got --victim {args.victim} with --run or --ckpt_path, expected one model"
        raise ValueError(msg)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(harmless(f"{path.stat().st_size:>12,}  {path}"))
    if args.push is not None:
        private = args.private == "true"
        print(harmless(push_folder(folder, args.push, private=private, revision=args.revision)))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("export", __doc__, *RUN)
    add_option(parser, "--output", required=True, help="folder to write")
    add, choices = parser.add_argument, ("true", "false")
    text = "instead of a run: hf:FOLDER_OR_ID, to use it as one of ours"
    add("--victim", metavar="NAME", help=text)
    add("--pairs", choices=choices, default="false", help="with --victim: it classifies pairs")
    text = f"also write {FILE}, whose logits are compared with the model's"
    add("--onnx", choices=choices, default="false", help=text)
    text = "also upload the folder to this model repository of the hub (docs/hub.md)"
    add("--push", metavar="OWNER/NAME", help=text)
    text = "a repository that --push makes is private"
    add("--private", choices=choices, default="true", help=text)
    add("--revision", metavar="BRANCH", help="branch that --push uploads to (default: main)")
    return parser
