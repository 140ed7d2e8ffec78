"""Decoders as classifiers: the last token that is no padding reads the text."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from layers.architectures import build_encoder, build_masked_lm
from layers.attention.masking.biased import BiasedAttention
from layers.backbones import Backbone, BackboneClassifier, Pooling
from layers.pretrained_encoders import load_encoder, load_masked_lm
from layers.sequence_classifiers import difference, sequence_classifier, take_weights
from tests.unit.layers.small_decoders import DECODERS
from tests.unit.layers.small_encoders import ARCHITECTURES, untried

every = pytest.mark.parametrize("kind", DECODERS)
LENGTHS = torch.tensor([9, 5, 7])
MASK = torch.arange(9) < LENGTHS[:, None]
IDS = torch.arange(27).view(3, 9) + 3


def classifier(kind: str, pooling: Pooling = "architecture", **changes: Any) -> BackboneClassifier:
    torch.manual_seed(3)
    encoder = build_encoder({**DECODERS[kind], "vocab_size": 50, **changes}, decoders=True)
    with torch.no_grad():  # norms begin at one, and small weights hide what padding changes
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return BackboneClassifier(Backbone(encoder), 3, pooling=pooling).eval()


def logits(network: BackboneClassifier, ids: Tensor, mask: Tensor) -> Tensor:
    out: Tensor = network(network.backbone.embed(ids), mask).detach()
    return out


@every
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_changes_nothing(kind: str, side: str) -> None:
    if (kind, side) == ("gpt2", "left"):
        pytest.skip("GPT-2 counts positions from the left: padding there is another text")
    network = classifier(kind)
    shifts = (9 - LENGTHS).tolist() if side == "left" else [0, 0, 0]
    ids, mask = (
        torch.stack([row.roll(shift) for row, shift in zip(rows, shifts, strict=True)])
        for rows in (IDS.masked_fill(~MASK, 0), MASK)
    )
    alone = [
        logits(network, IDS[i : i + 1, :n], MASK[i : i + 1, :n]) for i, n in enumerate(LENGTHS)
    ]
    torch.testing.assert_close(logits(network, ids, mask), torch.cat(alone), atol=1e-5, rtol=1e-5)
    changed = ids.masked_fill(~mask, 7)
    torch.testing.assert_close(logits(network, changed, mask), logits(network, ids, mask))


@every
def test_every_token_counts(kind: str) -> None:
    """The gradient of the logits by the embedded text, with which adversaries move it."""
    network = classifier(kind)
    x = network.backbone.embed(IDS).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(network(x, MASK).square().sum(), x)
    assert torch.equal(gradient.abs().amax(-1) > 0, MASK)


@every
def test_transformers_has_the_same_classifier(kind: str) -> None:
    network = classifier(kind)
    assert difference(network) is None
    twin = sequence_classifier(network, ["a", "b", "c"], pad_id=0)
    ids = IDS.masked_fill(~MASK, 0)
    expected = logits(network, IDS, MASK)
    theirs = twin(input_ids=ids, attention_mask=MASK.long()).logits
    torch.testing.assert_close(theirs, expected, atol=1e-6, rtol=1e-6)
    other = classifier(kind)
    torch.nn.init.zeros_(other.projection.weight)
    take_weights(other, twin)
    assert torch.equal(logits(other, IDS, MASK), expected)


def test_a_decoder_without_such_a_classifier() -> None:
    settings = {key: DECODERS["llama"][key] for key in DECODERS["llama"] if key != "head_dim"}
    encoder = build_encoder({**settings, "model_type": "granite", "vocab_size": 50}, decoders=True)
    network = BackboneClassifier(Backbone(encoder), 3, pooling="last")
    assert str(difference(network)) == "no classifier of transformers on granite has such a head"


def test_a_masked_encoder_as_a_decoder() -> None:
    """BERT's own head reads the first token, which sees no text here."""
    bert = {**ARCHITECTURES["bert"], "is_decoder": True, "vocab_size": 50}
    network = BackboneClassifier(
        Backbone(build_encoder(bert, decoders=True)), 3, pooling="architecture"
    )
    assert network.head.pooling == "last"
    assert str(difference(network)).endswith("this one a projection without bias on the last token")


def test_poolings() -> None:
    mean = classifier("qwen3", "mean")
    assert mean.head.pooling == "mean"
    assert "--model.pooling architecture trains" in str(difference(mean))
    assert classifier("qwen3", "last").head == classifier("qwen3").head
    with pytest.raises(ValueError, match=r"pooling first for a qwen3, a decoder, .* last or mean$"):
        classifier("qwen3", "first")
    encoder = build_encoder({**ARCHITECTURES["bert"], "vocab_size": 50})
    with pytest.raises(ValueError, match=r"pooling last for a bert, an encoder, .* for decoders$"):
        BackboneClassifier(Backbone(encoder), 3, pooling="last")


def test_more_than_embeddings() -> None:
    """Gemma 4 also looks each token up in tables of its layers: an adversary would miss them."""
    gemma = {**DECODERS["gemma3"], "model_type": "gemma4_text", "vocab_size_per_layer_input": 50}
    with pytest.raises(ValueError, match="reads more of a token than its embedding"):
        build_encoder({**gemma, "vocab_size": 50}, decoders=True)
    # Without these tables it reads vectors alone.
    build_encoder({**gemma, "vocab_size": 50, "hidden_size_per_layer_input": 0}, decoders=True)


def test_no_masked_words(tmp_path: Path) -> None:
    message = "got a backbone of type qwen3, which guesses no masked words, expected an encoder"
    with pytest.raises(ValueError, match=message):
        build_masked_lm({**DECODERS["qwen3"], "vocab_size": 50})
    untried({**DECODERS["qwen3"], "vocab_size": 50}).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_masked_lm(str(tmp_path))
    with pytest.raises(ValueError, match="which is a decoder"):
        load_encoder(str(tmp_path))


def test_no_masked_attention() -> None:
    encoder = build_encoder({**DECODERS["qwen3"], "vocab_size": 50}, decoders=True)
    with pytest.raises(ValueError, match="kind 'qwen3', whose attention cannot be biased"):
        BiasedAttention(encoder)


@every
def test_dropout_of_attention(kind: str) -> None:
    network = classifier(kind)
    network.backbone.set_dropout(0.5)
    network.backbone.train()
    x = network.backbone.embed(IDS)
    first, second = (network.backbone(x, MASK).detach() for _ in range(2))
    assert not torch.equal(first, second)
    network.backbone.set_dropout(0)
    first, second = (network.backbone(x, MASK).detach() for _ in range(2))
    assert torch.equal(first, second)
