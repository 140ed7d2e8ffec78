"""A tokenizer behind an encoding of words."""

import pytest

from text import CharacterTokenizer, EncodedWords, Span, Vocabulary, WordTokenizer
from text.tokenizer_state import tokenizer_from_state

WORDS = ("good", "film", "a", ",")
FORMS = {"fine": "good", "movie": "film", "great": "good"}


def encoded() -> EncodedWords:
    return EncodedWords(WordTokenizer(Vocabulary(dict.fromkeys(WORDS, 1)), 8), FORMS)


def test_words_of_one_form_have_one_encoding() -> None:
    tokenizer = encoded()
    first, other, pair = tokenizer.encode(["A FINE movie", "a great  film", ("fine", "movie")])
    assert first == other
    assert first == tokenizer.inner.encode(["a good film"])[0]
    assert pair == tokenizer.inner.encode([("good", "film")])[0]
    again = tokenizer_from_state(tokenizer.state())
    assert again.encode(["A FINE movie"]) == [first]
    assert (again.vocab_size, again.pad_id, again.unk_id, again.max_length) == (
        tokenizer.vocab_size,
        tokenizer.pad_id,
        tokenizer.unk_id,
        8,
    )


def test_a_token_lies_where_its_word_lies() -> None:
    (spans,) = encoded().spans(["So, GREAT movies: a  movie"])
    assert spans == [
        Span(0, *limits)
        for limits in ((0, 2), (2, 3), (4, 9), (10, 16), (16, 17), (18, 19), (21, 26))
    ]
    letters = EncodedWords(CharacterTokenizer.build(["a good film"], max_length=40), FORMS)
    (of_letters,) = letters.spans(["fine a"])
    inside = {(span.start, span.end) for span in of_letters if span.end > span.start}
    # The letters of "good" all stand for "fine"; the space goes with the word behind it.
    assert inside == {(0, 4), (5, 6)}


@pytest.mark.parametrize("wrong", [{"fine": "very good"}, {"fine": "good", "good": "nice"}])
def test_wrong_encodings(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="represents itself"):
        EncodedWords(encoded().inner, wrong)
