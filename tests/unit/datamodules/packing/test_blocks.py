import random
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE

from datamodules.packing import blocks as packing
from datamodules.packing.blocks import Blocks, pack
from text import PretrainedTokenizer, train_word_piece

WORDS = "the hare ran , and a tortoise walked on .".split()
TOKENIZER = train_word_piece([" ".join(WORDS)], 200, max_length=64)
CLS, SEP = 2, 3
lines = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), max_size=30)


def byte_level() -> PretrainedTokenizer:
    """One that does not split at spaces, and has no template."""
    letters = {letter: i for i, letter in enumerate(pre_tokenizers.ByteLevel.alphabet(), start=1)}
    backend = Tokenizer(BPE({"<pad>": 0, **letters}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.add_special_tokens(["<pad>"])
    return PretrainedTokenizer(backend.to_str(), 64, pad_id=0, unk_id=0)


def joined(blocks: list[Blocks]) -> tuple[np.ndarray, np.ndarray]:
    ids, tokens = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return ids, tokens


@pytest.mark.long
@given(lines=lines, length=st.integers(3, 40))
def test_blocks_hold_every_token_once_and_in_order(lines: list[list[str]], length: int) -> None:
    texts = [" ".join(words) for words in lines]
    blocks = list(pack(texts, TOKENIZER, length))
    if not texts:
        assert blocks == []
        return
    ids, tokens = joined(blocks)
    assert (tokens[:-1] == length).all()
    assert (ids[:, 0] == CLS).all()
    assert (ids[np.arange(len(ids)), tokens - 1] == SEP).all()
    assert (ids[-1, tokens[-1] :] == TOKENIZER.pad_id).all()
    inner = [row[1 : n - 1] for row, n in zip(ids, tokens, strict=True)]
    expected = [[*ids, SEP] for ids in TOKENIZER.pieces(texts)]
    assert list(chain(*inner)) == list(chain(*expected))


@pytest.mark.long
@given(lines=lines, limit=st.integers(1, 90))
def test_a_limit_is_kept_exactly(lines: list[list[str]], limit: int) -> None:
    texts = [" ".join(words) for words in lines]
    full, some = (list(pack(texts, TOKENIZER, 8, limit_tokens=n)) for n in (None, limit))
    if full:
        (all_ids, all_tokens), (ids, tokens) = joined(full), joined(some)
        content = int((all_tokens - 2).sum())
        assert (tokens - 2).sum() == min(limit, content)
        assert (ids[:-1] == all_ids[: len(ids) - 1]).all()


def test_a_limit_ends_the_reading() -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "the hare"

    assert sum(len(some.ids) for some in pack(endless(), TOKENIZER, 8, limit_tokens=60)) == 10
    assert read <= 5000


def test_the_size_of_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 90))) for _ in range(200)]
    for tokenizer in (TOKENIZER, byte_level()):
        monkeypatch.undo()
        expected = joined(list(pack(texts, tokenizer, 16)))
        monkeypatch.setattr(packing, "_TEXTS", 7)
        monkeypatch.setattr(packing, "_CHARACTERS", 100)  # long texts are taken apart
        monkeypatch.setattr(packing, "_KNOWN", 4)  # words are forgotten
        blocks = joined(list(pack(texts, tokenizer, 16)))
        assert all(np.array_equal(*pair) for pair in zip(expected, blocks, strict=True))


def test_memory_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_KNOWN_CHARACTERS", 500)
    words = packing._Words(TOKENIZER)
    for i in range(50):
        # Lines without a space are words, and long ones.
        words.encode([(f"{i:03}" * 50, True), ("the hare", True)], b"")
        assert sum(map(len, words._known)) < 900


def test_text_without_any_space_is_taken_apart_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_CHARACTERS", 10)
    chunks = list(packing._chunks(["x" * 35, "y"]))
    parts = [part for chunk in chunks for part in chunk]
    assert [(len(text), end) for text, end in parts] == [
        (10, False),
        (10, False),
        (10, False),
        (5, True),
        (1, True),
    ]


def test_a_tokenizer_without_template_gives_bare_blocks() -> None:
    tokenizer = byte_level()
    ids, tokens = joined(list(pack(["ab cd", "e"], tokenizer, 4)))
    assert tokens.tolist() == [4, 2]
    assert ids.reshape(-1)[:6].tolist() == [
        t for part in tokenizer.pieces(["ab cd", "e"]) for t in part
    ]


def test_words_are_looked_up_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["The  hare\u0301 ran,and \t ran.", " a", "\u4e2d\u6587 [SEP] hare"]
    expected = joined(list(pack(texts, TOKENIZER, 8)))
    monkeypatch.setattr(PretrainedTokenizer, "splits_at_spaces", False)
    blocks = joined(list(pack(texts, TOKENIZER, 8)))
    assert all(np.array_equal(*pair) for pair in zip(expected, blocks, strict=True))


@pytest.mark.parametrize("length", [2, 65])
def test_lengths_that_cannot_be(length: int) -> None:
    with pytest.raises(ValueError, match=rf"length={length}, expected 3 to 64"):
        next(pack(["a"], TOKENIZER, length))
