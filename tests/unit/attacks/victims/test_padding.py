"""Padding changes no answer of a `transformers` model, whatever its architecture."""

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from attacks.document import Document
from attacks.victims.kinds import HuggingFaceVictim, as_victim

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a", "two", "plot"]
TEXTS = ["good film", "a", "bad plot a two good film bad plot", "bad", "a two good", ""]
LAYERS = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2}
WIDE = {**LAYERS, "intermediate_size": 16, "max_position_embeddings": 40}
ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "Bert": WIDE,
    "Roberta": WIDE,
    "DistilBert": {"dim": 16, "hidden_dim": 16, "n_layers": 2, "n_heads": 2},
    "Electra": {**WIDE, "embedding_size": 16},
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2},
    "Llama": WIDE,
    "XLNet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 16},
    "FNet": WIDE,
    "ConvBert": {**WIDE, "embedding_size": 16},
}


def victim(name: str, side: str) -> HuggingFaceVictim:
    """Return a small model with random weights, and a tokenizer that pads on a side."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    transformers: Any = import_module("transformers")
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        padding_side=side,
        model_max_length=20,
        model_input_names=["input_ids", *(["attention_mask"] if name != "FNet" else [])],
    )
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(WORDS), pad_token_id=0, **ARCHITECTURES[name]
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForSequenceClassification")(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)  # so that what padding changes is no rounding
    found = as_victim(model.eval(), tokenizer=tokenizer)
    assert isinstance(found, HuggingFaceVictim)
    return found


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_alone_are_those_in_a_batch(
    name: str, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = victim(name, side)
    alone = np.concatenate([one.logits([text]) for text in TEXTS])
    with caplog.at_level(logging.WARNING):
        together = one.logits(TEXTS)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert len(np.unique(alone.round(3), axis=0)) > 3
    # Models that no mask keeps from looking at padding are asked about equal lengths alone.
    assert ("padding changes its answers" in caplog.text) == (name in ("FNet", "ConvBert"))


@pytest.mark.parametrize("name", ["GPT2", "Llama", "Bert"])
def test_gradients_alone_are_those_in_a_batch(name: str) -> None:
    one = victim(name, "left")
    documents = [Document.of(text) for text in TEXTS if text]
    together = one.word_weights(documents)
    for document, weights in zip(documents, together, strict=True):
        np.testing.assert_allclose(one.word_weights([document])[0], weights, rtol=1e-3, atol=1e-5)
