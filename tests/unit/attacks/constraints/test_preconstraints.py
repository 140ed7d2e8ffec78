"""Which words may be replaced."""

import pytest

from attacks.constraints.preconstraints import (
    REFERENCE,
    Columns,
    MaxModificationRate,
    RepeatModification,
    StopWords,
)
from attacks.document import Document

TEXT = ("text",)


def test_no_word_twice() -> None:
    document = Document.of("one two three")
    document = document.accept(document.replace(1, "2"))
    assert RepeatModification().allowed(document, columns=TEXT) == {0, 2}


def test_stop_words_in_any_case() -> None:
    document = Document.of("The film, THE film, the film")
    assert StopWords(["the"]).allowed(document, columns=TEXT) == {1, 3, 5}


def test_the_reference_tells_cases_apart() -> None:
    document = Document.of("The film, THE film, the film")
    stop_words = StopWords(["the"], ignore_case=False)
    assert stop_words.allowed(document, columns=TEXT) == {0, 1, 2, 3, 5}


def test_no_stop_words_at_all() -> None:
    assert StopWords([]).allowed(Document.of("the film"), columns=TEXT) == {0, 1}


@pytest.mark.parametrize(
    ("rate", "minimum", "changed", "open_to_change"),
    [
        (0.1, 1, 0, True),
        (0.1, 1, 1, False),
        (0.1, 2, 1, True),
        (0.21, 1, 2, True),
        (0.0, 0, 0, False),
    ],
)
def test_a_share_of_the_words(
    rate: float, minimum: int, changed: int, open_to_change: bool
) -> None:
    document = Document.of("a b c d e f g h i j")
    for index in range(changed):
        document = document.accept(document.replace(index, "x"))
    allowed = MaxModificationRate(rate, minimum).allowed(document, columns=TEXT)
    assert set(allowed) == (set(range(10)) if open_to_change else set())


@pytest.mark.parametrize(("rate", "minimum"), [(-0.1, 1), (1.1, 1), (0.5, -1)])
def test_shares_are_checked(rate: float, minimum: int) -> None:
    with pytest.raises(ValueError, match="expected a rate between 0 and 1"):
        MaxModificationRate(rate, minimum)


PAIR = Document.of(("one two", "three four five"))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("premise", "hypothesis"), {2, 3, 4}),
        (("question", "sentence"), {2, 3, 4}),
        (("question1", "question2"), {0, 1, 2, 3, 4}),
        (("text", "text_pair"), {0, 1, 2, 3, 4}),
    ],
)
def test_the_task_says_which_text(columns: tuple[str, str], expected: set[int]) -> None:
    assert Columns().allowed(PAIR, columns=columns) == expected


def test_the_reference_knows_one_task() -> None:
    columns = Columns(tasks=REFERENCE)
    assert columns.allowed(PAIR, columns=("premise", "hypothesis")) == {2, 3, 4}
    assert columns.allowed(PAIR, columns=("question", "sentence")) == {0, 1, 2, 3, 4}


def test_columns_by_name() -> None:
    assert Columns(["premise"]).allowed(PAIR, columns=("premise", "hypothesis")) == {0, 1}
    assert Columns().allowed(Document.of("one two"), columns=TEXT) == {0, 1}
    assert Columns().allowed(Document.of(""), columns=TEXT) == set()


def test_an_unknown_column() -> None:
    with pytest.raises(ValueError, match=r"got columns \['hypotesis'\] to rewrite"):
        Columns(["hypotesis"]).allowed(PAIR, columns=("premise", "hypothesis"))
