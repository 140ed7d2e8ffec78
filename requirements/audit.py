"""Finds known weaknesses of the locked versions, in a table and in public databases.

Usage: `python -m requirements.audit [--osv_url URL]`, in the root of the checkout; `make lint` runs
it. All versions of the locks are compared, also those for other systems.
Nothing is installed, and nothing is sent but the names and versions.

The table below needs no network. The databases (OSV, then that of PyPI) are asked through
pip-audit; first about a version that is known to be weak, because a mirror may answer like a
database and know nothing. Where neither can be reached, one loud line says so, without
a failure. A weakness is one, unless it is accepted below with date and reason.

Exit status: 0, or 1 if there is a weakness.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import Version

from requirements.lock import HERE, Pin, parse

LOCKS = ("cpu.txt", "cuda.txt", "dev.txt", "docs.txt")

FLOORS = {
    "aiohttp": ("3.14.1", "CVE-2026-54278, CVE-2026-54279, CVE-2026-54280"),
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "click": ("8.3.3", "CVE-2026-7246"),
    "filelock": ("3.20.3", "CVE-2026-22701"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.15", "CVE-2026-45409"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "pillow": ("12.3.0", "CVE-2026-55379"),
    "pip": ("26.1.2", "CVE-2026-8643"),
    "protobuf": ("6.33.5", "CVE-2026-0994"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "pygments": ("2.20.0", "CVE-2026-4539"),
    "pytest": ("9.0.3", "CVE-2025-71176"),
    "pytorch-lightning": ("2.6.6", "CVE-2026-58659: code from a checkpoint's settings"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "requests": ("2.33.0", "CVE-2026-25645"),
    "setuptools": ("78.1.1", "CVE-2025-47273"),
    "torch": ("2.12.1", "CVE-2026-24747: code in spite of weights_only; CVE-2025-3000"),
    "tqdm": ("4.66.3", "CVE-2024-34062"),
    "transformers": ("5.10.0", "CVE-2026-4372, CVE-2026-5241: code from a config.json"),
    "urllib3": ("2.7.0", "CVE-2026-44431, CVE-2026-44432"),
    "werkzeug": ("3.1.6", "CVE-2026-27199"),
}
"""The first version without weaknesses that were known when a line was written (November 2026)."""

CANARY = Pin("pyyaml", "5.3")
"""Known to be weak (CVE-2020-14343) since 2021."""


class Accepted(NamedTuple):
    """A weakness that does not reach us."""

    id: str
    since: str
    reason: str


ACCEPTED: tuple[Accepted, ...] = ()


class Weakness(NamedTuple):
    """One weakness of one locked version."""

    package: str
    version: str
    ids: tuple[str, ...]
    advice: str


class UnreachableError(Exception):
    """A database that gives no answer, or no usable one."""


def locked(folder: Path = HERE) -> dict[str, Pin]:
    """Return all pins, without the conditions under which they are installed."""
    pins: dict[str, Pin] = {}
    for name in LOCKS:
        for pin in parse((folder / name).read_text(encoding="utf-8")).values():
            before = pins.get(pin.name, pin)
            if before.version != pin.version:
                msg = f"got {pin.name} {before.version} and {pin.version}, expected one version"
                raise ValueError(msg)
            pins[pin.name] = replace(pin, marker="", hashes=before.hashes | pin.hashes)
    return pins


def below_floors(pins: Mapping[str, Pin]) -> list[Weakness]:
    """Return the weaknesses in the table."""
    return [
        Weakness(name, pins[name].version, (ids,), f"{floor} or newer")
        for name, (floor, ids) in FLOORS.items()
        if name in pins and Version(pins[name].version) < Version(floor)
    ]


def ask(service: Sequence[str], pins: Iterable[Pin], seconds: float) -> dict[str, Any]:
    """Ask a database, chosen by pip-audit's options, about versions, and return its answer.

    Raises:
        UnreachableError: no answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pins.txt"
        path.write_text("\n".join(pin.render() for pin in pins) + "\n", encoding="utf-8")
        # --no-deps, --disable-pip: the locks are complete, so nothing has to be resolved.
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(path), "--no-deps"]
        command += ["--disable-pip", "--format", "json", "--progress-spinner", "off"]
        command += ["--cache-dir", folder, "--timeout", "10", *service]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            msg = f"no answer within {seconds:g} s"
            raise UnreachableError(msg) from error
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        # The address of a proxy may have its password.
        raise UnreachableError(re.sub(r"://[^/\s@]+@", "://***@", last)[:200]) from error
    return answer


def usable(service: Sequence[str], seconds: float) -> None:
    """Raise UnreachableError unless a database knows that the canary is weak."""
    (package,) = ask(service, [CANARY], seconds)["dependencies"]
    if not package.get("vulns"):
        reason = package.get("skip_reason", "it knows of none")
        msg = f"no weakness of {CANARY.name} {CANARY.version}, which has some ({reason})"
        raise UnreachableError(msg)


def weaknesses(answer: Mapping[str, Any]) -> tuple[list[Weakness], list[str]]:
    """Return the weaknesses of an answer, and the packages unknown to the database."""
    weak, skipped = [], []
    for package in answer["dependencies"]:
        if "vulns" not in package:
            skipped.append(str(package["name"]))
            continue
        weak += [
            Weakness(
                package["name"],
                package["version"],
                (vulnerability["id"], *vulnerability.get("aliases", ())),
                ", ".join(vulnerability["fix_versions"]) or "no version without it yet",
            )
            for vulnerability in package["vulns"]
        ]
    return weak, skipped


def judged(
    weak: Iterable[Weakness], accepted: Iterable[Accepted] = ACCEPTED
) -> tuple[list[Weakness], list[Accepted]]:
    """Return the weaknesses that are not accepted, and the unused acceptances."""
    by_id = {entry.id: entry for entry in accepted}
    open_ones, used = [], set()
    for weakness in weak:
        matching = [by_id[name] for name in weakness.ids if name in by_id]
        used |= {entry.id for entry in matching}
        if not matching:
            open_ones.append(weakness)
    return open_ones, [entry for name, entry in by_id.items() if name not in used]


def live(
    pins: Mapping[str, Pin], services: Iterable[Sequence[str]], canary: float, seconds: float
) -> tuple[list[Weakness], str]:
    """Return the weaknesses of the first usable database, and one line for the report."""
    reasons = []
    for service in services:
        try:
            usable(service, canary)
            weak, skipped = weaknesses(ask(service, pins.values(), seconds))
        except UnreachableError as error:
            reasons.append(f"{service[1]}: {error}")
            continue
        text = f"{len(pins) - len(skipped)} versions compared with {service[1]} today"
        text += f"; NOT COMPARED, unknown there: {', '.join(skipped)}" if skipped else ""
        return weak, text
    text = f"NOT COMPARED WITH LIVE DATA, no database could be asked ({'; '.join(reasons)})"
    return [], text


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--osv_url", help="another database that answers as OSV does")
    parser.add_argument("--canary_seconds", type=float, default=60, help="time for one version")
    parser.add_argument("--seconds", type=float, default=600, help="time for all versions")
    settings = parser.parse_args(arguments)
    services = [["-s", "osv"], ["-s", "pypi"]]
    if settings.osv_url:
        services = [["-s", "osv", "--osv-url", settings.osv_url]]

    pins = locked()
    print(f"audit: {len(pins)} versions, {len(FLOORS)} of them in the table of known weaknesses")
    weak, text = live(pins, services, settings.canary_seconds, settings.seconds)
    print(f"audit: {text}", flush=True)
    open_ones, unused = judged([*below_floors(pins), *weak])
    for entry in unused:
        print(f"audit: {entry.id} is accepted since {entry.since}, and not found: remove the entry")
    for weakness in open_ones:
        print(
            f"audit: {weakness.package} {weakness.version}: {', '.join(weakness.ids)}; "
            f"expected: {weakness.advice} (`make lock`, or accept it in requirements/audit.py)",
            file=sys.stderr,
        )
    return 1 if open_ones else 0


if __name__ == "__main__":
    sys.exit(main())
