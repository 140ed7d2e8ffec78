"""Gates on a victim whose answers are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attacks.goals import Floats
from attacks.outcome import Sample
from measure.gate import Criterion, Gate, GateReport, GateSettings
from text import Text

CLASSES = ("ham", "spam")
SPAM = ["win cash now", "free cash prize", "cheap pills now", "meet me at noon"]
"""The last one is not detected."""
HAM = ["lunch at noon", "see you later", "the cash desk", "running late"]
"""The third one is taken for spam."""
SAMPLES = [
    Sample(sample_id=i, text=text, label=int(i < len(SPAM))) for i, text in enumerate(SPAM + HAM)
]


class Keywords:
    """Detects texts with a word of a list; the margin grows with the length of the text.

    Args:
        words: the words.
    """

    name = "keywords"

    def __init__(self, words: Sequence[str] = ("cash", "pills")) -> None:
        self.words = words
        self.queries: list[Text] = []

    def logits(self, texts: Sequence[Text]) -> Floats:
        self.queries += texts
        rows = []
        for text in map(str, texts):
            hit = any(word in text.split() for word in self.words)
            rows.append([0.0, (1 if hit else -1) * (1 + len(text) / 100)])
        return np.array(rows)


def gate(victim: Any = None, samples: Sequence[Sample] = SAMPLES, **settings: Any) -> GateReport:
    made = GateSettings(**{"positive": "spam", "recipes": "deepwordbug", **settings})
    return Gate(victim or Keywords(), CLASSES, samples, made).run()


def by_name(report: GateReport) -> dict[str, Criterion]:
    return {criterion.name: criterion for criterion in report.criteria}


def criterion(hits: int, checked: int, total: int, limit: float, *, least: bool) -> Criterion:
    outcomes = {i: i < hits for i in range(checked)}
    return Criterion(
        name="c", meaning="texts", limit=limit, least=least, outcomes=outcomes, total=total
    )


def report_of(*criteria: Criterion, **settings: Any) -> GateReport:
    return GateReport(
        victim="v",
        data="d",
        classes=CLASSES,
        criteria=criteria,
        settings=GateSettings(**settings),
        subject={"rows": "x"},
    )
