"""The corrector and its lists, against brute force over raw strings."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from text import corrector as module
from text.corrector import Corrector, Reach
from text.typo_kinds import LETTERS

SPECIALS = ["<pad>", "<unk>", "ba"]
UNKNOWN = 1
ALPHABET = "ab1é-?"
"""Two letters, a digit, and characters that are none; tokens of the tests have no others."""
NEW = "\N{SNOWMAN}"
"""A character that no token has."""
Row = tuple[int, int]


def correct(tokens: Sequence[str], avoid: frozenset[str], word: str) -> int:
    """The definition: compare the word with every token."""
    for i, token in enumerate(tokens[len(SPECIALS) :]):
        if token == word:
            return i + len(SPECIALS)
    for i, token in enumerate(tokens[len(SPECIALS) :]):
        target = 1 <= len(token) <= 23 and set(token) <= set(LETTERS) and token not in avoid
        if target and len(word) <= 24 and OSA.distance(token, word) <= 1:
            return i + len(SPECIALS)
    return UNKNOWN


def edits(word: str, alphabet: str) -> set[str]:
    """All strings within one edit, with these characters."""
    parts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    return {
        word,
        *(a + b[1:] for a, b in parts if b),
        *(a + b[1] + b[0] + b[2:] for a, b in parts if len(b) > 1),
        *(a + char + b for a, b in parts for char in alphabet),
        *(a + char + b[1:] for a, b in parts if b for char in alphabet),
    }


def reach(
    result: Callable[[str], int], words: Sequence[str], splits: bool, alphabet: str
) -> list[set[Row]]:
    """All results of all typos, one by one."""
    rows = [{(result(typo), -1) for typo in edits(word, alphabet) - {""}} for word in words]
    for i, word in enumerate(words if splits else ()):
        pairs = (typo.split(" ") for typo in edits(word, " ") if typo.count(" ") == 1)
        rows[i] |= {(result(a), result(b)) for a, b in pairs if a and b}
    return rows


def rows_of(listed: Reach, word: int) -> list[Row]:
    """The rows of one word."""
    start, end = listed.starts[word : word + 2].tolist()
    return [(first, second) for first, second in listed.ids[start:end].tolist()]


def check(
    tokens: Sequence[str],
    words: Sequence[str],
    splits: bool,
    alphabet: str,
    avoid: frozenset[str] = frozenset(),
) -> None:
    """Compare both ways of listing with brute force, and ask for a witness of every result."""
    corrector = Corrector(tokens, first=len(SPECIALS), unknown=UNKNOWN, avoid=avoid)
    expected = reach(cache(partial(correct, tokens, avoid)), words, splits, alphabet + NEW)
    for few in (-1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_FEW", few)
            listed = corrector.reach(words, splits=splits)
        assert listed.ids.dtype == listed.starts.dtype == torch.int64
        assert listed.ids.shape == (listed.starts[-1], 2)
        assert len(listed.starts) == len(words) + 1
        for i, word in enumerate(words):
            rows = rows_of(listed, i)
            assert len(set(rows)) == len(rows)
            assert set(rows) == expected[i]
            assert rows[0] == (corrector(word), -1)
            assert rows[1:] == sorted(rows[1:], key=lambda row: (row[1] >= 0, row))
    for i, word in enumerate(words):
        for row in expected[i]:
            witness = corrector.witness(word, row, splits=splits)
            assert witness is not None
            assert OSA.distance(word, witness) <= 1
            result = tuple(map(corrector, witness.split(" ")))
            assert result == tuple(number for number in row if number >= 0)


words = st.lists(st.text(ALPHABET, min_size=1, max_size=5), min_size=1, max_size=6)
vocabularies = st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=20, unique=True).map(
    lambda tokens: [*SPECIALS, *(token for token in tokens if token not in SPECIALS)]
)


@pytest.mark.long
@given(vocabularies, words, st.booleans())
@example([*SPECIALS, "a-b", "ab", "b-b"], ["a-b"], False)  # "b-b" is itself, not "bb"
@example([*SPECIALS, "bb", "b-b"], ["a-b"], False)
@example([*SPECIALS, "?", "ab", "é?"], ["é-", "-é", "?"], True)  # two foreign characters meet
@example([*SPECIALS, "aé", "a-", "a"], ["aé-", "a--"], False)  # both must be tokens to hide "a?"
@settings(max_examples=60)
def test_all_results_and_nothing_else(tokens: list[str], words: list[str], splits: bool) -> None:
    check(tokens, words, splits, ALPHABET)


@pytest.mark.long
@given(vocabularies, words, st.booleans(), st.data())
@example([*SPECIALS, "ab", "b"], ["a", "ab", "bb"], True, None)
@settings(max_examples=60)
def test_tokens_that_no_word_is_corrected_to(
    tokens: list[str], words: list[str], splits: bool, data: st.DataObject | None
) -> None:
    avoid = tokens[3:4] if data is None else data.draw(st.lists(st.sampled_from(tokens)))
    check(tokens, words, splits, ALPHABET, frozenset(avoid))


@pytest.mark.long
def test_every_small_vocabulary() -> None:
    strings = ["".join(chars) for n in (1, 2) for chars in product("a-", repeat=n)]
    asked = [*strings, "aa-", "a-a", "--a", "---"]
    for chosen in product((False, True), repeat=len(strings)):
        tokens = [text for text, use in zip(strings, chosen, strict=True) if use]
        for order in (tokens, tokens[::-1]):
            check([*SPECIALS, *order], asked, True, "a-")


@pytest.mark.long
@pytest.mark.parametrize("length", [11, 12, 13, 22, 23, 24, 25, 26])
def test_limits_of_length(length: int) -> None:
    def word(size: int) -> str:
        return ("ab1aab" * 5)[:size]

    near = range(length - 2, length + 3)
    rest = [word(i)[:-1] + "b" for i in near] + [word(i)[:-2] + "-b" for i in near]
    tokens = [*SPECIALS, *dict.fromkeys([*rest[::2], *map(word, near)])]
    typed = [word(length), "b" + word(length), word(length - 1), word(length)[:-3] + "é1a"]
    for listed in (tokens, tokens[:3] + tokens[:2:-1], tokens[:6], tokens[:3] + tokens[6::2]):
        check(listed, [*typed, rest[2], rest[7]], length < 15, "ab1-")


@pytest.mark.long
def test_few_strings_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [*SPECIALS, *sorted(edits("aab1", "ab1-"), key=lambda word: word[::-1])]
    corrector = Corrector(tokens, first=len(SPECIALS), unknown=UNKNOWN)
    at_once = corrector.reach(tokens, splits=True)
    monkeypatch.setattr(module, "_ROWS", 100)
    monkeypatch.setattr(module, "_BLOCK", 3)
    for listed, expected in zip(corrector.reach(tokens, splits=True), at_once, strict=True):
        assert torch.equal(listed, expected)


def test_equal_words_and_no_words() -> None:
    corrector = Corrector([*SPECIALS, "a", "ab"], first=len(SPECIALS), unknown=UNKNOWN)
    listed = corrector.reach(["ab", "b", "ab"], splits=True)
    assert rows_of(listed, 0) == rows_of(listed, 2) != rows_of(listed, 1)
    none = corrector.reach([])
    assert none.ids.shape == (0, 2)
    assert none.starts.tolist() == [0]


def test_specials_and_the_empty_word() -> None:
    corrector = Corrector(["the", "<unk>", "than", "them"], first=2, unknown=1)
    assert [corrector(word) for word in ("the", "than", "thn", "then", "")] == [3, 2, 2, 2, 1]
    with pytest.raises(ValueError, match="empty word"):
        corrector.reach(["the", ""])


def test_witness_prefers_what_a_person_reads() -> None:
    corrector = Corrector([*SPECIALS, "good", "food", "a", "go"], first=3, unknown=UNKNOWN)
    assert corrector.witness("good", (3,)) == "good"
    assert corrector.witness("good", (4,)) == "food"
    assert corrector.witness("got", (UNKNOWN,)) == "ot"
    assert corrector.witness("good", (6, UNKNOWN), splits=True) == "go od"
    assert corrector.witness("good", (6, UNKNOWN)) is None
    assert corrector.witness("good", (5,)) is None


def test_witness_with_a_foreign_character() -> None:
    # Whatever letter is typed, a target has one character more.
    targets = [typo + "q" for typo in sorted(edits("ab", LETTERS))]
    for tokens, witness in (([], "жab"), (["жab", "abж"], "щab")):
        corrector = Corrector([*SPECIALS, *targets, *tokens], first=3, unknown=UNKNOWN)
        assert corrector.witness("ab", (UNKNOWN, -1)) == witness
        assert [corrector.tokens[i] for i, _ in rows_of(corrector.reach(["ab"]), 0)].count("<unk>")


@pytest.mark.parametrize(
    ("tokens", "first", "unknown"),
    [(["a"], 2, 0), (["a"], -1, 0), (["a"], 0, -1), (["a"], 0, 2), (["<unk>", "a", "a"], 1, 0)],
)
def test_arguments_are_checked(tokens: list[str], first: int, unknown: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        Corrector(tokens, first=first, unknown=unknown)
