"""The files of attacks in `runs/NAME/attacks/`: records, settings and figures."""

import json
from collections.abc import Mapping
from typing import Any

from app.runs import atomic
from app.runs.run_directory import RunDirectory
from app.runs.sample_records import Record
from attacks.journal import abridge, differences
from attacks.summary import Summary
from text.bounded_files import DataError, json_lines, read_json
from text.json_shapes import check_shape


class AttackFiles:
    """The files of one attack.

    `NAME.jsonl` (the records), `NAME.json` (settings, checkpoint, seconds and figures),
    `NAME.html`, and while it works `NAME.parts/`.

    Args:
        run: the run.
        name: of the files.
    """

    outcome_key = "summary"
    """The name of its end in `NAME.json`."""

    def __init__(self, run: RunDirectory, name: str) -> None:
        folder = run.path / "attacks"
        self.name = name
        self.outcome = folder / f"{name}.jsonl"
        self.side = folder / f"{name}.json"
        self.html = folder / f"{name}.html"

    def seconds(self) -> float:
        """Returns the seconds of former starts."""
        seconds = self._content().get("seconds", 0.0)
        return float(seconds) if isinstance(seconds, int | float) else 0.0

    def problem(self, about: Mapping[str, Any]) -> str | None:
        """Returns the reason that an attack cannot be filed here; None if there is none.

        Args:
            about: its settings, as far as they are known.
        """
        where = f"beside it with --attack.tag NAME, or delete {self.side.with_suffix('')}.*"
        if not self.side.is_file():
            if not self.outcome.is_file():
                return None
            return f"got {self.outcome} without {self.side.name}, expected both: file this {where}"
        before = self._content().get("about")
        if not isinstance(before, dict):
            return f"got {self.side} with unreadable content, expected settings: file this {where}"
        # As it has been written.
        now = json.loads(json.dumps(about))
        other = differences({key: before.get(key) for key in now}, now)
        if not other:
            return None
        return (
            f"got other settings than those of {self.outcome}: {abridge(other)}; expected the "
            f"same, to go on with it: file this {where}"
        )

    def begin(self, about: Mapping[str, Any]) -> None:
        """Writes the settings of the attack, before there are records."""
        if not self.side.is_file():
            self._write(about, 0.0, None)

    def pause(self, about: Mapping[str, Any], seconds: float) -> None:
        """Writes the time that was spent; former figures stay."""
        self._write(about, seconds, self._content().get(self.outcome_key))

    def finish(self, about: Mapping[str, Any], seconds: float, summary: Summary) -> None:
        """Writes the figures."""
        self._write(about, seconds, summary.line())

    def records(self) -> list[Record]:
        """Returns the records of an attack that has ended.

        Raises:
            ValueError: the file holds something else.
        """
        if not self.outcome.is_file():
            return []
        expected = "records of an attack: delete it"
        records = [record for _, record in json_lines(self.outcome, expected)]
        check_shape(records, list[dict[str, Any]], self.outcome)
        return records

    def about(self) -> dict[str, Any]:
        """Returns the settings of the attack; nothing where they are unknown."""
        about = self._content().get("about")
        return about if isinstance(about, dict) else {}

    def _content(self) -> dict[str, Any]:
        try:
            content = read_json(self.side, "settings of an attack")
        except DataError:
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, about: Mapping[str, Any], seconds: float, end: Any) -> None:
        content = {"about": about, "seconds": round(seconds, 3), self.outcome_key: end}
        atomic.write_text(self.side, json.dumps(content, indent=2) + "\n")
