"""Tokenizers of encoders: a text reaches them unchanged, and words keep their tokens."""

import pytest

from tests.encoder_folders import TEXTS, tokenizer_of
from text import PretrainedTokenizer, Words

KINDS = ("bert", "mpnet", "roberta", "modernbert", "eurobert", "xlm-roberta", "albert", "xlnet")
TEXT = "  The soup,\twas  naïve\n — cafe\N{COMBINING ACUTE ACCENT} 東京 \N{SNOWMAN}!  "


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> PretrainedTokenizer:
    wrapped = tokenizer_of(request.param)
    return PretrainedTokenizer(
        wrapped.backend_tokenizer.to_str(),
        64,
        pad_id=wrapped.pad_token_id,
        unk_id=wrapped.unk_token_id,
    )


def test_spans_are_those_of_the_raw_text(tokenizer: PretrainedTokenizer) -> None:
    """Each character but spaces and accents is in a token, and no token is outside of the text."""
    for text in (TEXT, *TEXTS):
        (spans,) = tokenizer.spans([text])
        covered = {i for span in spans for i in range(span.start, span.end)}
        assert covered <= set(range(len(text)))
        lost = [text[i] for i in range(len(text)) if i not in covered]
        assert all(c.isspace() or c == "\N{COMBINING ACUTE ACCENT}" for c in lost), lost


def test_bytes_lose_nothing() -> None:
    """The tokens of ModernBERT and RoBERTa spell the raw text, spaces included."""
    for kind in ("roberta", "modernbert", "eurobert"):
        wrapped = tokenizer_of(kind)
        ids = wrapped(TEXT)["input_ids"]
        assert wrapped.decode(ids, skip_special_tokens=True) == TEXT


def test_words_have_the_tokens_of_the_sentence(tokenizer: PretrainedTokenizer) -> None:
    """But for the first word, before which a sentence has no space."""
    words = "waiter and rude coffee".split()
    sentence = f"the {' '.join(words)}"
    (expected,) = tokenizer.encode([sentence])
    (encoded,) = tokenizer.encode_words([Words(("the", *words))])
    ids, starts = encoded.encoding.input_ids, encoded.starts
    before, after = tokenizer.template
    behind = len(expected.input_ids) - len(after)
    rest = ids[starts[1] : len(ids) - len(after)]
    assert expected.input_ids[behind - len(rest) : behind] == rest
    assert starts[0] == len(before)
    assert len(starts) == 1 + len(words)
    # Each word begins with its own first token.
    for number, word in enumerate(words, start=1):
        (alone,) = tokenizer.encode_words([Words((word,))])
        assert ids[starts[number]] == alone.encoding.input_ids[len(before)]


def test_masks_and_padding_are_known(tokenizer: PretrainedTokenizer) -> None:
    assert tokenizer.mask_id is not None
    assert {tokenizer.mask_id, tokenizer.pad_id, tokenizer.unk_id} <= tokenizer.special_ids
    assert tokenizer.whole_words() or tokenizer.continuations()
