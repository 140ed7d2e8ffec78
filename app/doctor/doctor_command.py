"""Runs the command `doctor`."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from app.cli.run_options import command_parser
from app.doctor import trials
from app.doctor.findings import as_json, as_table, printable
from app.doctor.installation import check_versions
from app.doctor.machine import of_machine
from app.doctor.trial_process import TrialProcess

DESCRIPTION = """
Check the installation and the machine: versions, torch, GPUs, processors, memory, disks, data, the
hub. Each problem comes with advice. The command leaves no files and sends one request to the hub.
"""
EPILOG = "Exit status: 1 if a check has FAILED, else 0 (also with warnings)."
FOLDERS = {
    "--data_dir": "data directory, as in --data.data_dir: list its corpora and splits, and read "
    "the first row of each file",
    "--backbone": "folder of a pretrained encoder: load it and encode a text",
}


def run(arguments: Sequence[str]) -> int:
    """Check, print the findings and return the exit status.

    Args:
        arguments: the command line after `doctor`.
    """
    parser = command_parser("doctor", DESCRIPTION, epilog=EPILOG)
    for name, text in FOLDERS.items():
        parser.add_argument(name, type=Path, metavar="FOLDER", help=text)
    text = 'print JSON: {"ok": ..., "checks": [{"name", "status", "found", "advice"}, ...]}'
    parser.add_argument("--json", action="store_true", help=text)
    settings = parser.parse_args(arguments)
    processes = (
        TrialProcess([check_versions(), *of_machine(Path(settings.runs_dir))], seconds=60),
        TrialProcess(trials.of_torch(), seconds=180),
        TrialProcess(trials.of_program(settings.data_dir, settings.backbone), seconds=300),
        TrialProcess([trials.hub()], seconds=30),
    )
    findings = [printable(one) for process in processes for one in process.findings()]
    width = shutil.get_terminal_size((100, 24)).columns
    print(as_json(findings) if settings.json else as_table(findings, width))
    return int(any(finding.status == "FAILED" for finding in findings))
