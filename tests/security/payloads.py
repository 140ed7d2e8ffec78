"""Real payloads: what an attacker would put into a file."""

import gzip
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Marker:
    """The trace that payloads leave: a file."""

    path: Path

    @property
    def command(self) -> str:
        """A shell command that leaves it."""
        return f"touch {self.path}"

    def untouched(self) -> bool:
        """Whether no payload has been executed."""
        return not self.path.exists()


class Shell:
    """Unpickled, runs a shell command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


class Evaluate:
    """Unpickled, evaluates Python."""

    def __init__(self, marker: Marker) -> None:
        self.code = f"open({str(marker.path)!r}, 'w').close()"

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"exec({self.code!r})",)


class Hidden:
    """Unpickled, leaves a dict like any other, whose making runs a shell command."""

    def __init__(self, marker: Marker) -> None:
        self.code = f"{{'lr': __import__('os').system({marker.command!r})}}"

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self.code,)


def works(payload: object, marker: Marker) -> bool:
    """Whether a payload is a real one: executed here, and its trace taken away again."""
    pickle.loads(pickle.dumps(payload))
    done = marker.path.exists()
    marker.path.unlink(missing_ok=True)
    return done


def gzip_bomb(path: Path, begin: bytes, block: bytes, count: int) -> None:
    """A gzip file of `begin` and `count` times `block`: members in a row, each packed once."""
    member = gzip.compress(block)
    with path.open("wb") as file:
        file.write(gzip.compress(begin))
        for _ in range(count):
            file.write(member)
