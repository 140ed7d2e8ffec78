"""Words, and texts with one of them replaced."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.document import Document, count_words, words_of
from attacks.transformations.variants import changed_text

words = st.text(alphabet="abcXYZ019é'-_*@ .,!\n", max_size=40)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a well-placed U.S.A. $5.00 don't.", "It's a well-placed U S A 5 00 don't"),
        ("3,000 he/she 'tis actors' --", "3 000 he she tis actors"),
        ("user@host.org snake_case *bold*", "user@host org snake_case bold"),
        ("", ""),
        ("?! ... 🙂", ""),
        # Vowel signs, conjuncts and joiners; accents of their own; a heart with its variant.
        ("हिन्दी फ़िल्म बहुत अच्छी थी।", "हिन्दी फ़िल्म बहुत अच्छी थी"),
        ("मूल्\u200dय, می\u200cخواهم", "मूल्\u200dय می\u200cخواهم"),
        ("cafe\u0301 na\u0308ive-ly", "cafe\u0301 na\u0308ive-ly"),
        ("good \u2764\ufe0f \u0301 film", "good film"),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert words_of(text) == expected.split()
    assert count_words(text) == len(expected.split())


@pytest.mark.long
@given(words, words)
def test_spans_are_where_the_words_are(first: str, second: str) -> None:
    document = Document((first, second))
    for i, word in enumerate(document.words):
        column, start, end = document.spans[i]
        assert document.columns[column][start:end] == word
        assert document.column_of(i) == column
    assert document.words == words_of(first) + words_of(second)


def test_only_the_word_is_replaced() -> None:
    document = Document.of("  A good -- really GOOD -- film. ")
    assert document.replace(1, "bad").text == "  A bad -- really GOOD -- film. "
    assert document.replace(4, "movie").text == "  A good -- really GOOD -- movie. "


@pytest.mark.parametrize(
    ("index", "expected"),
    [(0, "good film, twice."), (1, "a film, twice."), (2, "a good, twice."), (3, "a good film,.")],
)
def test_a_deleted_word_takes_one_space_along(index: int, expected: str) -> None:
    assert Document.of("a good film, twice.").delete(index).text == expected


def test_a_hidden_word_keeps_its_spaces() -> None:
    document = Document.of("a good film")
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "good")
    assert document.replace(1, hidden).text == f"a {hidden} film"
    assert document.replace(1, "!").text == "a! film"


def test_pairs_are_numbered_through() -> None:
    document = Document.of(("One two", "three four"))
    assert [document.column_of(i) for i in range(4)] == [0, 0, 1, 1]
    assert document.replace(2, "3").text == ("One two", "3 four")
    assert document.delete(2).text == ("One two", "four")
    assert document.delete(0).text == ("two", "three four")


def follow(text: str, *edits: tuple[int, str]) -> Document:
    document = Document.of(text)
    for index, word in edits:
        document = document.accept(document.replace(index, word))
    return document


def test_words_are_found_again_after_insertions() -> None:
    document = follow("one two three four", (1, "t wo"))
    assert document.words == ["one", "t", "wo", "three", "four"]
    assert document.modified == {1, 2}
    assert [document.position(i) for i in range(4)] == [0, 1, 3, 4]
    document = document.accept(document.replace(3, "3"))
    assert document.text == "one t wo 3 four"
    assert document.modified == {1, 2, 3}


def test_words_are_found_again_after_deletions() -> None:
    document = follow("one two three four", (1, "--"))
    assert document.words == ["one", "three", "four"]
    assert document.modified == frozenset()
    assert [document.position(i) for i in range(4)] == [0, None, 1, 2]


def test_a_word_that_stays_is_not_modified() -> None:
    document = follow("one two", (0, "ones"), (1, "two"))
    assert document.modified == {0}


def test_words_that_grow_together() -> None:
    document = Document.of("a/b c")
    joined = document.accept(document.replace(0, "x y z"))
    assert joined.words == ["x", "y", "z", "b", "c"]
    assert joined.origin == [0, -1, -1, 1, 2]


@given(words, st.lists(st.tuples(st.integers(0, 9), words), max_size=5))
def test_numbers_stay_consistent(text: str, edits: list[tuple[int, str]]) -> None:
    original = document = Document.of(text)
    for index, word in edits:
        if index < len(document):
            document = document.accept(document.replace(index, word))
    assert len(document.origin) == len(document)
    assert all(0 <= i < len(document) for i in document.modified)
    known = [i for i in document.origin if i >= 0]
    assert len(known) == len(set(known))
    for i in range(len(original)):
        position = document.position(i)
        assert position is None or document.origin[position] == i


hostile = st.text(alphabet="ab\u0301-'_*@ .,\u4e2d\u200d`", max_size=14)


@given(hostile, hostile, hostile, st.integers(0, 12), st.sampled_from("rdibm"))
def test_only_words_near_a_change_are_looked_for_anew(
    first: str, second: str, word: str, index: int, kind: str
) -> None:
    document = Document((first, second))
    if index >= len(document):
        return
    if kind == "m":
        beside = index + 1 < len(document)
        if not beside or document.column_of(index) != document.column_of(index + 1):
            with pytest.raises(ValueError, match="to merge"):
                document.merge(index, word)
            return
        candidate = document.merge(index, word)
    elif kind in "ib":
        candidate = document.insert(index, word, after=kind == "b")
    elif kind == "d":
        candidate = document.delete(index)
    else:
        candidate = document.replace(index, word)
    made = document.accept(candidate)
    assert made.spans == Document(candidate.columns).spans
    assert len(made.origin) == len(made)
    assert all(0 <= i < len(made) for i in made.modified)


def test_words_that_are_inserted() -> None:
    document = Document.of("one two three")
    before = document.accept(document.insert(1, "new"))
    assert before.text == "one new two three"
    assert before.modified == {1}
    assert before.origin == [0, -1, 1, 2]
    behind = before.accept(before.insert(3, "end", after=True))
    assert behind.text == "one new two three end"
    assert behind.modified == {1, 4}
    assert [behind.position(i) for i in range(3)] == [0, 2, 3]


def test_words_that_are_merged() -> None:
    document = Document.of("one, two three")
    document = document.accept(document.replace(2, "3"))
    merged = document.accept(document.merge(0, "both"))
    assert merged.text == "both 3"
    assert merged.modified == {0, 1}
    assert merged.origin == [0, 2]


def test_several_words_at_once() -> None:
    original = Document(("one two", "three"))
    made = original.rewrite({0: "1", 2: "3"}, original)
    assert made.columns == ("1 two", "3")
    assert made.modified == {0, 2}
    assert made.rewrite({0: "one"}, original).modified == {2}


@pytest.mark.parametrize("indices", [range(3), range(6), range(3, 6), [1, 4], [2]])
@pytest.mark.parametrize(
    "columns", [("1 2 3, 3", "four five six"), ("one two three", "4, 5 and 6"), ("1", "a b c d")]
)
def test_a_pair_that_is_written_anew(indices: Sequence[int], columns: tuple[str, str]) -> None:
    document = Document(("one two three", "four five six"))
    made = document.accept(changed_text(document, columns, indices))
    assert made.spans == Document(columns).spans
    assert len(made.origin) == len(made)


def test_runs_that_are_cut() -> None:
    def each(run: str) -> list[tuple[int, int]]:
        return [(i, i + 1) for i in range(len(run))]

    document = Document.of("中文，字", cut=each)
    assert document.words == ["中", "文", "字"]
    changed = document.accept(document.replace(1, "国"))
    assert changed.words == ["中", "国", "字"]
    assert changed.modified == {1}
    assert changed.accept(changed.insert(1, "大")).text == "中大国，字"
