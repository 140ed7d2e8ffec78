"""Compares the installed versions with the bounds of the project."""

import platform
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from app.doctor.findings import Finding, judge
from app.doctor.trial_process import Trial
from run_files.version import line

ROOT = Path(__file__).parents[2]
MALICIOUS = {("lightning", "2.6.2"), ("lightning", "2.6.3")}
"""Uploads that steal credentials (GHSA-w37p-236h-pfx3)."""
AGAIN = "install the locked versions: `make clean`, then `make install`; or build the image anew"


def required(root: Path = ROOT) -> tuple[str, list[str]]:
    """Read the bounds of Python and the requirements, of the checkout or the installed package."""
    project = root / "pyproject.toml"
    if project.is_file():
        content = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        return content["requires-python"], content["dependencies"]
    python = metadata.metadata("steadfast")["Requires-Python"]
    return python or "", metadata.requires("steadfast") or []


def installed(name: str) -> str | None:
    """Return the version of a library without loading it; None if it is not installed."""
    try:
        return metadata.version(name)
    except (ImportError, KeyError, TypeError):  # a half deleted library has no version
        return None


def check_versions(root: Path = ROOT) -> Trial:
    """Check the program, Python and the libraries that the project names."""
    yield Finding("program", "FAILED", "cannot read the requirements: ", AGAIN)
    # Not at the top: this library itself may be missing.
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    python, lines = required(root)
    fits = SpecifierSet(python).contains(platform.python_version(), True)
    yield Finding("program", "ok", f"{line()}, in {root}")
    observation = f"{platform.python_version()} ({python} allowed), {sys.executable}"
    yield judge("Python", observation, (not fits, "FAILED", "make PYTHON=python3.12 clean install"))
    versions, wrong = [], []
    for library in map(Requirement, lines):
        # A marker that is false: the library is for another system or Python.
        if library.marker is not None and not library.marker.evaluate():
            continue
        version = installed(library.name)
        versions.append(f"{library.name} {version}")
        if not version or not library.specifier.contains(version, True):
            allowed = library.specifier or "any"
            wrong.append(f"{library.name} {version or 'is not installed'} ({allowed} allowed)")
    wrong += [f"{n} {v} is a malicious upload" for n, v in MALICIOUS if installed(n) == v]
    observation = "; ".join(wrong) or f"{len(versions)} as allowed: {', '.join(versions)}"
    yield judge("libraries", observation, (wrong, "FAILED", AGAIN))
