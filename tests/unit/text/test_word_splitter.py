"""The words that settings ask for, and where they stand."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text import Span, WordSettings, WordTokenizer, split_words, tokenizer_from_state
from text.word_splitter import WordSplitter


class Shouted:
    """A lemmatiser that tells what it is asked."""

    digest = "abc"

    def __init__(self, tags: bool = False) -> None:
        self.tags = tags

    def lemmas(
        self, words: Sequence[str], sentence: Sequence[str], positions: Sequence[int]
    ) -> list[str]:
        if not self.tags:
            assert not sentence
            return [f"{word}!" for word in words]
        return [
            f"{word}={sentence[position]}" for word, position in zip(words, positions, strict=True)
        ]


def splitter(split: Any = "alphanumeric", lemmas: Any = "none") -> WordSplitter:
    lemmatizer = None if lemmas == "none" else Shouted(lemmas == "part_of_speech")
    return WordSplitter(WordSettings(split=split, lemmas=lemmas), lemmatizer)


@given(st.text())
def test_the_default_is_what_it_was(text: str) -> None:
    assert WordSplitter(WordSettings()).split(text) == split_words(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("layin' down 'n' 'lotta soul' he said.", "layin down n lotta soul he said"),
        ("Don't PANIC!", "don t panic"),
        ("$3.50, snake_case at 10:30", "3 50 snake_case at 10 30"),
        ("हिन्दी थी!", "हिन्दी थी"),
        ("?!", ""),
    ],
)
def test_words_without_punctuation(text: str, words: str) -> None:
    assert splitter().split(text) == words.split()


@pytest.mark.parametrize("split", ["clitics", "alphanumeric"])
@given(text=st.text())
def test_every_word_has_a_span_and_a_token(split: str, text: str) -> None:
    """Also where lower case is longer than what was written."""
    spans = splitter(split).spans(text)
    for lemmas in ("none", "noun", "part_of_speech"):
        assert len(splitter(split, lemmas).split(text)) == len(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)


def test_a_tagger_sees_capitals_and_punctuation() -> None:
    lemmas = splitter("alphanumeric", "part_of_speech").split("Well, DON'T stop!")
    assert lemmas == ["well=Well", "don=DO", "t=N'T", "stop=stop"]
    lemmas = splitter("clitics", "part_of_speech").split("Well, DON'T")
    assert lemmas == ["well=Well", ",=,", "do=DO", "n't=N'T"]
    assert splitter("clitics", "part_of_speech").split("\u0130s it") == [
        "i\u0307s=i\u0307s",
        "it=it",
    ]


def tokenizer(lemmas: Any = "noun") -> WordTokenizer:
    words = WordSettings(split="alphanumeric", lemmas=lemmas, resources="here")
    lemmatizer = None if lemmas == "none" else Shouted()
    return WordTokenizer.build(["A cat, a dog"], max_length=5, words=words, lemmatizer=lemmatizer)


def test_ids_are_of_base_forms_and_spans_of_the_text() -> None:
    of_nouns = tokenizer()
    assert of_nouns.vocabulary.get_itos()[3:] == ["a!", "cat!", "dog!"]
    assert of_nouns.encode(["Cat ... b"])[0].input_ids == [4, 1]
    assert of_nouns.spans(["Cat ... b", "!"]) == [[Span(0, 0, 3), Span(0, 8, 9)], [Span(0, 0, 0)]]
    assert of_nouns.tokens("Cat!") == ["cat!"]


def test_the_state_has_the_settings_and_no_more_than_it_had() -> None:
    plain = WordTokenizer.build(["a b"])
    assert set(plain.state()) == {"kind", "max_length", "vocabulary"}
    requests: list[WordSettings] = []

    def find(settings: WordSettings) -> Shouted:
        requests.append(settings)
        return Shouted()

    for original in (tokenizer(), tokenizer("none")):
        state = json.loads(json.dumps(original.state()))
        again = tokenizer_from_state(state, find)
        assert again.state() == original.state()
        assert again.encode(["the cat!"]) == original.encode(["the cat!"])
    assert requests == [WordSettings(split="alphanumeric", lemmas="noun", resources="here")]


def test_a_state_without_its_lemmatizer() -> None:
    state = tokenizer().state()
    with pytest.raises(ValueError, match="got a tokenizer with lemmas=noun, expected a lemmatiser"):
        tokenizer_from_state(state)
    other = Shouted()
    other.digest = "other"
    with pytest.raises(ValueError, match=r"with other data \(other\) than .* trained with \(abc\)"):
        tokenizer_from_state(state, lambda settings: other)
    state["words"]["stems"] = True
    with pytest.raises(ValueError, match="got settings of words"):
        tokenizer_from_state(state, lambda settings: other)


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match=r"got words\.split='letters', expected one of cl"):
        WordSettings(split="letters")  # type: ignore[arg-type] # what a user may write
    with pytest.raises(ValueError, match=r"got words\.lemmas='verb'"):
        WordSettings(lemmas="verb")  # type: ignore[arg-type] # as above
    with pytest.raises(ValueError, match="got a lemmatiser for lemmas=none"):
        WordSplitter(WordSettings(), Shouted())
    with pytest.raises(ValueError, match="got no lemmatiser for lemmas=noun"):
        WordSplitter(WordSettings(lemmas="noun"))
