import pytest

from text.plural import plural


@pytest.mark.parametrize(
    ("count", "noun", "expected"),
    [
        (0, "word", "0 words"),
        (1, "word", "1 word"),
        (2, "query", "2 queries"),
        (1, "query", "1 query"),
    ],
)
def test_a_count_and_its_noun(count: int, noun: str, expected: str) -> None:
    assert plural(count, noun) == expected
