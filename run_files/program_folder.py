"""The folder of all packages, and the import path of processes that need it."""

import os
from collections.abc import Mapping
from pathlib import Path

from text.module_names import real_name

PROGRAM = Path(__file__).parents[1]
"""Folder of the packages and of `configs/`: the checkout, or `steadfast` of the wheel."""
MODULE = real_name("app")
"""`python -m MODULE` is the command line: `app`, or `steadfast.app` of the wheel."""


def python_path(environment: Mapping[str, str] = os.environ) -> str:
    """Return a PYTHONPATH with which `python -m MODULE` starts in any working directory."""
    # An installed program is found as it is, and must not hide packages of the user.
    own = [str(PROGRAM)] if MODULE == "app" else []
    paths = [*own, *filter(None, [environment.get("PYTHONPATH")])]
    return os.pathsep.join(dict.fromkeys(paths))
