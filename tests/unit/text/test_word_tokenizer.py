import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text import Span, Text, Vocabulary, WordTokenizer, split_words, tokenizer_from_state
from text.word_settings import WordSettings
from text.word_splitter import WordSplitter

SPLITTER = WordSplitter(WordSettings())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't PANIC!", "do n't panic !"),
        ("Don\u2019t", "do n't"),
        ("it's John's, they've", "it 's john 's , they 've"),
        ("can't won't cannot", "ca n't wo n't cannot"),
        ("does n't , it 's", "does n't , it 's"),
        ("a well-made film...", "a well - made film ..."),
        ("$3.50, 1,000 at 10:30", "$ 3.50 , 1,000 at 10:30"),
        ("'quoted' (really)", "' quoted ' ( really )"),
        ("cafe\u0301 caf\u00e9", "caf\u00e9 caf\u00e9"),
        ("हिन्दी फिल्म अच्छी थी!", "हिन्दी फिल्म अच्छी थी !"),
        (
            "\u0416\u0443\u043a \U0001f600\U0001f600!?",
            "\u0436\u0443\u043a \U0001f600\U0001f600 ! ?",
        ),
        (" \t\n", ""),
    ],
)
def test_split_words(text: str, words: str) -> None:
    assert split_words(text) == words.split()


@given(st.text())
def test_words_hold_everything_but_white_space(text: str) -> None:
    words = split_words(text)
    assert all(word and word == word.lower() and not any(map(str.isspace, word)) for word in words)
    # Splitting what was split changes nothing: attacks join words with spaces and encode again.
    assert split_words(" ".join(words)) == words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Don't PANIC!", "Do n't PANIC !"),
        ("cafe\u0301 caf\u00e9", "cafe\u0301 caf\u00e9"),
        # Lower case of the first letter is two characters long, the Korean syllable is drawn from
        # three, and the accent in front belongs to nothing.
        ("\u0130stanbul is", "\u0130stanbul is"),
        ("\u1112\u1161\u11ab is", "\u1112\u1161\u11ab is"),
        ("\u0301a b", "\u0301 a b"),
        (" \t\n", ""),
    ],
)
def test_spans_point_at_the_words_as_they_were_written(text: str, parts: str) -> None:
    assert [text[start:end] for start, end in SPLITTER.spans(text)] == parts.split()


@given(st.text())
def test_every_word_has_a_span(text: str) -> None:
    spans = SPLITTER.spans(text)
    assert len(spans) == len(split_words(text))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert spans == sorted(spans)


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return WordTokenizer.build(["a b c d e f g h i j", ("k l", "m n o p")], max_length=8)


def test_single_texts(tokenizer: WordTokenizer) -> None:
    v = tokenizer.vocabulary
    known, unknown, empty = tokenizer.encode(["A b", "a ?", "  "])
    assert known == (v(["a", "b"]), [0, 0], False)
    assert unknown.input_ids == [v["a"], tokenizer.unk_id]
    assert empty.input_ids == [tokenizer.unk_id]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.sep_id) == (0, 1, 2)
    assert tokenizer.encode([]) == []


def test_pairs_and_their_truncation(tokenizer: WordTokenizer) -> None:
    v = tokenizer.vocabulary
    short, long = tokenizer.encode([("a b", "c"), ("a b c d e f g h", "i j")])
    assert short == (v(["a", "b", "<sep>", "c"]), [0, 0, 0, 1], False)
    assert long == (v("a b c d e <sep> i j".split()), [0] * 6 + [1] * 2, True)


def test_spans_of_singles_and_pairs(tokenizer: WordTokenizer) -> None:
    single, empty, pair, long = tokenizer.spans(
        ["a  b?", " ", ("a b", "c"), ("a b c d e f g h", "i j")]
    )
    assert single == [Span(0, 0, 1), Span(0, 3, 4), Span(0, 4, 5)]
    assert empty == [Span(0, 0, 0)]
    assert pair == [Span(0, 0, 1), Span(0, 2, 3), Span(0, 0, 0), Span(1, 0, 1)]
    assert long[4:] == [Span(0, 8, 9), Span(0, 0, 0), Span(1, 0, 1), Span(1, 2, 3)]


def drop_from_the_longer(a: int, b: int, room: int) -> tuple[int, int]:
    while a + b > room:
        a, b = (a, b - 1) if b >= a else (a - 1, b)
    return a, b


@given(a=st.integers(1, 12), b=st.integers(1, 12), max_length=st.integers(3, 16))
def test_pairs_lose_tokens_from_the_longer_text(a: int, b: int, max_length: int) -> None:
    tokenizer = WordTokenizer(Vocabulary({"x": 1, "y": 1}), max_length)
    (coded,) = tokenizer.encode([(" ".join("x" * a), " ".join("y" * b))])
    n_a, n_b = drop_from_the_longer(a, b, max_length - 1)
    assert coded.input_ids == [3] * n_a + [2] + [4] * n_b
    assert coded.segment_ids == [0] * (n_a + 1) + [1] * n_b
    assert coded.truncated == (a + b > max_length - 1)


texts = st.one_of(st.text(), st.tuples(st.text(), st.text()))


@given(st.lists(texts, max_size=4), st.integers(3, 10))
def test_any_text_gives_one_to_max_length_known_ids(texts: list[Text], max_length: int) -> None:
    tokenizer = WordTokenizer.build(texts[:2], max_length=max_length)
    for coded, spans in zip(tokenizer.encode(texts), tokenizer.spans(texts), strict=True):
        assert len(spans) == len(coded.input_ids)
        assert 1 <= len(coded.input_ids) <= max_length
        assert len(coded.segment_ids) == len(coded.input_ids)
        assert 0 <= min(coded.input_ids) <= max(coded.input_ids) < tokenizer.vocab_size


def test_state_passes_through_json(tokenizer: WordTokenizer) -> None:
    again = tokenizer_from_state(json.loads(json.dumps(tokenizer.state())))
    assert isinstance(again, WordTokenizer)
    assert again.vocab_size == tokenizer.vocab_size
    assert again.max_length == 8
    sample: list[Text] = ["a b zzz", ("c", "d")]
    assert again.encode(sample) == tokenizer.encode(sample)


def test_bad_settings_and_states() -> None:
    with pytest.raises(ValueError, match="max_length=2"):
        WordTokenizer(Vocabulary({}), 2)
    with pytest.raises(ValueError, match="specials"):
        WordTokenizer(Vocabulary({}, ["<unk>"]), 8)
    with pytest.raises(ValueError, match="kind 'none'"):
        tokenizer_from_state({"kind": "none"})
    with pytest.raises(ValueError, match="without 'vocabulary'"):
        tokenizer_from_state({"kind": "word"})
