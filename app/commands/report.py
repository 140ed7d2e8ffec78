"""`python -m app report`: one page about a run, or about runs side by side."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from app.cli.run_options import command_parser
from run_files.terminal import harmless

# Slow libraries are imported only once the command line is valid.


def main(argv: Sequence[str]) -> int:
    """Run `report`; see `Command.entry_point`.

    Returns:
        0; 1 where an attack has changed a text inside its certificate.

    Raises:
        ValueError: a file of a run has unexpected content.
        OSError: run not found, or the page cannot be written.
    """
    args = parser().parse_args(argv)
    from app.report.report_page import write_report
    from run_files.run_directory import existing

    names = list(dict.fromkeys(args.run))
    runs = [existing(Path(args.runs_dir), name) for name in names]
    report = write_report(runs, None if args.output is None else Path(args.output))
    print(harmless(str(report.page)))
    for line in report.contradictions:
        print(harmless(f"contradiction: {line}; see {report.page}"), file=sys.stderr)
    return 1 if report.contradictions else 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = command_parser(
        "report",
        "Write one HTML page about a run: accuracy, confusion matrix, calibration, "
        "certificates, attacks, and what was not measured. Several runs stand side by side. Exit "
        "status 1 if an attack has changed a text inside its certificate.",
    )
    add = arguments.add_argument
    text = "name of a run; may be given several times"
    add("--run", action="append", required=True, metavar="NAME", help=text)
    text = "folder of the page and its pictures (default: report/ in the first run)"
    add("--output", metavar="DIR", help=text)
    return arguments
