"""Kinds of typos and their lists, against edits that are made one by one."""

from collections.abc import Callable, Sequence
from functools import cache, partial

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attacks.transformations.keys import find_neighbours
from tests.unit.text.test_corrector import (
    ALPHABET,
    NEW,
    SPECIALS,
    UNKNOWN,
    correct,
    rows_of,
    vocabularies,
)
from text import corrector as module
from text.corrector import Corrector
from text.typo_kinds import InnerTypos, KeyboardTypos, TypoKind

NEAR = {"a": "b", "b": "a?"}  # the digit has no neighbours, and "?" is no key
LETTERS = ALPHABET + NEW


def slips(word: str) -> set[str]:
    """The slips of a finger in a word, on the keyboard of `NEAR`."""
    typed = {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}
    typed |= {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)}
    for i, char in enumerate(word):
        beside = {key for key in NEAR.get(char, "") if key != "?"}
        typed |= {word[:i] + key + word[i + 1 :] for key in beside}
        if char in "ab1":
            # Both sides of the key that was meant.
            for at in (i, i + 1):
                typed |= {word[:at] + key + word[at:] for key in {*beside, char}}
    return typed - {""}


def inner(word: str) -> set[str]:
    """One edit between the first and the last character."""
    if len(word) < 2:
        return {word}
    middle = word[1:-1]
    changed = {middle, *(middle[:i] + middle[i + 1 :] for i in range(len(middle)))}
    for i in range(len(middle) - 1):
        changed.add(middle[:i] + middle[i + 1] + middle[i] + middle[i + 2 :])
    for char in LETTERS:
        for i in range(len(middle) + 1):
            changed |= {middle[:i] + char + middle[i:], middle[:i] + char + middle[i + 1 :]}
    # A character "replaced" beyond the end is an insertion there.
    return {word[0] + new + word[-1] for new in changed}


KINDS: dict[str, tuple[TypoKind, Callable[[str], set[str]]]] = {
    "keyboard": (KeyboardTypos(NEAR), slips),
    "inner": (InnerTypos(), inner),
}


def check(
    name: str, tokens: Sequence[str], words: Sequence[str], avoid: frozenset[str] = frozenset()
) -> None:
    """Compare both ways of listing with brute force, and ask for a witness of every result."""
    kind, edit = KINDS[name]
    corrector = Corrector(tokens, first=len(SPECIALS), unknown=UNKNOWN, avoid=avoid)
    result = cache(partial(correct, tokens, avoid))
    expected = [{(result(typo), -1) for typo in edit(word)} for word in words]
    for few in (-1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_FEW", few)
            listed = corrector.reach(words, kind=kind)
        for i, word in enumerate(words):
            assert set(rows_of(listed, i)) == expected[i], (word, few)
            assert rows_of(listed, i)[0] == (corrector(word), -1)
    for word, rows in zip(words, expected, strict=True):
        for row in rows:
            witness = corrector.witness(word, row, kind=kind)
            assert witness is not None
            assert witness in edit(word) or set(witness) - set(LETTERS)
            assert kind.has(word, witness)
            assert corrector(witness) == row[0]


words = st.lists(st.text(ALPHABET, min_size=1, max_size=6), min_size=1, max_size=6)


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
@given(vocabularies, words)
@example([*SPECIALS, "ab", "aab", "a1", "b"], ["ab", "a1", "b1"])
@example([*SPECIALS, "a-b", "ab", "b-b"], ["a-b", "é-b"])
@example([*SPECIALS, "bb", "b-b", "a--b"], ["a-b", "ab"])
@settings(max_examples=50)
def test_all_results_of_a_kind_and_nothing_else(
    name: str, tokens: list[str], words: list[str]
) -> None:
    check(name, tokens, words)
    check(name, tokens, words, frozenset(tokens[3::2]))


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
@given(st.text(ALPHABET, min_size=1, max_size=5), st.text(LETTERS, min_size=1, max_size=5))
@settings(max_examples=300)
def test_a_kind_has_its_edits_and_no_other_string(name: str, word: str, other: str) -> None:
    kind, edit = KINDS[name]
    typed = edit(word)
    assert all(kind.has(word, typo) for typo in typed)
    assert kind.has(word, other) == (other in typed)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("length", [11, 12, 13, 23, 24, 25, 26])
def test_limits_of_length(name: str, length: int) -> None:
    whole = "ab1aab" * 5
    tokens = [*SPECIALS, *dict.fromkeys(whole[:size] for size in range(length - 2, length + 3))]
    typed = [whole[:length], "b" + whole[: length - 1], whole[: length - 2] + "b-", "-" * length]
    for listed in (tokens, tokens[:5], SPECIALS):
        check(name, listed, typed)


def test_few_strings_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, edit = KINDS["keyboard"]
    tokens = [*SPECIALS, *sorted(edit("aab1"), key=lambda word: word[::-1])]
    corrector = Corrector(tokens, first=len(SPECIALS), unknown=UNKNOWN)
    at_once = corrector.reach(tokens, kind=kind)
    monkeypatch.setattr(module, "_ROWS", 100)
    monkeypatch.setattr(module, "_BLOCK", 3)
    for listed, expected in zip(corrector.reach(tokens, kind=kind), at_once, strict=True):
        assert torch.equal(listed, expected)


def test_a_keyboard() -> None:
    kind = KeyboardTypos(find_neighbours("qwerty"))
    for typo in ("god", "ogod", "godo", "hood", "gpod", "goodd", "goood", "goosd", "fgood"):
        assert kind.has("good", typo), typo
    for typo in ("food1", "wood", "goodp", "g0od", "goodz", "g\u0436od", "qgood"):
        assert not kind.has("good", typo), typo
