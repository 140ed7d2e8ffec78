import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text import Vocabulary

words = st.lists(st.text(alphabet="abcd", min_size=1, max_size=3), max_size=30)


def test_order_is_specials_then_count_then_alphabet() -> None:
    vocabulary = Vocabulary.build([["b", "a", "c", "c"], ["d"]])
    assert vocabulary.get_itos() == ["<pad>", "<unk>", "<sep>", "c", "a", "b", "d"]
    assert vocabulary.words() == ["c", "a", "b", "d"]
    assert vocabulary(["c", "zzz", "<sep>"]) == [3, 1, 2]
    assert vocabulary["d"] == 6
    assert "zzz" not in vocabulary
    assert (vocabulary.count("c"), vocabulary.count("zzz"), vocabulary.count("<pad>")) == (2, 0, 0)


def test_limits() -> None:
    texts = [["a"] * 3 + ["b"] * 2 + ["c"]]
    assert Vocabulary.build(texts, min_count=2).get_itos()[3:] == ["a", "b"]
    assert Vocabulary.build(texts, max_size=4).get_itos()[3:] == ["a"]


@given(words, words)
def test_order_of_counting_does_not_matter(first: list[str], second: list[str]) -> None:
    assert Vocabulary.build([first, second]) == Vocabulary.build([second, first])


@given(words)
def test_state_passes_through_json_with_the_same_ids(tokens: list[str]) -> None:
    vocabulary = Vocabulary.build([tokens], max_size=8)
    again = Vocabulary.from_state(json.loads(json.dumps(vocabulary.state())))
    assert again == vocabulary
    assert hash(again) == hash(vocabulary)
    assert again([*tokens, "?"]) == vocabulary([*tokens, "?"])
    assert [again.count(token) for token in tokens] == [vocabulary.count(token) for token in tokens]


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": ["<unk>", "<pad>", "<sep>"]},
        {"tokens": ["<pad>", "<unk>", "<sep>", "a", "a"], "counts": [0, 0, 0, 1, 1]},
        {"counts": [0]},
        {"counts": None},
    ],
)
def test_states_that_would_change_ids_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"Vocabulary\.state"):
        Vocabulary.from_state({**Vocabulary({}).state(), **change})


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="specials"):
        Vocabulary({}, ["<pad>"])
    with pytest.raises(ValueError, match="max_size"):
        Vocabulary({}, max_size=2)
    with pytest.raises(IndexError, match="id 3"):
        Vocabulary({}).lookup_token(3)
