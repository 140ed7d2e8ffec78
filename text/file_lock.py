"""Locks of files that several processes read, change and write."""

import errno
import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

WARNING_SECONDS = 5.0
"""Seconds of waiting after which a line names the holder of a lock."""
WAITING_SECONDS = 600.0
"""Seconds of waiting after which it is an error: every change under a lock takes far less."""
_PAUSE = 0.02


def take(stream: IO[bytes]) -> bool:
    """Lock an open file for this process alone, until it is closed; False if another has it.

    The kernel gives the lock back when its holder ends, however it ends.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, *, patience: float = WAITING_SECONDS) -> Iterator[None]:
    """Let one process at a time read, change and write a file.

    Args:
        path: the file. The lock is on `.NAME.lock` next to it, which is never deleted: a process
            could delete the lock of another.
        patience: seconds after which waiting for it is an error.

    Raises:
        OSError: the lock cannot be written, or the file system has none.
        TimeoutError: another process has held it for more than `patience` seconds.
    """
    lock = path.with_name(f".{path.name}.lock")
    began = time.monotonic()
    warned = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = lock.open("a+b", buffering=0)
    except OSError as error:
        raise _unusable(path, error) from error
    with stream:
        while not _try_lock(path, stream):
            waited = time.monotonic() - began
            if waited > patience:
                msg = (
                    f"got {path}, which {_holder(stream)} has held for {waited:.0f} seconds, "
                    "expected it free within them: end that process, then give the command again"
                )
                raise TimeoutError(msg)
            if not warned and waited > WARNING_SECONDS:
                log.warning("waiting for %s, which %s holds", path, _holder(stream))
                warned = True
            time.sleep(_PAUSE)
        # The name of the holder, for the messages of waiting processes.
        stream.truncate(0)
        with suppress(OSError):  # a full disk, which the change itself reports
            stream.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield


def _try_lock(path: Path, stream: IO[bytes]) -> bool:
    try:
        return take(stream)
    except OSError as error:
        raise _unusable(path, error) from error


def _holder(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(200).decode("utf-8", "replace") or "another process"


def _unusable(path: Path, error: OSError) -> OSError:
    no_locks = error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
    why = "its file system has no locks" if no_locks else error.strerror or str(error)
    return OSError(
        f"could not lock {path} to write it: {why}; nothing was written; use a folder on a file "
        "system with locks that you may write to"
    )
