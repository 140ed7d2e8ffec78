"""Write all runs of a directory as a static site that can be shared.

An index with a sortable table of the runs and a plot of robust against clean accuracy, and the
report of each run. Exit status 1 if an attack has changed a text inside its certificate.
"""

import argparse
import sys
from pathlib import Path

from app.cli.run_options import SEVERAL, add_option, command_parser
from run_files.terminal import harmless

# Slow libraries are imported only once the command line is valid.


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from app.report.site import find_runs, write_site
    from run_files.run_directory import existing

    folder = Path(args.runs_dir)
    names = list(dict.fromkeys(args.run or ()))
    runs = [existing(folder, name) for name in names] if names else find_runs(folder)
    site = write_site(runs, Path(args.output))
    print(harmless(str(site.index)))
    for line in site.contradictions:
        print(harmless(f"contradiction: {line}"), file=sys.stderr)
    return 1 if site.contradictions else 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = command_parser("site", __doc__, "--runs_dir")
    add_option(arguments, "--run", **SEVERAL | {"help": "names of runs (default: all)"})
    add_option(arguments, "--output", default="site", metavar="DIR", help="folder of the site")
    return arguments
