"""The figures of a victim on published texts."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.commands.attack_pairs import _lines, report
from measure.published_pairs import PublishedFile, PublishedPair
from text import Text


class Counting:
    """Says class 1 of texts with a letter."""

    name = "counting"

    def logits(self, texts: list[Text]) -> Any:
        """Return a row of each text."""
        return np.array([[0.5, float(any(map(str.isalpha, "".join(text))))] for text in texts])


def figures(pairs: list[PublishedPair], skipped: int = 0) -> dict[str, Any]:
    """Return the report on pairs of class 1."""
    named: Any = SimpleNamespace(victim=Counting(), classes=["no", "yes"])
    file = PublishedFile(form="records", names=None, pairs=pairs, skipped=skipped)
    return report(file, {one.number: 1 for one in pairs}, named)


@pytest.mark.parametrize("empty", ["", ("", "")])
def test_empty_texts_are_texts(empty: Text) -> None:
    pairs = [
        PublishedPair(number=0, original="a film", adversarial=empty, label=1),
        PublishedPair(number=1, original=empty, adversarial="a film", label=1),
    ]
    paired = figures(pairs)["all"]["paired"]
    assert (paired["lost"], paired["gained"], paired["first"]["count"]) == (1, 1, 2)


def test_rows_without_original_are_on_the_terminal() -> None:
    pairs = [
        PublishedPair(number=0, original="a film", adversarial="a flim", label=1),
        PublishedPair(number=1, original=None, adversarial="7", label=1),
        PublishedPair(number=2, original=None, adversarial="8", label=1),
    ]
    lines = "\n".join(_lines(figures(pairs, skipped=4)))
    assert "accuracy on all 3 adversarials  0.333" in lines
    assert "2 of them without original" in lines
    assert "left out: 4 rows without adversarial text" in lines
