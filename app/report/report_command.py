"""`python -m app report`: one page about a run, or about runs side by side."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from app.cli.run_options import command_parser
from app.cli.terminal import harmless

# What takes seconds to load is imported once the command line is known to be right.


def main(argv: Sequence[str]) -> int:
    """Runs `report`; see `Command.place`.

    Returns:
        0; 1 where an attack has changed a text inside its certificate.

    Raises:
        ValueError: a file of a run holds something else than it should.
        OSError: no such run, or the page cannot be written.
    """
    args = parser().parse_args(argv)
    from app.report.report_page import write_report
    from app.runs.run_directory import existing

    names = list(dict.fromkeys(args.run))
    runs = [existing(Path(args.runs_dir), name) for name in names]
    written = write_report(runs, None if args.output is None else Path(args.output))
    print(harmless(str(written.page)))
    for line in written.contradictions:
        print(harmless(f"contradiction: {line}; see {written.page}"), file=sys.stderr)
    return 1 if written.contradictions else 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = command_parser(
        "report",
        "Write one HTML page about a run: accuracy, confusion matrix, calibration, "
        "certificates, attacks, and what was not measured. Several runs stand side by side. Exit "
        "status 1 if an attack has changed a text inside its certificate.",
    )
    add = made.add_argument
    text = "name of a run; may be given several times"
    add("--run", action="append", required=True, metavar="NAME", help=text)
    text = "folder of the page and its pictures (default: report/ in the first run)"
    add("--output", metavar="DIR", help=text)
    return made
