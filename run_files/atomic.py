"""Write files completely or not at all."""

import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a disk, a quota or a limit on the size of files that is used up."""


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream that replaces a file: no crash, full disk or reader ever sees half of it.

    Raises:
        OSError: the file cannot be written; the one at `path` is unchanged.
    """
    # In the same directory: a rename across file systems would be a copy, which is not atomic.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            # Before the rename, or a power cut may leave the new name with empty content.
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        raise _not_written(path, error) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _not_written(path: Path, error: OSError) -> OSError:
    # Not its temporary name, of which a user knows nothing.
    state = "what was there before is unchanged" if path.exists() else "nothing was written"
    if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
        file = file_above(path)
        obstacle = "it is a folder" if file is None else f"{file} is a file, expected a folder"
        return OSError(f"could not write {path}: {obstacle}; {state}; give another path")
    return OSError(
        f"could not write {path}: {error.strerror or error}; {state}; "
        "make room or correct the permissions, then give the same command again"
    )


def file_above(path: Path) -> Path | None:
    """Return the file below which nothing can be written at a path; None if there is none."""
    return next((parent for parent in path.parents if parent.is_file()), None)


def keep(path: Path, name: Path) -> None:
    """Link `name` to the file at `path`, if there is one; a former `name` is replaced.

    At every moment at least one of the two exists. Without hard links, `path` itself is renamed.

    Raises:
        OSError: the file can be neither linked nor renamed.
    """
    part = name.with_name(f".{name.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)
        part.hardlink_to(path)
        part.replace(name)
        # rename(2) does nothing if both names are links to the same file, as after a kill here.
        part.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError:
        path.replace(name)


def sweep(directory: Path, *, older_than: float = 0.0) -> None:
    """Delete unfinished files of killed processes that have not changed for so many seconds.

    Younger ones may be those of another process that writes there.
    """
    now = time.time()
    for part in directory.glob(".*.part"):
        with suppress(OSError):
            status = part.lstat()
            if stat.S_ISREG(status.st_mode) and now - status.st_mtime >= older_than:
                part.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8) in one step."""
    with replacing(path) as stream:
        stream.write(text.encode())


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Replace `path` by JSON lines, one per record, in one step."""
    with replacing(path) as stream:
        stream.writelines(json.dumps(record).encode() + b"\n" for record in records)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder to fill, which replaces `folder` at the end of the block.

    An error or a crash leaves the former folder complete. Files get ordinary modes (0644 less the
    umask), whatever a library gave them.
    """
    fresh, old = (folder.with_name(f".{folder.name}.{state}") for state in ("new", "old"))
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
    except OSError as error:
        raise _not_written(folder, error) from error
    try:
        yield fresh
        # As `mkdir` has made it: the umask cannot be read without a change.
        mode = stat.S_IMODE(fresh.stat().st_mode)
        for path in fresh.rglob("*"):
            path.chmod(mode if path.is_dir() else mode & 0o666)
            if path.is_file():
                with path.open("rb") as stream:
                    os.fsync(stream.fileno())  # as in `replacing`
        # A directory that is not empty cannot be replaced by a rename: the old one moves away.
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            folder.replace(old)
        fresh.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
    except Exception as error:
        # Libraries wrap it in errors of their own; other errors may be about reading.
        for number in NO_ROOM:
            if os.strerror(number) in str(error):
                raise _not_written(folder, OSError(number, os.strerror(number))) from error
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if not folder.exists() and old.exists():
            old.replace(folder)
