"""The answers of a paid or slow victim on disk: no text is asked about twice."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from attacks.json_lines import append, resume_lines, writable
from text import Text


class AnswerCache:
    """Numbers of each class by text; each answer is on disk before the next one is used.

    A kill leaves at most one torn line, which is cut off. Texts with half a surrogate pair stay in
    memory.

    Args:
        path: the file, made if there is none; None keeps answers in memory only.
        subject: all that the answers depend on.
        check: raises ValueError for invalid numbers; on disk, these are passed over.

    Attributes:
        asked: texts that were asked about, those that were asked about again counted each time.

    Raises:
        ValueError: the file is about another service, other templates or other classes.
    """

    def __init__(
        self,
        path: Path | None,
        subject: Mapping[str, Any],
        check: Callable[[Sequence[float]], None],
    ) -> None:
        self._stream: IO[bytes] | None = None
        self.asked = 0
        self._known: dict[Text, list[float]] = {}
        if path is None:
            return
        records, self._stream = resume_lines(
            path, subject, _record, "with answers of another victim"
        )
        for text, row, again in records:
            self.asked += 1
            with suppress(ValueError):
                check(row)
                if not again:
                    self._known[text] = row

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, text: Text) -> bool:
        return text in self._known

    def __getitem__(self, text: Text) -> list[float]:
        return self._known[text]

    def add(self, answers: Iterable[tuple[Text, Sequence[float]]]) -> None:
        """Keep answers."""
        fresh = [(text, list(row)) for text, row in answers if text not in self._known]
        self._known.update(fresh)
        self._write([{"text": text, "row": row} for text, row in fresh])

    def count(self, answers: Iterable[tuple[Text, Sequence[float]]]) -> None:
        """Count invalid answers, and those to texts that were asked about again."""
        self._write([{"text": text, "row": list(row), "again": True} for text, row in answers])

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self.asked += len(lines)
        if self._stream is not None:
            append(self._stream, [line for line in lines if writable(line["text"])])

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def _record(line: Any) -> tuple[Text, list[float], bool]:
    text = line["text"] if isinstance(line["text"], str) else (line["text"][0], line["text"][1])
    return text, [float(x) for x in line["row"]], bool(line.get("again"))
