"""Print the figures of runs side by side, with intervals, tests and differences of settings.

Runs that differ only by the seed are one row; the others are compared with the first one, sample by
sample where they have predicted the same texts.
"""

import argparse
from pathlib import Path
from typing import get_args

from app.cli.run_options import SEVERAL, add_option, command_parser
from app.study.tables import Format
from run_files.terminal import harmless

# Slow libraries are imported only once the command line is valid.


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from app.study.side_by_side import compare_runs

    text = compare_runs(Path(args.runs_dir), args.run, args.metrics, args.format)
    print(harmless(text), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = command_parser("compare", __doc__, "--runs_dir")
    add_option(arguments, "--run", **SEVERAL | {"required": True, "help": "runs, at least two"})
    add = arguments.add_argument
    text = "of results.json (default: those of the task, certificates, and accuracy under attacks)"
    add("--metrics", nargs="+", default=[], metavar="METRIC", help=text)
    add("--format", choices=get_args(Format), default="markdown", help="of what is printed")
    return arguments
