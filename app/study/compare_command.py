"""`python -m app compare`: runs side by side, with tests, and what differs in their settings."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from app.cli.run_options import command_parser
from app.cli.terminal import harmless
from app.study.tables import Format

# What takes seconds to load is imported once the command line is known to be right.


def main(argv: Sequence[str]) -> int:
    """Runs `compare`; see `Command.place`.

    Raises:
        StudyError: runs without figures, or figures that must not be averaged.
        OSError: no such run.
    """
    args = parser().parse_args(argv)
    from app.study.side_by_side import report

    print(harmless(report(Path(args.runs_dir), args.runs, args.metrics, args.format)), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = command_parser(
        "compare",
        "Put the figures of runs side by side, with intervals and tests, and say what "
        "differs in their settings. Runs that differ only by the seed are one row; the others are "
        "compared with the first one, text by text where they have answered the same texts.",
    )
    add = made.add_argument
    add("runs", nargs="+", metavar="RUN", help="names of runs, at least two")
    text = "of results.json (default: those of the task, certificates, and accuracy under attacks)"
    add("--metrics", nargs="+", default=[], metavar="METRIC", help=text)
    text = "of what is printed (default: markdown)"
    add("--format", choices=get_args(Format), default="markdown", help=text)
    return made
