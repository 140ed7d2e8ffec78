"""Writes a small corpus with mistakes in it, for docs/first_hour.md.

python examples/gadgets.py FOLDER writes FOLDER/train.tsv, dev.tsv and test.tsv: notes about
gadgets, good or bad. Four rows of train.tsv cannot be used as they are.
"""

import random
import sys
from pathlib import Path

GOOD = (
    *("the screen is bright and sharp", "the battery lasts two days", "it works at once"),
    *("quick , quiet and easy to set up", "the keyboard feels great", "the sound is clear"),
    *("i would buy it again", "support answered within an hour", "light and well made"),
)
BAD = (
    *("the screen cracked after a week", "the battery dies before noon", "it never worked"),
    *("slow , loud and hard to set up", "the keyboard sticks", "the sound is thin"),
    *("i sent it back", "support never answered", "heavy and badly made"),
)
STARTS = ("", "honestly , ", "after a month : ", "so far : ", "in short , ", "for my work : ")
ENDS = ("", " !", " , really", " , my second one", " for the price", " , as i had hoped")
SPLITS = {"train": (0, 1200), "dev": (1200, 1350), "test": (1350, 1500)}


def notes() -> list[str]:
    """Returns rows: a text with two remarks, a tab, its label; the second remark decides."""
    draw = random.Random(0)
    rows: list[str] = []
    while len(rows) < 1500:
        label = ("good", "bad")[len(rows) % 2]
        last = draw.choice(GOOD if label == "good" else BAD)
        first = draw.choice(BAD if label == "good" else GOOD)
        text = f"{draw.choice(STARTS)}{first} , but {last}{draw.choice(ENDS)}"
        if (row := f"{text}\t{label}") not in rows:
            rows.append(row)
    draw.shuffle(rows)
    return rows


def main() -> None:
    """Writes the three files."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rows = notes()
    rows[11] = "the lid does not close"
    rows[30] = "\tgood"
    rows[56] = "the lid closes\tGOOD"
    rows[89] = "the lid\tcloses\tgood"
    for split, (begin, end) in SPLITS.items():
        lines = ["text\tlabel", *rows[begin:end]]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
