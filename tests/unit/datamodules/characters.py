"""A small corpus of sentences, as plain text or as characters between spaces."""

import random
from pathlib import Path

WORDS = "the hare ran and a tortoise walked on it was asleep when she won".split()


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(1, 9))) for _ in range(count)]


def spaced(text: str) -> str:
    """As the files of the Penn Treebank have it."""
    return " ".join(text.replace(" ", "_"))


def write(folder: Path, *, plain: bool = True, train: int = 70, other: int = 11) -> None:
    """The files of the three splits."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, count) in enumerate(
        {"train": train, "validation": other, "test": other}.items()
    ):
        lines = sentences(count, seed)
        text = lines if plain else [spaced(line) for line in lines]
        (folder / f"{split}.txt").write_text("\n".join(text) + "\n")
