"""Characters as tokens: ids and back, ends, unknown characters, the state of checkpoints."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text import CharacterTokenizer, Vocabulary, tokenizer_from_state

TOKENIZER = CharacterTokenizer.build(["abba", "a <unk>", "c"], max_length=6)


def test_ids_are_by_frequency_behind_the_specials() -> None:
    assert TOKENIZER.vocabulary.get_itos()[:4] == ["<pad>", "<unk>", "<end>", "a"]
    # The name of a special in a text is five characters.
    assert set(TOKENIZER.vocabulary.get_itos()[3:]) == set("abc <unk>")
    assert TOKENIZER.vocab_size == 3 + len(set("abc <unk>"))


def test_a_text_stands_between_two_ends() -> None:
    [encoding] = TOKENIZER.encode(["ab"])
    assert encoding.input_ids == [2, *TOKENIZER.find_ids("ab"), 2]
    assert not encoding.truncated


def test_a_long_text_loses_its_end() -> None:
    fitting, cut = TOKENIZER.encode(["aaaa", "aaaaa"])
    assert (len(fitting.input_ids), fitting.truncated) == (6, False)
    assert (cut.input_ids, cut.truncated) == ([2, 3, 3, 3, 3, 3], True)
    assert TOKENIZER.encode([""])[0].input_ids == [2, 2]


def test_unknown_characters() -> None:
    assert TOKENIZER.encode(["aXb"])[0].input_ids[2] == TOKENIZER.unk_id
    with pytest.raises(ValueError, match=r"got a text with \['X', 'Z'\], expected characters of"):
        TOKENIZER.find_ids("aZXX")


@given(st.text(alphabet="abc <unk>", max_size=4))
def test_texts_come_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode([text])[0].input_ids) == text


def test_spans_are_places_of_the_tokens() -> None:
    texts = ["ab", "", "abbabb"]
    for text, spans, encoding in zip(
        texts, TOKENIZER.spans(texts), TOKENIZER.encode(texts), strict=True
    ):
        assert len(spans) == len(encoding.input_ids)
        covered = "".join(text[span.start : span.end] for span in spans)
        assert covered == TOKENIZER.decode(encoding.input_ids)


def test_the_state_of_a_checkpoint() -> None:
    again = tokenizer_from_state(TOKENIZER.state())
    assert isinstance(again, CharacterTokenizer)
    assert again.state() == TOKENIZER.state()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CharacterTokenizer(Vocabulary({"a": 1})), "expected .*'<end>'"),
        (lambda: CharacterTokenizer.build(["a"], max_length=2), "got max_length=2"),
        (lambda: TOKENIZER.encode([("a", "b")]), "expected single texts of characters"),
    ],
)
def test_wrong_input(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
