"""Write one HTML page about a run, or about several runs side by side.

Accuracy, confusion matrix, calibration, certificates, attacks, and what was not measured. Exit
status 1 if an attack has changed a text inside its certificate.
"""

import argparse
import sys
from pathlib import Path

from app.cli.run_options import SEVERAL, add_option, command_parser
from run_files.terminal import harmless

# Slow libraries are imported only once the command line is valid.


def run(args: argparse.Namespace) -> int:
    """Run the command."""
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
    arguments = command_parser("report", __doc__, "--runs_dir")
    add_option(arguments, "--run", **SEVERAL | {"required": True})
    text = "folder of the page and its pictures (default: report/ in the first run)"
    add_option(arguments, "--output", help=text)
    return arguments
