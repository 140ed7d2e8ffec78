"""Writes a corpus with mistakes, for docs/first_hour.md: `python examples/gadgets.py FOLDER`."""

import random
import sys
from pathlib import Path

GOOD = """the screen is bright and sharp/the battery lasts two days/it works at once/quick , quiet
and easy to set up/the keyboard feels great/the sound is clear/i would buy it again/support
answered within an hour/light and well made""".replace("\n", " ").split("/")
BAD = """the screen cracked after a week/the battery dies before noon/it never worked/slow , loud
and hard to set up/the keyboard sticks/the sound is thin/i sent it back/support never answered/heavy
and badly made""".replace("\n", " ").split("/")
STARTS = ("", "honestly , ", "after a month : ", "so far : ", "in short , ", "for my work : ")
ENDS = ("", " !", " , really", " , my second one", " for the price", " , as i had hoped")


def main() -> None:
    """Write train.tsv, dev.tsv and test.tsv; of the two remarks of a note the second decides."""
    draw, rows, folder = random.Random(0), list[str](), Path(sys.argv[1])
    while len(rows) < 1500:
        good = len(rows) % 2 == 0
        last, first = draw.choice(GOOD if good else BAD), draw.choice(BAD if good else GOOD)
        text = f"{draw.choice(STARTS)}{first} , but {last}{draw.choice(ENDS)}"
        if (row := f"{text}\t{'good' if good else 'bad'}") not in rows:
            rows.append(row)
    draw.shuffle(rows)
    rows[11], rows[30] = "the lid does not close", "\tgood"
    rows[56], rows[89] = "the lid closes\tGOOD", "the lid\tcloses\tgood"
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", rows[:1200]), ("dev", rows[1200:1350]), ("test", rows[1350:])):
        lines = ["text\tlabel", *part]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
