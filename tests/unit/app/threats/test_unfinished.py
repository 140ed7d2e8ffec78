from collections.abc import Sequence
from pathlib import Path

import pytest

from app.threats.threat_records import Record, Sample
from app.threats.unfinished import certified

SAMPLES = [Sample(i, f"text {i}", i % 2) for i in range(7)]


def lines(some: Sequence[Sample]) -> list[Record]:
    return [{"sample_id": one.sample_id, "text": one.text} for one in some]


@pytest.mark.parametrize("torn", [False, True])
def test_parts_that_are_there_are_not_made_again(tmp_path: Path, torn: bool) -> None:
    path, asked = tmp_path / "journal.jsonl", list[int]()

    def killed(some: Sequence[Sample]) -> list[Record]:
        asked.extend(one.sample_id for one in some)
        if len(asked) == 6:
            raise KeyboardInterrupt
        return lines(some)

    with pytest.raises(KeyboardInterrupt):
        certified(path, {"k": ("1",)}, SAMPLES, killed, at_once=2)
    if torn:
        path.write_bytes(path.read_bytes()[:-9])
    again = list[int]()

    def noted(some: Sequence[Sample]) -> list[Record]:
        again.extend(one.sample_id for one in some)
        return lines(some)

    found = certified(path, {"k": ("1",)}, SAMPLES, noted, at_once=2)
    assert found.records == lines(SAMPLES)
    assert again == list(range(2 if torn else 4, 7))
    assert found.seconds >= 0
    # All are there: killed when the outcome was not yet filed.
    assert certified(path, {"k": ("1",)}, SAMPLES, noted, at_once=2) == found
    assert again[-1] == 6


def test_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    certified(path, {"k": ["1"], "split": "test"}, SAMPLES, lines, at_once=4)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r'other settings \(split "test" -> "validation"\)'):
        certified(path, {"k": ["1"], "split": "validation"}, SAMPLES, lines, at_once=4)
    assert path.read_bytes() == before


def test_parts_of_an_outcome_that_is_filed_hinder_nobody(tmp_path: Path) -> None:
    path, filed = tmp_path / "journal.jsonl", {"k": ["1"], "split": "test", "threat_from": {}}
    certified(path, {"k": ("1",), "split": "test"}, SAMPLES, lines, at_once=4)
    other = {"k": ["2"], "split": "test"}
    for about in ({}, {**filed, "split": "validation"}):
        with pytest.raises(ValueError, match="other settings"):
            certified(path, other, SAMPLES, lines, at_once=4, filed=about)
    asked = list[int]()

    def noted(some: Sequence[Sample]) -> list[Record]:
        asked.extend(one.sample_id for one in some)
        return lines(some)

    assert certified(path, other, SAMPLES, noted, at_once=4, filed=filed).records == lines(SAMPLES)
    assert asked == list(range(7))
    # The same settings: nothing is certified twice.
    certified(path, other, SAMPLES, noted, at_once=4, filed={**filed, "k": ["2"]})
    assert len(asked) == 7
