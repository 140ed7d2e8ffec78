"""The answers of a paid or slow victim on disk: no text is asked about twice."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attacks.journal import differences, told
from attacks.json_lines import append, open_lines, read_lines
from text import Text


class AnswerCache:
    """Numbers of each class by text; each answer is on disk before the next one is used.

    A kill leaves at most one torn line, which is cut off.

    Args:
        path: the file, made if there is none; None keeps answers in memory only.
        about: all that the answers depend on.

    Raises:
        ValueError: the file is about another service, other templates or other classes.
    """

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        self._stream = None
        self._known: dict[Text, list[float]] = {}
        if path is None:
            return
        settings, length = json.loads(json.dumps(about)), 0
        if path.is_file() and path.stat().st_size:
            found, records, length = read_lines(path, _record)
            other = differences(found if isinstance(found, dict) else {}, settings)
            if other:
                msg = (
                    f"got {path} with answers of another victim ({told(other)}), expected the "
                    "same: give another --out, or move the file away"
                )
                raise ValueError(msg)
            self._known.update(records)
        self._stream = open_lines(path, settings, length)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, text: Text) -> bool:
        return text in self._known

    def __getitem__(self, text: Text) -> list[float]:
        return self._known[text]

    def add(self, answers: Iterable[tuple[Text, Sequence[float]]]) -> None:
        """Keeps answers."""
        fresh = [(text, list(row)) for text, row in answers if text not in self._known]
        self._known.update(fresh)
        if self._stream is not None:
            append(self._stream, ({"text": text, "row": row} for text, row in fresh))

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        if self._stream is not None:
            self._stream.close()


def _record(line: Any) -> tuple[Text, list[float]]:
    text = line["text"]
    return (text if isinstance(text, str) else (text[0], text[1])), [float(x) for x in line["row"]]
