"""Time of the bound of the edit distance, and of comparing the whole text of each candidate.

    python -m benchmarks.edit_distance [--words 20,60,250] [--repeats 7] [--out FILE.json]

Texts of random words, in eight of which two letters are swapped already; the candidates replace or
delete a letter, as DeepWordBug does. Both ways have to give the same verdicts.
"""

import time
from functools import partial
from random import Random
from statistics import median

from rapidfuzz.distance import Levenshtein

from attacks.composition import Group
from attacks.constraints import EditDistance
from attacks.document import Document
from benchmarks.command import command, save, settings, table

MAXIMUM = 30
CHANGED = 8


def groups_of(words: int, random: Random) -> list[Group]:
    """Returns the candidates of a hundred words of a changed text."""
    letters = "abcdefghijklmnop"
    drawn = ("".join(random.choices(letters, k=random.randint(2, 9))) for _ in range(words))
    original = Document.of(" ".join(drawn))
    current = original
    for _ in range(CHANGED):
        index = random.randrange(len(current))
        word = current.words[index]
        current = current.accept(current.replace(index, word[1::-1] + word[2:]))
    groups = []
    for _ in range(100):
        index = random.randrange(len(current))
        word = current.words[index]
        changes = [word[:i] + put + word[i + 1 :] for i in range(len(word)) for put in ("x", "")]
        groups.append(Group(original, current, current.replace_by(index, changes)))
    return groups


def compared(groups: list[Group]) -> list[list[bool]]:
    """Compares whole texts."""
    return [
        [
            Levenshtein.distance(group.original.columns[0], one.columns[0], score_cutoff=MAXIMUM)
            <= MAXIMUM
            for one in group.candidates
        ]
        for group in groups
    ]


def main() -> None:
    """Measures and prints.

    Raises:
        ValueError: other verdicts.
    """
    parser = command(__doc__, "out", repeats=7)
    parser.add_argument("--words", default="20,60,250", help="words of a text")
    given = parser.parse_args()
    rows = []
    for words in map(int, given.words.split(",")):
        groups = groups_of(words, Random(0))
        ways = (partial(compared, groups), partial(EditDistance(MAXIMUM).keep, groups))
        if ways[0]() != ways[1]():
            msg = f"got other verdicts on texts of {words} words, expected the same"
            raise ValueError(msg)
        seconds: list[list[float]] = [[], []]
        for _ in range(given.repeats):
            for spent, way in zip(seconds, ways, strict=True):
                began = time.process_time()
                way()
                spent.append(time.process_time() - began)
        count = sum(len(group.candidates) for group in groups)
        whole, bound = (1e6 * median(spent) / count for spent in seconds)
        rows.append([words, whole, bound, whole / bound])
    head = ["words", "whole texts, us", "bound, us", "ratio"]
    print(table(head, rows))
    save(given.out, {"settings": settings(given, "words", "repeats"), "rows": rows})


if __name__ == "__main__":
    main()
