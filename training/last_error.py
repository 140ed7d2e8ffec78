"""Passes the last error of a process to the process that started it."""

import contextlib
import os
import threading
from pathlib import Path

LAUNCHER_VARIABLE = "STEADFAST_LAUNCHER"
"""Environment variable with the id of the process that has started the others."""
ERRORS_VARIABLE = "STEADFAST_ERRORS"
"""Environment variable with the folder where those write their last error."""
reported = threading.Event()
"""Set when this process has printed its error."""
printing = threading.Lock()
"""Held while the error is printed: the main thread and the watcher may fail at the same time."""


def leave_error(message: str) -> None:
    """Write the error of this process to a file for its parent."""
    folder = os.environ.get(ERRORS_VARIABLE)
    if folder is not None and os.environ.get(LAUNCHER_VARIABLE) != str(os.getpid()):
        with contextlib.suppress(OSError):
            Path(folder, str(os.getpid())).write_text(message, encoding="utf-8")


def read_error(pid: int) -> str:
    """Return the first line of the error of a process; an empty string without an error."""
    try:
        path = Path(os.environ[ERRORS_VARIABLE], str(pid))
        return path.read_text(encoding="utf-8").partition("\n")[0]
    except (KeyError, OSError):
        return ""
