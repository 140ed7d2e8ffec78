"""The file that `augment` writes: a journal while it works, and the whole file at its end."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from app.runs.atomic import replacing
from attacks.digests import content_digest
from attacks.journal import abridge, differences
from attacks.json_lines import append, open_lines, read_lines
from text import Text


class Augmented:
    """Keeps each record as it is made, and writes the file in one step when all are there.

    The journal `FILE.journal` lies beside the file, and goes with its end.

    Args:
        path: the file; an old one is replaced at the end.
        about: all that the records depend on.
        texts: all texts.

    Attributes:
        done: records of former starts, then those of this one.

    Raises:
        ValueError: the journal belongs to other settings or texts.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], texts: Sequence[Text]) -> None:
        self.path = path
        self._journal = path.with_name(f"{path.name}.journal")
        settings = json.loads(json.dumps({**about, "texts": content_digest(list(texts))}))
        self.done: list[dict[str, Any]] = []
        length = 0
        if self._journal.is_file() and self._journal.stat().st_size:
            before, self.done, length = read_lines(self._journal, dict)
            other = differences(before or {}, settings)
            if other and self._is_filed():
                # A kill came between the end of the file and that of its journal.
                self.done, length = [], 0
            elif length and other:
                msg = (
                    f"got {self._journal}, which is about other settings ({abridge(other)}), "
                    "expected the same: give another --output, or delete it"
                )
                raise ValueError(msg)
        self._stream: IO[bytes] = open_lines(self._journal, settings, length)

    def _is_filed(self) -> bool:
        """True if the file holds all records of the journal."""
        return self.path.is_file() and self.path.read_bytes() == b"".join(map(_line, self.done))

    def add(self, record: dict[str, Any]) -> None:
        """Writes one record."""
        append(self._stream, [record])
        self.done.append(record)

    def finish(self) -> None:
        """Writes the file, and removes the journal."""
        with replacing(self.path) as stream:
            for record in self.done:
                stream.write(_line(record))
        self._stream.close()
        self._journal.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
