"""Masked language models of every kind of vocabulary: each proposed word is read as its token."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers.processors import RobertaProcessing
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

from attacks.resources.language_model import MaskFiller, load_masked_lm
from tests.unit.layers.small_decoders import DECODERS
from tests.unit.layers.small_encoders import untried

CORPUS = ["the film was good and the plot was bad", "bad film (good plot) and a bad film"] * 8
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
    "initializer_range": 1.0,
}


def byte_level() -> Tokenizer:
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def sentence_pieces() -> Tokenizer:
    words = "the film was good and plot bad a".split()
    pieces = [*(f"\u2581{word}" for word in words), "good", "bad", "film", "(", ")"]
    letters = [letter for letter in "\u2581abdefghilmnoptw" if letter not in pieces]
    scored = [(piece, -2.0) for piece in (*SPECIAL, *pieces)] + [(one, -9.0) for one in letters]
    backend = Tokenizer(models.Unigram(scored, unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens(SPECIAL)
    return backend


def replaced_spaces() -> Tokenizer:
    """The tokenizer of Gemma and mmBERT: a normaliser writes the mark."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.normalizer = normalizers.Replace(" ", "\u2581")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("\u2581", "merged_with_next"), pre_tokenizers.Split("(", "isolated")]
    )
    backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse()])
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    return backend


VOCABULARIES: dict[str, Callable[[], Tokenizer]] = {
    "byte level": byte_level,
    "sentence pieces": sentence_pieces,
    "replaced spaces": replaced_spaces,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "roberta": ("byte level", {}),
    "modernbert": ("byte level", {"global_attn_every_n_layers": 1, "local_attention": 8}),
    "deberta": ("byte level", {}),
    "deberta-v2": ("sentence pieces", {"relative_attention": True}),
    "xlm-roberta": ("sentence pieces", {}),
    "albert": ("sentence pieces", {"embedding_size": 16}),
    "mmbert": ("replaced spaces", {"model_type": "modernbert"}),
}


def filler(kind: str) -> tuple[MaskFiller, Any, Any]:
    name, settings = KINDS[kind]
    backend = VOCABULARIES[name]()
    backend.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # theirs
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
        model_max_length=40,
    )
    torch.manual_seed(0)
    settings = {"model_type": kind, **SIZES, "vocab_size": len(tokenizer), **settings}
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    model: Any = AutoModelForMaskedLM.from_config(config)  # type: ignore[no-untyped-call] # theirs
    return MaskFiller(model, tokenizer, 50), model, tokenizer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["", "the film was ", "bad plot ("])
def test_words_are_read_as_their_tokens(kind: str, before: str) -> None:
    fill, model, tokenizer = filler(kind)
    text = f"{before}<mask> film"
    ((_, words),) = fill.fill([(text, len(before))]).items()
    assert {"good", "bad"} <= set(words)
    coded = tokenizer(text, return_tensors="pt")
    place = coded["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        logits = model.eval()(**coded).logits[0, place]
    scores = []
    for word in words:
        encoded = tokenizer._tokenizer.encode(f"{before}{word} film")
        span = set(range(len(before), len(before) + len(word)))
        own = [
            token
            for token, offsets, text_number in zip(
                encoded.ids, encoded.offsets, encoded.sequence_ids, strict=True
            )
            if text_number is not None and span & set(range(*offsets))
        ]
        assert len(own) == 1, (word, encoded.tokens)
        scores.append(float(logits[own[0]]))
    assert scores == sorted(scores, reverse=True)


def test_a_decoder_has_no_masks(tmp_path: Path) -> None:
    untried({**DECODERS["qwen3"], "vocab_size": 50}).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="type qwen3, which guesses no masked words, expected an"):
        load_masked_lm(tmp_path)
