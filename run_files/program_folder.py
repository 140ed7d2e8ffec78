"""The folder of all packages, and the import path of processes that need it."""

import os
from collections.abc import Mapping
from pathlib import Path

PROGRAM = Path(__file__).parents[1]
"""Folder of the packages and of `configs/`: the checkout, or `steadfast` of the wheel."""


def python_path(environment: Mapping[str, str] = os.environ) -> str:
    """Return a PYTHONPATH with which `python -m app` starts in any working directory."""
    paths = [str(PROGRAM), *filter(None, [environment.get("PYTHONPATH")])]
    return os.pathsep.join(dict.fromkeys(paths))
