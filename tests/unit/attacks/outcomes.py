"""Records by hand."""

from pathlib import Path
from typing import Any

from attacks.json_lines import read_lines
from attacks.outcome import AttackRecord, from_line


def read_journal(path: Path) -> tuple[Any, list[AttackRecord], int]:
    """The settings of a journal, its records, and their length in bytes."""
    return read_lines(path, from_line)


def record(sample_id: int = 0, **given: Any) -> AttackRecord:
    """A sample of class 1 whose attack failed; anything can be given otherwise."""
    content: dict[str, Any] = {
        "sample_id": sample_id,
        "label": 1,
        "prediction": 1,
        "outcome": "failed",
        "text": "a good film",
        "adversarial": "a good film",
        "adversarial_prediction": 1,
        "score": -1.0,
        "adversarial_score": -0.5,
        "words": 3,
        "words_changed": 0,
        "similarity": None,
        "queries": 10,
        "unique_queries": 8,
        "exhausted": False,
        "saturated": False,
        "seconds": 0.5,
        "seed": 0,
    }
    return AttackRecord(**{**content, **given})


def flipped(sample_id: int = 0, **given: Any) -> AttackRecord:
    """One whose attack succeeded."""
    content = {
        "outcome": "succeeded",
        "adversarial": "a fine film",
        "adversarial_prediction": 0,
        "adversarial_score": 0.5,
        "words_changed": 1,
    }
    return record(sample_id, **{**content, **given})


def skipped(sample_id: int = 0, **given: Any) -> AttackRecord:
    """One that was misclassified."""
    content = {
        "outcome": "skipped",
        "prediction": 0,
        "adversarial": None,
        "adversarial_prediction": None,
        "score": 0.7,
        "adversarial_score": None,
        "queries": 1,
        "unique_queries": 1,
    }
    return record(sample_id, **{**content, **given})
