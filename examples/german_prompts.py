"""Writes the German prompts of `prompt_injections` as files that `--data TextFiles` reads.

    python -m examples.german_prompts DIR german

docs/attacks.md trains, certifies and attacks a classifier of them; docs/data.md has the corpus.
"""

import csv
import sys
from pathlib import Path

from text.stop_words import ENGLISH, LISTS

NAMES = {"0": "harmless", "1": "injection"}


def is_german(text: str) -> bool:
    """Return True if a text has more words of German than of English grammar."""
    words = text.lower().split()
    return sum(word in LISTS["german"] for word in words) > sum(word in ENGLISH for word in words)


def main(source: Path, target: Path) -> None:
    """Write the German prompts of each split."""
    target.mkdir(parents=True, exist_ok=True)
    for split in ("train", "validation", "test"):
        path = source / "prompt_injections" / f"{split}.tsv"
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines, delimiter="\t") if is_german(row["text"])]
        with (target / f"{split}.tsv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
            writer.writerows([("text", "label"), *((r["text"], NAMES[r["label"]]) for r in rows)])
        print(f"{target / split}.tsv: {len(rows)} texts")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
