"""Misspellings."""

import string
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.composition import Job
from attacks.document import Document, count_words
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    Homoglyphs,
    InsertCharacter,
    InsertSpace,
    SubstituteCharacter,
    SwapCharacters,
)
from attacks.transformations.characters import LOOK_ALIKE
from attacks.transformations.word_swap import WordSwap

INNER = {"one": False, "keep_first": True, "keep_last": True}


def words(transformation: WordSwap, word: str, seed: int = 0) -> list[str]:
    document = Document.of(word)
    jobs = [Job(document, document, range(len(document)), Random(seed), 0)]
    return [one.word for one in transformation.propose(jobs)[0]]


def test_all_swaps() -> None:
    assert words(SwapCharacters(one=False), "film") == ["iflm", "flim", "fiml"]
    assert words(SwapCharacters(**INNER), "film") == ["flim"]
    assert words(SwapCharacters(one=False), "see") == ["ese"]  # the other one changes nothing
    assert words(SwapCharacters(**INNER), "her") == []


def test_all_deletions() -> None:
    assert words(DeleteCharacter(one=False), "film") == ["ilm", "flm", "fim", "fil"]
    assert words(DeleteCharacter(**INNER), "film") == ["flm", "fim"]
    assert words(DeleteCharacter(**INNER), "an") == []


def test_all_substitutions() -> None:
    assert words(SubstituteCharacter(one=False, letters="x"), "an") == ["xn", "ax"]


def test_all_insertions() -> None:
    # Never behind the last character, as in the reference.
    assert words(InsertCharacter(one=False, letters="x"), "an") == ["xan", "axn"]


def test_all_spaces() -> None:
    assert words(InsertSpace(one=False), "films") == ["f ilms", "fi lms", "fil ms"]
    assert words(InsertSpace(), "an") == []


def test_look_alikes() -> None:
    assert len(LOOK_ALIKE) == 38
    assert words(Homoglyphs(), "A1-b") == ["Al-b", "A1˗b", "A1-Ь"]
    assert words(Homoglyphs(), "É") == []
    assert all(count_words(look) == 1 for look in LOOK_ALIKE.values())


MAKERS: list[Callable[[], WordSwap]] = [
    SwapCharacters,
    DeleteCharacter,
    SubstituteCharacter,
    InsertCharacter,
    InsertSpace,
]


@pytest.mark.parametrize("make", MAKERS)
def test_one_random_candidate(make: Callable[[], WordSwap]) -> None:
    found = {tuple(words(make(), "wonderful", seed)) for seed in range(200)}
    assert all(len(one) <= 1 for one in found)  # none where the letter was that letter
    assert len(found) > 4
    assert words(make(), "wonderful", 7) == words(make(), "wonderful", 7)


@pytest.mark.parametrize("make", [*MAKERS, Homoglyphs])
@given(word=st.text(st.characters(codec="utf-8"), max_size=8), seed=st.integers(0, 9))
def test_any_text(make: Callable[[], WordSwap], word: str, seed: int) -> None:
    document = Document.of(word)
    jobs = [Job(document, document, range(len(document)), Random(seed), 0)]
    for candidate in make().propose(jobs)[0]:
        assert candidate.word != document.words[candidate.index]
        accepted = document.accept(candidate)
        assert accepted.text == candidate.text
        assert len(accepted.origin) == len(accepted.words)


@given(word=st.text(string.ascii_letters + "'é", min_size=2, max_size=9), seed=st.integers(0, 99))
def test_ends_that_are_kept(word: str, seed: int) -> None:
    for transformation in (
        SwapCharacters(keep_first=True, keep_last=True),
        DeleteCharacter(keep_first=True, keep_last=True),
        InsertSpace(),
    ):
        for found in transformation.replacements(word, Random(seed)):
            assert found[0] == word[0]
            assert found[-1] == word[-1]


def test_a_sample_draws_its_own_numbers() -> None:
    everything = Composite([SwapCharacters(), SubstituteCharacter(), InsertCharacter()])
    documents = [Document.of(text) for text in ("wonderful acting", "terrible plot", "fine")]

    def run(order: list[int]) -> dict[int, list[str]]:
        jobs = [
            Job(documents[i], documents[i], range(len(documents[i])), Random(i), 0) for i in order
        ]
        proposed = everything.propose(jobs)
        return {i: [c.word for c in one] for i, one in zip(order, proposed, strict=True)}

    together = run([0, 1, 2])
    assert run([2, 0, 1]) == together
    assert {**run([0]), **run([1]), **run([2])} == together
