"""Which weights are to be unitary: those of the paper's Table 1, and what else is asked for."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, BertConfig, BertModel

from layers.backbones import Backbone, BackboneClassifier
from layers.unitary import METHODS, UnitaryMethod, project_, unitary_residual
from layers.weight_names import unitary_blocks, unitary_weights

SMALL: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "albert": {"embedding_size": 8},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "mpnet": {},
    "modernbert": {"pad_token_id": 0},
    "eurobert": {"pad_token_id": 0, "num_key_value_heads": 1},
    "nomic_bert": {},
    "gte": {},
}
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj"]
PER_LAYER = {
    "bert": ["self.query", "self.key", "self.value", "output.dense"],
    "roberta": ["self.query", "self.key", "self.value", "output.dense"],
    "albert": ["query", "key", "value", "dense"],
    "distilbert": ["q_lin", "k_lin", "v_lin", "out_lin"],
    "deberta": ["output.dense"],
    "deberta-v2": ["self.query_proj", "self.key_proj", "self.value_proj", "output.dense"],
    "mpnet": ["attn.q", "attn.k", "attn.v", "attn.o"],
    "modernbert": ["Wqkv", "Wo"],
    "eurobert": PROJECTIONS,
    "nomic_bert": PROJECTIONS,
    "gte": PROJECTIONS,
}


def encoder(kind: str) -> nn.Module:
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    own = SMALL[kind]
    config = AutoConfig.for_model(kind, vocab_size=30, **({} if "dim" in own else sizes), **own)
    with torch.device("meta"):
        model: nn.Module = AutoModel.from_config(config)  # type: ignore[no-untyped-call] # theirs
    return model


def test_48_of_the_77_matrices_of_bert_base() -> None:
    """Table 1 of the paper; without memory for any of them."""
    with torch.device("meta"):
        model = BackboneClassifier(Backbone(BertModel(BertConfig())), num_classes=4)
    matrices = {name: p for name, p in model.named_parameters() if p.ndim == 2}
    weights = unitary_weights(model)
    assert len(matrices) == 77
    assert len(weights) == 48
    assert {tuple(weight.shape) for weight in weights.values()} == {(768, 768)}
    # The last of the square ones is the classifier, which stays free.
    square = {name for name, p in matrices.items() if p.shape[0] == p.shape[1]}
    assert square - weights.keys() == {"classifier.weight"}


@pytest.mark.parametrize("kind", SMALL)
def test_attention_weights_of_every_encoder(kind: str) -> None:
    weights = unitary_weights(encoder(kind))
    ends = [re.split(r"(?:attention|attn)\.", name, maxsplit=1)[1] for name in weights]
    ends = [end.removesuffix(".weight") for end in ends]
    layers = 1 if kind == "albert" else 2  # ALBERT's layers share theirs
    assert sorted(ends) == sorted(layers * PER_LAYER[kind])


@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_fused_and_of_shared_weights(method: UnitaryMethod) -> None:
    """Each of query, key and value by itself; shared keys and values have orthonormal rows."""
    torch.manual_seed(0)
    fused, shared, square = torch.randn(12, 4), torch.randn(2, 4), torch.randn(4, 4)
    names = ("attn.Wqkv.weight", "self_attn.k_proj.weight", "attn.Wo.weight")
    weights = dict(zip(names, (fused, shared, square), strict=True))
    originals = {name: weight.clone().double() for name, weight in weights.items()}
    blocks = unitary_blocks(weights)
    assert [tuple(block.shape) for block in blocks] == [(4, 4)] * 3 + [(4, 2), (4, 4)]
    project_(blocks, method)
    for number in range(3):
        part = fused[4 * number : 4 * number + 4]
        torch.testing.assert_close(part.T @ part, torch.eye(4))
        expected = definition(originals[names[0]][4 * number : 4 * number + 4], method)
        torch.testing.assert_close(part, expected.float())
    torch.testing.assert_close(shared @ shared.T, torch.eye(2))
    torch.testing.assert_close(shared, definition(originals[names[1]].T, method).T.float())
    assert float(unitary_residual(blocks).max()) < 1e-5


def definition(matrix: Tensor, method: UnitaryMethod) -> Tensor:
    """The factor with orthonormal columns, as the textbook has it."""
    if method == "polar":
        u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
        nearest: Tensor = u @ vh
        return nearest
    q, r = torch.linalg.qr(matrix)
    factor: Tensor = q * r.diagonal().sign()
    return factor


def test_patterns() -> None:
    model = encoder("bert")
    assert list(unitary_weights(model, [r"layer\.1\..*query\.weight", "pooler.dense.weight"])) == [
        "encoder.layer.1.attention.self.query.weight",
        "pooler.dense.weight",
    ]


def test_frozen_weights_stay_as_they_are() -> None:
    model = encoder("bert")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("layer.1" in name)
    assert len(unitary_weights(model)) == 4


def test_errors() -> None:
    model = encoder("bert")
    with pytest.raises(ValueError, match=r"'querry'.*encoder\.layer\.0\.attention\.self\.query"):
        unitary_weights(model, ["query.weight", "querry"])
    with pytest.raises(ValueError, match=r"intermediate.*\(24, 16\).*pooler\.dense\.weight"):
        unitary_weights(model, [r"dense\.weight"])
    with pytest.raises(ValueError, match=r"bias of shape \(16,\)"):
        unitary_weights(model, ["attention.self.query"])
    with pytest.raises(ValueError, match=r"Sequential without attention weights.*: 1\.weight"):
        unitary_weights(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3)))
    with pytest.raises(ValueError, match="square weights: none"):
        unitary_weights(nn.Linear(2, 3))
    with pytest.raises(ValueError, match=r"got pattern '\(', which is no regular expression"):
        unitary_weights(model, ["("])
    with pytest.raises(ValueError, match="got no pattern"):
        unitary_weights(model, [])
