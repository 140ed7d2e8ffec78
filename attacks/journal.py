"""Records on disk, one line per sample as they are made, that the next sitting takes up."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from attacks.outcome import AttackRecord, Sample, from_line

_TOLD = 4
"""Differences that a message names."""


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What two mappings of settings do not have in common, for a message."""
    return [
        f"{key} {_short(before.get(key))} -> {_short(now.get(key))}"
        for key in {**before, **now}
        if before.get(key) != now.get(key)
    ]


def told(other: Sequence[str]) -> str:
    """Some of the differences, and how many more there are."""
    more = f" and {len(other) - _TOLD} more" if len(other) > _TOLD else ""
    return ", ".join(other[:_TOLD]) + more


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 48 else f"{text[:45]}..."


class Journal:
    """A file of records: a line with the settings, then one line per sample.

    Each record is on its way to the disk before the next one is made; a program that is killed
    leaves at most one torn line, which is cut off.

    Args:
        path: the file; made if it is not there.
        about: all that the records depend on.

    Attributes:
        records: what the file held.

    Raises:
        ValueError: the file is about something else, or no such file.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path = Path(path)
        # As it will be read.
        settings = json.loads(json.dumps(about))
        self.records: list[AttackRecord] = []
        self._stream: IO[bytes]
        if self.path.is_file() and self.path.stat().st_size:
            found, self.records, length = read(self.path)
            other = differences(found, settings)
            if other:
                msg = (
                    f"got {self.path}, which is about other settings ({told(other)}), "
                    "expected the same: give another path, or the former settings"
                )
                raise ValueError(msg)
            self._stream = self.path.open("r+b")
            self._stream.truncate(length)
            self._stream.seek(length)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self.path.open("wb")
            self._write({"about": settings})

    def of(self, samples: Iterable[Sample]) -> dict[int, AttackRecord]:
        """The records of those samples that have one, by their ids.

        Raises:
            ValueError: a sample of the same id has another text or label.
        """
        known = {record.sample_id: record for record in self.records}
        found = {}
        for sample in samples:
            record = known.get(sample.sample_id)
            if record is None:
                continue
            if (record.text, record.label) != (sample.text, sample.label):
                msg = (
                    f"got {self.path}, where sample {sample.sample_id} is {record.text!r:.80} of "
                    f"class {record.label}, and not {sample.text!r:.80} of class {sample.label}: "
                    "expected the same samples: give another path, or each sample the sample_id "
                    "that it had"
                )
                raise ValueError(msg)
            found[sample.sample_id] = record
        return found

    def add(self, record: AttackRecord) -> None:
        """Write one record."""
        self._write(record.line())

    def _write(self, content: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(content).encode() + b"\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()


def read(path: str | Path) -> tuple[dict[str, Any], list[AttackRecord], int]:
    """What a journal is about, its records, and their length in bytes.

    Reading ends at the first line that is not whole, as a kill or a full disk leaves it.

    Raises:
        ValueError: the file is no journal.
    """
    about: Any = None
    records: list[AttackRecord] = []
    length = 0
    with Path(path).open("rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break
            try:
                content = json.loads(line)
                if about is None:
                    about = content["about"]
                else:
                    records.append(from_line(content))
            except (KeyError, TypeError, ValueError):
                break
            length += len(line)
    if not isinstance(about, dict):
        msg = f"got {path}, which does not begin with settings, expected a file that attack() made"
        raise ValueError(msg)
    return about, records, length
