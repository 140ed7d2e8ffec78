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
Check the installation and the machine, and say what to do about what is wrong: versions, torch,
GPUs, processors, memory, disks, data, the hub. Nothing is left behind, and nothing is sent but one
request to the hub.
"""
EPILOG = "Exit status: 0 if nothing has FAILED (a warning is no failure), 1 otherwise."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steadfast doctor", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False
    )
    folders = {
        "--runs_dir": "directory of all runs: a file is written there and taken away again "
        "(default: runs)",
        "--data_dir": "data directory, as in --data.data_dir: its corpora and splits are listed, "
        "and the first row of each file is read",
        "--backbone": "a pretrained encoder, as in --model.backbone: it is loaded and used once",
    }
    for name, text in folders.items():
        parser.add_argument(name, type=Path, metavar="FOLDER", help=text)
    text = 'print JSON: {"ok": ..., "checks": [{"name", "status", "found", "advice"}, ...]}'
    parser.add_argument("--json", action="store_true", help=text)
    return parser


def _check(settings: argparse.Namespace) -> Iterator[Finding]:
    # Loading libraries takes seconds: these processes do so while the rest is checked.
    of_torch = TrialProcess(trials.of_torch(), seconds=180)
    of_program = TrialProcess(trials.of_program(settings.data_dir, settings.backbone), seconds=300)
    of_hub = TrialProcess([trials.hub()], seconds=10)
    yield from check_versions()
    others = list(check_machine(settings.runs_dir or Path("runs")))
    yield from of_torch.findings()
    yield from of_program.findings()
    yield from others
    if settings.data_dir is None:
        found = "not looked at (--data_dir); the corpus Reviews is built in"
        yield judge("data directory", found)
    yield from of_hub.findings()


def run(arguments: Sequence[str]) -> int:
    """Check, print and return the exit status.

    Args:
        arguments: the command line behind `doctor`.
    """
    try:
        settings = _parser().parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    try:
        findings = [printable(finding) for finding in _check(settings)]
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    width = shutil.get_terminal_size((100, 24)).columns
    print(as_json(findings) if settings.json else as_table(findings, width))
    return 1 if any(finding.status == "FAILED" for finding in findings) else 0
