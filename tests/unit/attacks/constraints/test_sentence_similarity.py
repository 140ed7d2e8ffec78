"""Sentence similarity: the right windows of the right texts, and as few of them as possible."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attacks.composition import Group
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.document import Candidate, Document

TEXT = "One, two three four five six seven eight (nine) ten."


class Spy:
    """Remembers what it was asked; texts are as alike as they share words."""

    name = "spy"

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, str]]] = []

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
        self.asked.append(list(zip(first, second, strict=True)))
        shared = [
            sum(x == y for x, y in zip(a.split(), b.split(), strict=False)) / len(a.split() or "_")
            for a, b in self.asked[-1]
        ]
        return np.array(shared)


def group(document: Document, *candidates: Candidate, original: Document | None = None) -> Group:
    return Group(original or document, document, candidates)


def asked(document: Document, candidate: Candidate, **settings: Any) -> tuple[str, str]:
    spy = Spy()
    original = settings.pop("original", None)
    constraint = SentenceSimilarity(spy, 0.0, **{"skip_short": False, **settings})
    constraint.keep([group(document, candidate, original=original)])
    ((pair,),) = spy.asked
    return pair


@pytest.mark.parametrize(
    ("index", "before"),
    [
        (0, "One, two three four five"),
        (2, "One, two three four five"),
        (3, "two three four five six"),
        (6, "five six seven eight (nine"),
        (7, "six seven eight (nine) ten"),
        (9, "six seven eight (nine) ten"),
    ],
)
def test_windows_are_clipped_to_the_first_and_last_words(index: int, before: str) -> None:
    document = Document.of(TEXT)
    word = document.words[index]
    changed = before.replace(word, "X")
    assert asked(document, document.replace(index, "X"), window=5) == (before, changed)


def test_short_and_whole_texts() -> None:
    document = Document.of("(One two!)")
    candidate = document.replace(1, "X")
    assert asked(document, candidate, window=5) == ("One two", "One X")
    assert asked(document, candidate, window=None) == ("(One two!)", "(One X!)")


def test_replacements_that_are_not_one_word() -> None:
    document = Document.of(TEXT)
    assert asked(document, document.replace(3, "fo ur"), window=5)[1] == "two three fo ur five"
    assert asked(document, document.delete(3), window=5)[1] == "two three five six seven"
    assert asked(document, document.replace(3, "four!"), window=5)[1] == "two three four! five six"
    assert asked(document, document.replace(9, "-"), window=5)[1] == "five six seven eight (nine"
    only = Document.of("film")
    assert asked(only, only.delete(0), window=5) == ("film", "")


def test_original_and_current() -> None:
    original = Document.of(TEXT)
    current = original.accept(original.replace(4, "V"))
    candidate = current.replace(3, "X")
    settings: dict[str, Any] = {"window": 3, "original": original}
    assert asked(current, candidate, **settings) == ("three four five", "three X V")
    against = {"against": "current", **settings}
    assert asked(current, candidate, **against) == ("three four V", "three X V")


def test_windows_follow_words_behind_an_insertion() -> None:
    original = Document.of(TEXT)
    current = original.accept(original.replace(1, "t wo"))
    candidate = current.replace(5, "X")  # "five"
    settings: dict[str, Any] = {"window": 3, "original": original}
    assert asked(current, candidate, **settings) == ("four five six", "four X six")
    # The inserted word itself: what it was inserted behind.
    inserted = current.replace(2, "Y")
    assert asked(current, inserted, **settings) == ("One, two three", "t Y three")
    # The reference takes the number as it is, and looks elsewhere.
    compat = asked(current, candidate, compat="textattack", **settings)
    assert compat == ("five six seven", "four X six")


def test_only_the_changed_text_of_a_pair() -> None:
    document = Document.of(("a b c d", "e f, g h"))
    candidate = document.replace(5, "X")
    assert asked(document, candidate, window=3) == ("e f, g", "e X, g")
    assert asked(document, candidate, window=None) == ("e f, g h", "e X, g h")
    assert asked(document, document.replace(0, "X"), window=9) == ("a b c d", "X b c d")
    # The reference joins them, a line each.
    compat: dict[str, Any] = {"compat": "textattack"}
    assert asked(document, document.replace(4, "X"), window=3, **compat) == ("d\ne f", "d\nX f")
    whole = asked(document, candidate, window=None, **compat)
    assert whole == ("a b c d\ne f, g h", "a b c d\ne X, g h")


def test_a_word_behind_the_first_text_has_the_number_of_one_in_the_second() -> None:
    document = Document.of(("one two", "three four"))
    candidates = document.insert(1, "new", after=True), document.replace(2, "X")
    spy = Spy()
    SentenceSimilarity(spy, 0.0, window=None).keep([group(document, *candidates)])
    assert spy.asked == [[("one two", "one two new"), ("three four", "X four")]]


def test_short_samples_are_exempt() -> None:
    spy = Spy()
    constraint = SentenceSimilarity(spy, 0.99, window=4)
    short, long = Document.of("a b c"), Document.of("a b c d")
    pair = Document.of(("a b", "c d"))
    groups = [
        group(short, short.replace(0, "X"), short.replace(0, "X Y")),
        group(long, long.replace(0, "X"), long.delete(0)),
        group(pair, pair.replace(3, "X")),
    ]
    # One word more makes the first text long enough, one less the second too short; of a pair both
    # texts count.
    assert constraint.keep(groups) == [[True, False], [False, True], [False]]
    assert [one.similarity for one in groups[1].candidates] == [pytest.approx(0.7699, abs=1e-3), 1]
    assert len(spy.asked[0]) == 3


def test_one_call_for_all_samples_and_none_for_nothing() -> None:
    spy = Spy()
    constraint = SentenceSimilarity(spy, 0.6, window=5, metric="cosine", skip_short=False)
    first, second = Document.of(TEXT), Document.of("nine ten")
    groups = [
        group(first, first.replace(0, "X"), first.replace(0, "Y"), first.replace(9, "X")),
        group(second, second.replace(1, "X")),
    ]
    assert constraint.keep(groups) == [[True, True, True], [False]]
    assert [one.similarity for one in groups[0].candidates] == [0.8] * 3
    assert len(spy.asked) == 1
    assert constraint.keep([]) == []
    assert len(spy.asked) == 1


@pytest.mark.parametrize(("metric", "value"), [("cosine", 0.5), ("angular", 2 / 3)])
def test_metrics(metric: Any, value: float) -> None:
    document = Document.of("one two")
    candidates = [document.replace(0, "X") for _ in range(2)]
    for minimum, kept in ((value - 1e-9, True), (value + 1e-9, False)):
        constraint = SentenceSimilarity(Spy(), minimum, metric=metric, skip_short=False)
        assert constraint.keep([group(document, *candidates)]) == [[kept, kept]]
        assert candidates[0].similarity == pytest.approx(value)


def test_numbers_of_the_published_thresholds() -> None:
    """0.840845057 is half a radian, whose cosine is 0.8776."""
    assert 1 - 0.5 / math.pi == pytest.approx(0.840845057, abs=1e-9)
    assert math.cos(0.5) == pytest.approx(0.8776, abs=1e-4)
    assert math.cos(0.2 * math.pi) == pytest.approx(0.809, abs=1e-3)


@pytest.mark.long
@given(
    st.lists(st.sampled_from(["a", "b-c", "d.", "(e)", "...", "'f'"]), min_size=1, max_size=12),
    st.integers(0, 11),
    st.sampled_from(["x", "x y", "", "z!", "-"]),
    st.integers(1, 9),
)
def test_windows_are_those_of_the_changed_text(
    parts: list[str], index: int, word: str, window: int
) -> None:
    """However the window was found, it is that of the text as it then stands."""
    document = Document.of(" ".join(parts))
    if index >= len(document):
        return
    candidate = document.replace(index, word)
    _, after = asked(document, candidate, window=window)
    fresh = Document(candidate.columns)
    if len(fresh):
        place = min(index, len(fresh) - 1)
        start = max(min(place - (window - 1) // 2, len(fresh) - window), 0)
        spans = fresh.spans[start : start + window]
        assert after == candidate.columns[0][spans[0][1] : spans[-1][2]]


@pytest.mark.parametrize(
    "settings", [{"window": 0}, {"minimum": 1.1}, {"minimum": -0.1}, {"minimum": math.nan}]
)
def test_settings_that_make_no_constraint(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        SentenceSimilarity(Spy(), **{"minimum": 0.5, **settings})
