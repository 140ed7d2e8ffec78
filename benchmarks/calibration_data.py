"""What the parts of the calibration share: corpora, and how figures are printed."""

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a TSV file with a header, compressed or not."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; floats with three digits."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def angular(cosines: Floats) -> Floats:
    """1 - angle / pi."""
    result: Floats = 1 - np.arccos(cosines) / np.pi
    return result


def ranks(values: Floats) -> Floats:
    """Mean ranks: equal values share theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    result: Floats = (last - (counts - 1) / 2)[inverse]
    return result


def neighbours(data: Path) -> dict[str, list[str]]:
    """Counter-fitted neighbours of each word, the nearest first, at most eight."""
    found: dict[str, list[str]] = {}
    # The second file is the better one for the words it has: nearest first, as measured by angle.
    for name in ("euc_top8_d0.7.json.gz", "counterfitted_neighbors.json.gz"):
        with gzip.open(data / "counterfit" / name, "rt", encoding="utf-8") as file:
            found.update({word: near for word, near in json.load(file).items() if near})
    return found


def samples(data: Path, corpus: str, limit: int) -> list[str]:
    """Texts that TextFooler's authors attacked."""
    lines = (data / "textfooler" / f"{corpus}.txt").read_text(encoding="utf-8").splitlines()
    return [line.partition(" ")[2] for line in Random(0).sample(lines, limit)]
