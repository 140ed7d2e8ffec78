"""Antonyms of a small WordNet; its adjectives point at each other as in the real one."""

from pathlib import Path

import pytest

from attacks.resources.archive import BrokenFile
from attacks.resources.wordnet import WordNet

WIDTH = 100
"""Bytes of a line of data: offsets are multiples of it."""
ADJECTIVES = [
    # "hot" against "cold" (words 1 and 1); "warm" is similar to "hot"; "torrid" has nothing.
    ("hot blistering", "! 1 0101 & 2 0000"),
    ("cold", "! 0 0101 & 3 0000"),
    ("warm", "& 0 0000"),
    ("frosty", "& 1 0000"),
    ("torrid", ""),
]
VERBS = [("rise", "! 1 0101"), ("fall", "! 0 0101")]


def lines(senses: list[tuple[str, str]], part: str) -> tuple[str, str]:
    """The data and the index of a part of speech."""
    data, index = "", []
    for number, (names, links) in enumerate(senses):
        words = names.split()
        parts = links.split()
        pointers = " ".join(
            f"{parts[i]} {int(parts[i + 1]) * WIDTH:08d} {part} {parts[i + 2]}"
            for i in range(0, len(parts), 3)
        )
        listed = " ".join(f"{word} 0" for word in words)
        line = f"{number * WIDTH:08d} 00 {part} {len(words):02x} {listed} {len(parts) // 3:03d} "
        data += f"{line}{pointers} | a gloss".ljust(WIDTH - 1) + "\n"
        index += [f"{word} {part} 1 0 1 0 {number * WIDTH:08d}  " for word in words]
    return data, "\n".join(sorted(index)) + "\n"


@pytest.fixture
def wordnet(tmp_path: Path) -> WordNet:
    content = {
        "noun": lines([("man", "")], "n"),
        "verb": lines(VERBS, "v"),
        "adj": lines(ADJECTIVES, "a"),
        "adv": lines([("so", "")], "r"),
    }
    for part, (data, index) in content.items():
        (tmp_path / f"data.{part}").write_text(data)
        (tmp_path / f"index.{part}").write_text(index)
        (tmp_path / f"{part}.exc").write_text("rose rise\n" if part == "verb" else "")
    return WordNet(tmp_path)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("hot", {"cold"}),
        ("COLD", {"hot"}),
        # The link is of the first word of the sense only.
        ("blistering", set()),
        # All words of the antonym's sense: an indirect antonym is one of a sense.
        ("warm", {"cold"}),
        ("frosty", {"hot"}),
        ("torrid", set()),
        ("rose", {"fall"}),
        ("falls", {"rise"}),
        ("unknown", set()),
        ("man", set()),
    ],
)
def test_antonyms(wordnet: WordNet, word: str, expected: set[str]) -> None:
    assert wordnet.antonyms(word) == expected
    assert wordnet.antonyms(word) == expected  # remembered


def test_base_forms(wordnet: WordNet) -> None:
    assert wordnet.lemmas("Rose") == {"rose", "rise"}
    assert wordnet.lemmas("falls") == {"falls", "fall"}


def test_a_broken_pointer_is_an_error(wordnet: WordNet) -> None:
    data = wordnet._data["adj"]
    wordnet._data["adj"] = data.replace(b"! 00000100 a", b"! 00000100 q")
    with pytest.raises(BrokenFile, match=r"got no sense at 0 of data\.adj"):
        wordnet.antonyms("hot")
