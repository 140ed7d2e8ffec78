"""The file of `augment`: a journal while it works, the complete file at its end."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from attacks.digests import content_digest
from attacks.json_lines import append, open_lines, read_lines
from run_files.atomic import replacing
from text import Text
from text.subjects import differences, joined


class AugmentedFile:
    """Writes each record into the journal `FILE.journal`, and the file at the end in one step.

    Args:
        path: the file; an old one is replaced at the end.
        subject: all settings on which the records depend.
        texts: all texts.

    Attributes:
        records: records of former starts, then those of this one.

    Raises:
        ValueError: the journal is about other settings or texts.
    """

    def __init__(self, path: Path, subject: Mapping[str, Any], texts: Sequence[Text]) -> None:
        self.path = path
        self._journal = path.with_name(f"{path.name}.journal")
        # As it will be read: JSON turns tuples into lists.
        settings = json.loads(json.dumps({**subject, "texts": content_digest(list(texts))}))
        self.records: list[dict[str, Any]] = []
        length = 0
        if self._journal.is_file() and self._journal.stat().st_size:
            before, self.records, length = read_lines(self._journal, dict)
            changes = differences(before or {}, settings)
            content = b"".join(map(_line, self.records))
            if changes and self.path.is_file() and self.path.read_bytes() == content:
                # The file is complete: a kill came before its journal was removed.
                self.records, length = [], 0
            elif length and changes:
                msg = (
                    f"got {self._journal} with other settings ({joined(changes)}), expected "
                    "the same: give another --output, or delete it"
                )
                raise ValueError(msg)
        self._stream: IO[bytes] = open_lines(self._journal, settings, length)

    def add(self, record: dict[str, Any]) -> None:
        """Write one record."""
        append(self._stream, [record])
        self.records.append(record)

    def finish(self) -> None:
        """Write the file, and remove the journal."""
        with replacing(self.path) as stream:
            stream.writelines(map(_line, self.records))
        self._stream.close()
        self._journal.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
