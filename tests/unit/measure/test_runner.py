"""The runner files what a measurement has found, and how long it took, once."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from measure.measurement import Measurement, Record
from measure.runner import run
from run_files.run_directory import RunDirectory
from run_files.sample_records import Records


class Numbered(NamedTuple):
    sample_id: int


class Slow(Measurement[Numbered]):
    """Takes 0.2 seconds for all of its samples together."""

    stage, file, elsewhere = "attack/slow", "attacks/slow.jsonl", "elsewhere"

    def subject(self) -> dict[str, Any]:
        return {"checkpoint": "abc"}

    def samples(self) -> Sequence[Numbered]:
        return [Numbered(i) for i in range(4)]

    def measure(self, samples: Sequence[Numbered]) -> Iterator[Sequence[Record]]:
        for sample in samples:
            time.sleep(0.05)
            yield [{"sample_id": sample.sample_id}]

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        return {"samples": len(records)}


class Folder:
    """An archive that keeps the seconds."""

    def __init__(self, path: Path) -> None:
        self.files, self.seconds = RunDirectory(path), 0.0

    def begin(self, stage: str) -> None:
        """Nothing to do."""

    def admit(self, subject: Mapping[str, Any]) -> dict[str, Any]:
        return dict(subject)

    def file(
        self, stage: str, metrics: Mapping[str, float], seconds: float, subject: Mapping[str, Any]
    ) -> None:
        self.seconds = seconds


def test_a_kill_after_the_ledger_counts_no_second_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Folder(tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(Folder, "file", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            run(Slow(), archive)
    ledger = tmp_path / "attacks" / "slow.json"
    spent = json.loads(ledger.read_text())["seconds"]
    assert spent >= 0.2
    assert (tmp_path / "attacks" / "slow.parts").exists()
    run(Slow(), archive)
    assert spent <= archive.seconds < 1.5 * spent
    assert not (tmp_path / "attacks" / "slow.parts").exists()


def test_a_kill_between_records_and_ledger_loses_no_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Folder(tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(Slow, "figures", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            run(Slow(), archive)
    run(Slow(), archive)
    assert archive.seconds >= 0.2


def test_records_of_more_samples_add_their_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Folder(tmp_path)
    with monkeypatch.context() as fewer:
        fewer.setattr(Slow, "samples", lambda _: [Numbered(0), Numbered(1)])
        run(Slow(), archive)
    with monkeypatch.context() as killed:
        killed.setattr(Records, "merge", lambda _: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            run(Slow(), archive)
    run(Slow(), archive)
    assert archive.seconds >= 0.2
