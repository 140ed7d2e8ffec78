"""The ordinary Transformer: torch's own layers, and the thesis's number of parameters."""

import pytest
import torch
from torch import nn

from layers import LSTMClassifier, TransformerClassifier, TransformerLayers
from layers.transformer import FeedForwardActivation, Norm


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_table_4_1_of_the_thesis() -> None:
    lstm = LSTMClassifier(300, 2, depth=4, hidden=200, single_logit=True)
    transformer = TransformerClassifier(
        *(300, 2),
        depth=4,
        heads=5,
        layers=TransformerLayers(feedforward=1024, norm="post", activation="relu"),
        single_logit=True,
    )
    # The thesis prints 3.69M and 3.91M.
    assert (count(lstm), count(transformer)) == (3_693_201, 3_912_797)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_layers_are_those_of_torch(norm: Norm, activation: FeedForwardActivation) -> None:
    torch.manual_seed(0)
    layers = TransformerLayers(feedforward=7, norm=norm, activation=activation)
    model = TransformerClassifier(12, 2, depth=2, heads=3, dropout=0.0, layers=layers)
    names = {
        "self_attn.in_proj_": "attention.qkv.",
        "self_attn.out_proj": "attention.output",
        "linear1": "inner",
        "linear2": "outer",
        "norm1": "attention_norm",
        "norm2": "feedforward_norm",
    }
    x, mask = torch.randn(2, 5, 12), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected = x
    for block in model.blocks:
        theirs = nn.TransformerEncoderLayer(
            *(12, 3, 7, 0.0), activation=activation, batch_first=True, norm_first=norm == "pre"
        )
        ours = block.state_dict()
        for name in theirs.state_dict():
            renamed = name
            for before, after in names.items():
                renamed = renamed.replace(before, after)
            theirs.get_parameter(name).data.copy_(ours[renamed])
        expected = theirs(expected, src_key_padding_mask=~mask)
    states = model.hidden_states(x, mask)[-1]
    torch.testing.assert_close(states[mask], expected[mask], rtol=1e-5, atol=1e-5)
