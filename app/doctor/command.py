"""The command line of `doctor`."""

import argparse
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.doctor import gpus, installation, machine, surroundings
from app.doctor.installation import Probe
from app.doctor.report import Check, as_json, as_table, failed, fit_to_print

DESCRIPTION = """
Check the installation and the machine, and say what to do about what is wrong: versions, torch,
GPUs, processors, memory, disks, data, the hub. Nothing is left behind, and nothing is sent but one
request to the hub.
"""
EPILOG = "Exit status: 0 if nothing has FAILED (a warning is no failure), 1 otherwise."


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="steadfast doctor", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False
    )
    made.add_argument(
        "--runs_dir",
        type=Path,
        default=Path("runs"),
        help="Directory of all runs, as for the other commands: a file is written there and taken "
        "away again (default: runs).",
    )
    made.add_argument(
        "--data_dir",
        type=Path,
        metavar="DIR",
        help="Data directory, as in --data.data_dir: the corpora and splits in it are listed, and "
        "the first row of each file is read.",
    )
    made.add_argument(
        "--backbone",
        type=Path,
        metavar="FOLDER",
        help="Folder of a pretrained encoder, as in --model.backbone: it is loaded and used once.",
    )
    made.add_argument(
        "--json",
        action="store_true",
        help='Print JSON: {"ok": ..., "checks": [{"name", "status", "found", "advice"}, ...]}.',
    )
    return made


def checks(settings: argparse.Namespace) -> Iterator[Check]:
    """All checks, in the order in which one depends on the other."""
    options = []
    for option in ("data_dir", "backbone"):
        value: Path | None = getattr(settings, option)
        options += [f"--{option}", str(value.absolute())] if value is not None else []
    # Loading libraries takes seconds: both at once, while the rest is looked at.
    probes = Probe("torch"), Probe("program", options)
    try:
        yield from installation.check_versions()
        groups = machine.control_groups()
        others = [
            machine.check_cores(groups),
            machine.check_memory(groups),
            machine.check_shared_memory(),
            machine.check_runs(settings.runs_dir),
            *machine.check_caches(),
        ]
        hub = surroundings.check_hub()
        torch, program = (probe.facts() for probe in probes)
    finally:
        for probe in probes:
            probe.kill()
    yield from installation.check_torch(torch, machine.cores(groups))
    yield from gpus.check_gpus(torch, installation.driver())
    yield from installation.check_program(program)
    yield from others
    yield surroundings.check_data(settings.data_dir, program)
    if settings.backbone is not None:
        yield surroundings.check_backbone(settings.backbone, program)
    yield hub


def run(arguments: Sequence[str]) -> int:
    """Check, print and return the exit status.

    Args:
        arguments: the command line behind `doctor`.
    """
    try:
        settings = parser().parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    try:
        found = fit_to_print(checks(settings))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if settings.json:
        print(as_json(found))
    else:
        print(as_table(found, shutil.get_terminal_size((100, 24)).columns))
    return 1 if failed(found) else 0
