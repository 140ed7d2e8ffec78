"""Adapters: they begin as nothing, are trained alone, and merge into the weights."""

import copy
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from layers.architectures import build_encoder
from layers.backbones import Backbone, BackboneClassifier
from layers.lora import Lora, add_adapters, merge_adapters
from tests.unit.layers.small_decoders import DECODERS
from tests.unit.layers.small_encoders import ARCHITECTURES

KINDS: dict[str, dict[str, Any]] = {
    **DECODERS,
    "bert": ARCHITECTURES["bert"],
    "albert": ARCHITECTURES["albert"],
    "deberta-v2": ARCHITECTURES["deberta-v2"],
}
LAYERS = {**dict.fromkeys(DECODERS, 14), "gpt2": 8, "bert": 12, "albert": 7, "deberta-v2": 16}
IDS = torch.arange(12).view(2, 6) + 3
MASK = torch.ones(2, 6, dtype=torch.bool)


def network(kind: str) -> BackboneClassifier:
    torch.manual_seed(1)
    encoder = build_encoder({**KINDS[kind], "vocab_size": 50}, decoders=True)
    return BackboneClassifier(Backbone(encoder), 3, pooling="architecture").eval()


def logits(model: BackboneClassifier) -> Tensor:
    out: Tensor = model(model.backbone.embed(IDS), MASK)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_are_trained_alone_and_merge(kind: str) -> None:
    pytest.importorskip("peft")
    model = network(kind)
    names, before = list(model.state_dict()), logits(model)
    add_adapters(model.backbone.encoder, Lora(rank=2, alpha=3))
    assert torch.equal(logits(model), before)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    adapters = [name for name in trained if ".lora_" in name]
    assert len(adapters) == 2 * LAYERS[kind]
    assert not [name for name in trained if name.startswith("backbone") and "lora_" not in name]
    assert "projection.weight" in trained
    with torch.no_grad():
        for name in adapters:
            trained[name].add_(torch.randn_like(trained[name]))
    changed = logits(model)
    assert not torch.allclose(changed, before, atol=1e-3)
    merged = copy.deepcopy(model)
    merge_adapters(merged)
    assert list(merged.state_dict()) == names
    torch.testing.assert_close(logits(merged), changed)
    # W + alpha / r B A, of the first layer.
    name = adapters[0].partition(".lora_A")[0]
    layer: Any = model.get_submodule(name)
    change = 3 / 2 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    if kind == "gpt2":
        change = change.T
    expected = layer.get_base_layer().weight + change
    torch.testing.assert_close(merged.state_dict()[f"{name}.weight"], expected)


def test_targets() -> None:
    pytest.importorskip("peft")
    model = network("qwen3")
    add_adapters(model.backbone.encoder, Lora(rank=1, targets=["q_proj", "0.mlp.down_proj"]))
    adapted = [n for n, _ in model.backbone.encoder.named_modules() if n.endswith("lora_A")]
    assert adapted == [
        "layers.0.self_attn.q_proj.lora_A",
        "layers.0.mlp.down_proj.lora_A",
        "layers.1.self_attn.q_proj.lora_A",
    ]
    for targets, got in ((["q_prj"], "'q_prj'"), ([], "'no name'"), (["embed_tokens"], "'emb")):
        with pytest.raises(ValueError, match=f"got {got}.* some of down_proj, .*, v_proj$"):
            add_adapters(network("qwen3").backbone.encoder, Lora(rank=1, targets=targets))


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModuleNotFoundError, match=r"peft is not installed: .*\[lora\]"):
        add_adapters(network("bert").backbone.encoder, Lora(rank=1))


def test_settings() -> None:
    wrongs: list[dict[str, Any]] = [{"rank": -1}, {"alpha": 0}, {"dropout": 1}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"lora.{next(iter(wrong))}="):
            Lora(**wrong)
    assert set(Lora().unused) == {"alpha", "dropout", "targets"}
    assert not Lora(rank=1).unused
