"""Why a process of a run ends: for the process that has started it, and for its own watch."""

import contextlib
import os
import threading
from pathlib import Path

LAUNCHER_VARIABLE = "STEADFAST_LAUNCHER"
"""Environment variable by which a process tells those it starts who it is."""
ERRORS_VARIABLE = "STEADFAST_ERRORS"
"""Environment variable with the folder in which those leave their last error for it."""
reported = threading.Event()
"""Set once this process has printed why it ends."""


def leave_error(message: str) -> None:
    """Leave the error of this process for the one that has started it."""
    folder = os.environ.get(ERRORS_VARIABLE)
    if folder is not None and os.environ.get(LAUNCHER_VARIABLE) != str(os.getpid()):
        with contextlib.suppress(OSError):
            Path(folder, str(os.getpid())).write_text(message, encoding="utf-8")


def error_of(pid: int) -> str:
    """Return the first line of the error that a process has left; nothing where it has not."""
    folder = os.environ.get(ERRORS_VARIABLE)
    if folder is None:
        return ""
    with contextlib.suppress(OSError):
        return Path(folder, str(pid)).read_text(encoding="utf-8").partition("\n")[0]
    return ""
