"""The records of an attack on disk: written one by one, and read by the next start."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from attacks.json_lines import append, resume_lines
from attacks.outcome import AttackRecord, Sample, from_line


class Journal:
    """A file of records: a line with the settings, then one line per sample.

    Each record is flushed before the next one is made. A kill leaves at most one torn line, which
    is cut off.

    Args:
        path: the file; made if there is none.
        subject: all that the records depend on.

    Attributes:
        records: those that the file held.

    Raises:
        ValueError: the file is about something else, no such file, or another process writes it.
    """

    def __init__(self, path: str | Path, subject: Mapping[str, Any]) -> None:
        self.path = Path(path)
        kind = "which is about other settings"
        self.records, self._stream = resume_lines(self.path, subject, from_line, kind)

    def of(self, samples: Iterable[Sample]) -> dict[int, AttackRecord]:
        """The records of those samples that have one, by their ids.

        Raises:
            ValueError: a sample of the same id has another text or label.
        """
        by_id = {record.sample_id: record for record in self.records}
        records = {}
        for sample in samples:
            record = by_id.get(sample.sample_id)
            if record is None:
                continue
            # The same id with another text: the caller's samples have changed.
            if (record.text, record.label) != (sample.text, sample.label):
                msg = (
                    f"got {self.path}, where sample {sample.sample_id} is {record.text!r:.80} of "
                    f"class {record.label}, and not {sample.text!r:.80} of class {sample.label}: "
                    "expected the same samples: give another path, or each sample the sample_id "
                    "that it had"
                )
                raise ValueError(msg)
            records[sample.sample_id] = record
        return records

    def add(self, record: AttackRecord) -> None:
        """Write one record."""
        append(self._stream, [record.line()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()
