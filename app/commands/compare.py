"""`python -m app compare`: runs side by side, with tests and differences of settings."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from app.cli.run_options import command_parser
from app.study.tables import Format
from run_files.terminal import harmless

# Slow libraries are imported only once the command line is valid.


def main(argv: Sequence[str]) -> int:
    """Run `compare`; see `Command.entry_point`.

    Raises:
        StudyError: runs without figures, or figures that must not be averaged.
        OSError: run not found.
    """
    args = parser().parse_args(argv)
    from app.study.side_by_side import compare_runs

    text = compare_runs(Path(args.runs_dir), args.runs, args.metrics, args.format)
    print(harmless(text), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = command_parser(
        "compare",
        "Put the figures of runs side by side, with intervals and tests, and say what "
        "differs in their settings. Runs that differ only by the seed are one row; the others are "
        "compared with the first one, text by text where they have answered the same texts.",
    )
    add = arguments.add_argument
    add("runs", nargs="+", metavar="RUN", help="names of runs, at least two")
    text = "of results.json (default: those of the task, certificates, and accuracy under attacks)"
    add("--metrics", nargs="+", default=[], metavar="METRIC", help=text)
    text = "of what is printed (default: markdown)"
    add("--format", choices=get_args(Format), default="markdown", help=text)
    return arguments
