"""Compares the installed versions with those that the project asks for."""

import platform
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from app.doctor.findings import Finding, judge
from app.doctor.trial_process import Trial
from app.runs.version import line

ROOT = Path(__file__).parents[2]
MALICIOUS = {("lightning", "2.6.2"), ("lightning", "2.6.3")}
"""Uploads with a program that steals credentials (GHSA-w37p-236h-pfx3)."""
AGAIN = "install the locked versions: `make clean`, then `make install`; or build the image anew"


def required(root: Path = ROOT) -> tuple[str, list[str]]:
    """Read the bounds of Python and the requirements, of the checkout or the installed package."""
    project = root / "pyproject.toml"
    if project.is_file():
        content = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        return content["requires-python"], content["dependencies"]
    about = metadata.metadata("steadfast")
    return about["Requires-Python"] or "", metadata.requires("steadfast") or []


def installed(name: str) -> str | None:
    """Return the version of a library without loading it; None if it is not installed."""
    try:
        return metadata.version(name)
    except (ImportError, KeyError, TypeError):  # a half deleted library has no version
        return None


def check_versions(root: Path = ROOT) -> Trial:
    """Check the program, Python and the libraries that the project names."""
    yield Finding("program", "FAILED", "cannot read the requirements: ", AGAIN)
    # Not at the top: it may be what is missing.
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    python, listed = required(root)
    every = [Requirement(text) for text in listed]
    needed = [one for one in every if one.marker is None or one.marker.evaluate()]
    fits = SpecifierSet(python).contains(platform.python_version(), True)
    yield Finding("program", "ok", f"{line()}, in {root}")
    found = f"{platform.python_version()} ({python} allowed), {sys.executable}"
    yield judge("Python", found, (not fits, "FAILED", "make PYTHON=python3.12 clean install"))
    versions = {one.name: installed(one.name) for one in needed}
    wrong = [
        f"{one.name} {version or 'is not installed'} ({one.specifier or 'any'} allowed)"
        for one in needed
        if not (version := versions[one.name]) or not one.specifier.contains(version, True)
    ]
    wrong += [f"{n} {v} is a malicious upload" for n, v in MALICIOUS if installed(n) == v]
    good = ", ".join(f"{name} {version}" for name, version in versions.items())
    found = "; ".join(wrong) or f"{len(versions)} as allowed: {good}"
    yield judge("libraries", found, (wrong, "FAILED", AGAIN))
