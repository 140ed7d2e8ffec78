"""The program's version, its git revision and the versions of its libraries."""

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from run_files.program_folder import PROGRAM


@cache
def version() -> str:
    """Return the version of the installed package or of the checkout."""
    try:
        return metadata.version("steadfast-nlp")
    except metadata.PackageNotFoundError:
        project = PROGRAM / "pyproject.toml"
        if not project.is_file():
            return "unknown"
        import tomllib

        return str(tomllib.loads(project.read_text())["project"]["version"])


def revision() -> str:
    """Return the git revision of the image, the wheel or the checkout, as the process began."""
    if image := os.environ.get("STEADFAST_REVISION"):  # set in images, which have no .git
        return image
    if (PROGRAM / "REVISION").is_file():  # of a wheel: setup.py writes it
        return (PROGRAM / "REVISION").read_text().strip()
    return _describe(PROGRAM) if (PROGRAM / ".git").exists() else "unknown"


@cache  # each `git describe` reads the whole checkout
def _describe(root: Path) -> str:
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return described.stdout.strip()


def line() -> str:
    """Return the line that `--version` prints."""
    return f"steadfast {version()} (git {revision()})"


def versions() -> dict[str, str]:
    """Return the versions that results depend on, for `results.json`."""
    # Those that can change a number.
    libraries = ("torch", "pytorch-lightning", "torchmetrics", "transformers", "numpy")
    return {
        "steadfast": version(),
        "revision": revision(),
        "python": platform.python_version(),
        **{library: _library(library) for library in libraries},
    }


@cache  # each search reads the list of installed packages
def _library(name: str) -> str:
    return metadata.version(name)
