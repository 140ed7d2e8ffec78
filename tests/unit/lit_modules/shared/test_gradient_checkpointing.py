"""Layers that are computed again for their gradients: the same gradients, by less memory."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.graph_memory import GraphMemory
from layers.architectures import build_encoder
from layers.pretrained_encoders import checkpoint_gradients, checkpoints_gradients
from lit_modules import ASA, FineTuning, MaskedLM
from lit_modules.adversaries.representations import find_layers
from lit_modules.shared.encoder_source import EncoderSettings
from lit_modules.shared.task_module import labels_of
from tests.unit.layers.small_decoders import DECODERS
from tests.unit.layers.small_encoders import ARCHITECTURES
from tests.unit.lit_modules.encoders import SENTENCES, made
from text import train_word_piece

KINDS = {
    name: {**architectures[name], "max_position_embeddings": 80}
    for architectures, names in (
        (ARCHITECTURES, ("bert", "distilbert", "deberta-v2")),
        (DECODERS, DECODERS),
    )
    for name in names
}
every = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind in ("llama", "smollm3", "gpt2")))
        for kind in KINDS
    ],
)


def module(kind: str, *, again: bool, method: Any = FineTuning, **settings: Any) -> Any:
    backbone = EncoderSettings(
        architecture=KINDS[kind], vocab_size=80, gradient_checkpointing=again
    )
    model = method(backbone=backbone, **settings)
    torch.manual_seed(2)
    tokenizer = train_word_piece(SENTENCES, 80, max_length=40)
    model.attach(tokenizer, ["no", "yes"])
    model.configure_model()
    return model.train()


def gradients(model: Any) -> Iterator[tuple[str, Tensor]]:
    batch = model.encode_texts(SENTENCES)
    batch.labels = torch.arange(len(batch)) % 2
    torch.manual_seed(5)  # of dropout
    model.loss(model(batch), labels_of(batch)).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            yield name, parameter.grad


@every
def test_the_same_gradients(kind: str) -> None:
    """With dropout, whose random numbers are drawn again."""
    plain, again = (dict(gradients(module(kind, again=each))) for each in (False, True))
    assert plain.keys() == again.keys()
    assert len(plain) > 20
    for name, gradient in plain.items():
        torch.testing.assert_close(again[name], gradient, atol=1e-6, rtol=1e-5)


def test_less_is_kept() -> None:
    kept = []
    for each in (False, True):
        model = module("qwen3", again=each)
        memory = GraphMemory([*model.parameters(), *model.buffers()])
        kept.append(memory.of(partial(list, gradients(model))))
    assert kept[1] < 0.7 * kept[0]


@every
def test_numbers_of_sixteen_bits(kind: str) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert all(g.isfinite().all() for _, g in gradients(module(kind, again=True)))


def test_what_hooks_into_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="encoder whose attention is masked, expected false"):
        module("bert", again=True, method=ASA)
    with pytest.raises(ValueError, match="method that changes tokens between layers, expected fal"):
        find_layers(module("bert", again=True))
    assert find_layers(module("bert", again=False))


def test_layers_that_cannot() -> None:
    xlm = {"model_type": "xlm", "emb_dim": 16, "n_layers": 1, "n_heads": 2, "vocab_size": 50}
    with pytest.raises(ValueError, match="for a xlm, whose layers cannot be computed again"):
        checkpoint_gradients(build_encoder(xlm))
    masked = MaskedLM(
        backbone=EncoderSettings(architecture=KINDS["bert"], gradient_checkpointing=True)
    )
    masked.attach_tokenizer(train_word_piece(SENTENCES, 80, max_length=40))
    masked.configure_model()
    assert checkpoints_gradients(masked.model)
    assert made(FineTuning).source.gradient_checkpointing is False
