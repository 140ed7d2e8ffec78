"""Writes files whole or not at all."""

import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file so that a crash, a full disk or a reader never meets a half-written one.

    The bytes go to a hidden file in the same directory (elsewhere, the final rename could turn into
    a copy), reach the disk, and then take the name in one step.

    Args:
        path: the file to create or replace.

    Yields:
        A binary stream to write to.

    Raises:
        OSError: the file cannot be written; what stood at `path` before stands there still.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        kept = "what was there before is unchanged" if path.exists() else "nothing was written"
        msg = (
            f"could not write {path}: {error.strerror or error}; {kept}; "
            "make room or correct the permissions, then give the same command again"
        )
        raise OSError(msg) from error
    finally:
        with suppress(OSError):
            part.unlink()


def keep(path: Path, name: Path) -> None:
    """Link `name` to the file at `path`, if there is one; a former `name` is replaced.

    At no moment is there neither of the two. Where the file system has no hard links, `path` itself
    is renamed.

    Raises:
        OSError: neither is possible.
    """
    part = name.with_name(f".{name.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)
        part.hardlink_to(path)
        part.replace(name)
        # Where the two are the same file already, as after a kill just here, that did nothing.
        part.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError:
        path.replace(name)


def sweep(directory: Path, *, older_than: float = 0.0) -> None:
    """Delete what killed processes left half-written.

    Args:
        directory: where; nobody else may be writing there.
        older_than: leave files alone that were touched in these last seconds.
    """
    now = time.time()
    for part in directory.glob(".*.part"):
        with suppress(OSError):
            found = part.lstat()
            if stat.S_ISREG(found.st_mode) and now - found.st_mtime >= older_than:
                part.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8) in one step."""
    with replacing(path) as stream:
        stream.write(text.encode())


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Replace `path` by JSON lines, one per record, in one step."""
    with replacing(path) as stream:
        stream.writelines(json.dumps(record).encode() + b"\n" for record in records)


def replace_folder(fresh: Path, folder: Path) -> None:
    """Let a complete folder take the place of another, or of none.

    Args:
        fresh: beside `folder`; it is gone afterwards.
        folder: what it replaces; removed once the new one is in its place.
    """
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.replace(old)
    fresh.replace(folder)
    shutil.rmtree(old, ignore_errors=True)
