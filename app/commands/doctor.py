"""Check the installation and the machine.

Versions, torch, GPUs, processors, memory, disks, data, the hub. Each problem comes with advice.
The command leaves no files and sends one request to the hub.
"""

import argparse
import shutil
from pathlib import Path

from app.cli.run_options import add_option, command_parser
from app.doctor import trials
from app.doctor.findings import TrialProcess, as_json, as_table, printable

EPILOG = "Exit status: 1 if a check has FAILED, else 0 (also with warnings)."


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("doctor", __doc__, "--runs_dir", epilog=EPILOG)
    text = "data directory: list its corpora and splits, and read the first row of each file"
    add_option(parser, "--data_dir", type=Path, help=text)
    text = "folder of a pretrained encoder: load it and encode a text"
    parser.add_argument("--backbone", type=Path, metavar="FOLDER", help=text)
    text = 'print JSON: {"ok": ..., "checks": [{"name", "status", "found", "advice"}, ...]}'
    add_option(parser, "--json", help=text)
    return parser


def run(args: argparse.Namespace) -> int:
    """Check, print the findings and return the exit status."""
    # All processes start now and run at the same time.
    machine = [trials.check_versions(), *trials.of_machine(Path(args.runs_dir))]
    processes = (
        TrialProcess(machine, seconds=60),
        TrialProcess(trials.of_torch(), seconds=180),
        TrialProcess(trials.of_program(args.data_dir, args.backbone), seconds=300),
        TrialProcess([trials.hub()], seconds=30),
    )
    findings = [printable(finding) for process in processes for finding in process.findings()]
    width = shutil.get_terminal_size((100, 24)).columns
    print(as_json(findings) if args.json else as_table(findings, width))
    return int(any(finding.status == "FAILED" for finding in findings))
