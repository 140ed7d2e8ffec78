"""Runs the command `doctor`."""

import argparse
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.doctor import trials
from app.doctor.findings import Finding, as_json, as_table, judge, printable
from app.doctor.installation import check_versions
from app.doctor.machine import check_machine
from app.doctor.trial_process import TrialProcess

DESCRIPTION = """
Check the installation and the machine: versions, torch, GPUs, processors, memory, disks, data, the
hub. Each problem comes with advice. The command leaves no files and sends one request to the hub.
"""
EPILOG = "Exit status: 1 if a check has FAILED, else 0 (also with warnings)."
FOLDERS = {
    "--runs_dir": "directory of all runs: is it writable? (default: runs)",
    "--data_dir": "data directory, as in --data.data_dir: list its corpora and splits, and read "
    "the first row of each file",
    "--backbone": "folder of a pretrained encoder: load it and encode a text",
}


def _check(settings: argparse.Namespace) -> Iterator[Finding]:
    # Libraries take seconds to load: other processes load them during the checks of this one.
    of_torch = TrialProcess(trials.of_torch(), seconds=180)
    of_program = TrialProcess(trials.of_program(settings.data_dir, settings.backbone), seconds=300)
    of_hub = TrialProcess([trials.hub()], seconds=10)
    yield from check_versions()
    others = list(check_machine(settings.runs_dir or Path("runs")))
    yield from of_torch.findings()
    yield from of_program.findings()
    yield from others
    if settings.data_dir is None:
        yield judge("data directory", "not checked (no --data_dir); the corpus Reviews is built in")
    yield from of_hub.findings()


def run(arguments: Sequence[str]) -> int:
    """Check, print the findings and return the exit status.

    Args:
        arguments: the command line after `doctor`.
    """
    parser = argparse.ArgumentParser(
        prog="steadfast doctor", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False
    )
    for name, text in FOLDERS.items():
        parser.add_argument(name, type=Path, metavar="FOLDER", help=text)
    text = 'print JSON: {"ok": ..., "checks": [{"name", "status", "found", "advice"}, ...]}'
    parser.add_argument("--json", action="store_true", help=text)
    try:
        settings = parser.parse_args(arguments)
        findings = [printable(finding) for finding in _check(settings)]
    except SystemExit as error:
        return int(error.code or 0)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    width = shutil.get_terminal_size((100, 24)).columns
    print(as_json(findings) if settings.json else as_table(findings, width))
    return int(any(finding.status == "FAILED" for finding in findings))
