"""The ledger: the subject of each stored outcome, its duration and its figures."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from run_files import atomic
from run_files.run_directory import RunDirectory
from text.bounded_files import DataError, json_lines, read_json
from text.json_shapes import check_shape
from text.subjects import Subject, differences, joined

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""The name of an outcome, and a part of it: its files must stay in their folder."""

Record = dict[str, Any]


class Ledger:
    """The entry of one outcome: `NAME.json` next to its records `NAME.jsonl`."""

    def __init__(self, records: Path) -> None:
        self.records_path = records
        self.path = records.with_suffix(".json")

    @property
    def name(self) -> str:
        """Name of both files."""
        return self.path.stem

    def problem(self, subject: Subject, elsewhere: str) -> str | None:
        """Return the reason why an outcome cannot be filed here; None if it can.

        Stored names that the subject lacks are not compared; `elsewhere` is the advice where to.
        """
        advice = f"{elsewhere}, or delete {self.path.with_suffix('')}.*"
        if not self.path.is_file():
            if not self.records_path.is_file():
                return None
            return f"got {self.records_path} without {self.path.name}, expected both: {advice}"
        content = self._content()
        before = content.get("about")
        if not isinstance(before, dict):
            return f"got {self.path} with unreadable content, expected settings: {advice}"
        if not (changes := differences(before, subject, only=subject.keys())):
            return None
        return (
            f"got other settings than those of {self.records_path}: {joined(changes)}; expected "
            f"the same, to resume it: {advice}"
        )

    def is_about(self, subject: Subject) -> bool:
        """Return True if the stored outcome is about this subject."""
        return self.path.is_file() and not differences(self.subject(), subject, only=subject.keys())

    def subject(self) -> dict[str, Any]:
        """Return the subject of the outcome; empty if it is unknown."""
        subject = self._content().get("about")
        return subject if isinstance(subject, dict) else {}

    def seconds(self) -> float:
        """Return the working time of the outcome; 0 without an outcome."""
        seconds = self._content().get("seconds", 0.0)
        return float(seconds) if isinstance(seconds, int | float) else 0.0

    def has_counted(self, done: int) -> bool:
        """Return True if its seconds are those of this number of records."""
        return self._content().get("samples") == done

    def extra(self, key: str) -> dict[str, Any] | None:
        """Return a further part of the entry; None without it."""
        part = self._content().get(key)
        return part if isinstance(part, dict) else None

    def records(self) -> list[Record]:
        """Return the records; none before the measurement has ended.

        Raises:
            ValueError: the file holds something else.
        """
        if not self.records_path.is_file():
            return []
        expected = "records of a measurement: delete it"
        records = [record for _, record in json_lines(self.records_path, expected)]
        check_shape(records, list[dict[str, Any]], self.records_path)
        return records

    def begin(self, subject: Subject) -> None:
        """Write the subject before there are records; an entry about it is kept."""
        # A finished entry keeps its seconds and its figures.
        if not self.is_about(subject):
            self.finish(subject, 0.0, None)

    def finish(
        self,
        subject: Subject,
        seconds: float,
        summary: Any,
        *,
        samples: int | None = None,
        **extra: Any,
    ) -> None:
        """Write the complete entry; further parts are for `extra`.

        `seconds` is the working time of all starts. Summary and number of samples are None before
        the end.
        """
        content = {"about": subject, "seconds": round(seconds, 3), "summary": summary, **extra}
        if samples is not None:
            content["samples"] = samples
        atomic.write_text(self.path, json.dumps(content, indent=2) + "\n")

    def _content(self) -> dict[str, Any]:
        try:
            content = read_json(self.path, "settings of a measurement")
        except DataError:
            return {}
        return content if isinstance(content, dict) else {}


def attack_ledger(run: RunDirectory, name: str) -> Ledger:
    """Return the ledger of an attack of a run."""
    return Ledger(run.path / "attacks" / f"{name}.jsonl")


def attack_ledgers(run: RunDirectory) -> Sequence[Ledger]:
    """Return the ledgers of all attacks of a run, by name, without those of shards."""
    folder = run.path / "attacks"
    paths = sorted(folder.glob("*.json"), key=lambda path: path.stem)
    return [Ledger(path.with_suffix(".jsonl")) for path in paths if ".shard-" not in path.name]
