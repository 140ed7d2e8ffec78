"""A tokenizer as a folder: what other programs read there gives the same ids."""

import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import RobertaProcessing
from transformers import AutoTokenizer

from text import PretrainedTokenizer, Text, save_tokenizer, train_word_piece

TEXTS: list[Text] = [
    "The hare ran, and a tortoise walked on.",
    "it was asleep when she won: " * 20,
    "Café, naïve, ÜBER",
    "unknown \N{SNOWMAN} and [MASK] within",
    "",
    ("the hare ran", "a tortoise walked"),
]


def roberta() -> PretrainedTokenizer:
    """With the names of RoBERTa's special tokens."""
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "the", "hare", "ran"]
    backend = tokenizers.Tokenizer(
        WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.add_special_tokens(words[:5])
    backend.pre_tokenizer = WhitespaceSplit()
    backend.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PretrainedTokenizer(backend.to_str(), 30, pad_id=1, unk_id=3)


def bert() -> PretrainedTokenizer:
    return train_word_piece([text for text in TEXTS if isinstance(text, str)], 200, max_length=30)


@pytest.mark.parametrize("build", [bert, roberta])
def test_ids_are_the_same(build: object, tmp_path: Path) -> None:
    assert callable(build)
    ours: PretrainedTokenizer = build()
    save_tokenizer(ours, tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.is_fast
    for text, coded in zip(TEXTS, ours.encode(TEXTS), strict=True):
        parts = (text,) if isinstance(text, str) else text
        reference = theirs(*parts, truncation=True)
        assert reference["input_ids"] == coded.input_ids
        # Without `truncation`, it does not cut; nor does ours pad.
        uncut = theirs(*parts)["input_ids"]
        assert len(uncut) == len(coded.input_ids) or coded.truncated
    assert theirs.model_max_length == 30
    assert theirs.pad_token_id == ours.pad_id
    assert theirs.unk_token_id == ours.unk_id
    assert theirs.mask_token_id == ours.mask_id
    assert (theirs.cls_token_id, theirs.sep_token_id) == ((2, 3) if build is bert else (0, 2))


@pytest.mark.parametrize("build", [bert, roberta])
def test_read_back_by_us(build: object, tmp_path: Path) -> None:
    assert callable(build)
    ours: PretrainedTokenizer = build()
    save_tokenizer(ours, tmp_path)
    again = PretrainedTokenizer.from_pretrained(str(tmp_path), max_length=30)
    assert (again.pad_id, again.unk_id, again.mask_id) == (ours.pad_id, ours.unk_id, ours.mask_id)
    assert again.vocab_size == ours.vocab_size
    assert again.special_ids == ours.special_ids
    assert [encoding.input_ids for encoding in again.encode(TEXTS)] == [
        encoding.input_ids for encoding in ours.encode(TEXTS)
    ]
    shorter = PretrainedTokenizer.from_pretrained(str(tmp_path), max_length=9)
    assert max(len(encoding.input_ids) for encoding in shorter.encode(TEXTS)) == 9
    with pytest.raises(
        ValueError, match=r"got max_length=31, expected at most 30.*--model.max_length 30"
    ):
        PretrainedTokenizer.from_pretrained(str(tmp_path), max_length=31)


def test_letters_of_all_languages_are_written_as_such(tmp_path: Path) -> None:
    tokenizer = train_word_piece(["Füße"], 40, max_length=9, lowercase=False)
    save_tokenizer(tokenizer, tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes().decode("utf-8"))
    assert content["truncation"] is None
    assert content["padding"] is None
    assert "ß" in (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
