"""Networks that predict the next token: what they see, what they keep, how they begin."""

import math

import pytest
import torch
from torch import nn

from layers.attention.headed import HeadedAttention
from layers.attention.l2 import ContractiveL2Attention, L2Attention
from layers.decoder import (
    KINDS,
    Decoder,
    Kind,
    LSTMNetwork,
    NextToken,
    causal_attention,
    initialise_,
)

every = pytest.mark.parametrize("kind", KINDS)
attentions = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lstm"])
V, D, H, N = 11, 16, 4, 9


def network(kind: Kind, *, dropout: float = 0.0, scale: float = 2.0) -> NextToken:
    torch.manual_seed(0)
    module: NextToken
    if kind == "lstm":
        module = LSTMNetwork(V, width=D, depth=2, dropout=dropout)
    else:
        module = Decoder(
            V, kind=kind, width=D, heads=H, depth=2, hidden=24, dropout=dropout, length=N
        )
    initialise_(module, scale=scale)
    return module.double().eval()


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(3))


@every
def test_no_logit_depends_on_a_later_token(kind: Kind) -> None:
    model, ids = network(kind), tokens(2, N)
    full = model(ids)
    assert full.shape == (2, N, V)
    for cut in range(1, N):
        changed = ids.clone()
        changed[:, cut:] = (changed[:, cut:] + 1) % V
        torch.testing.assert_close(model(changed)[:, :cut], full[:, :cut])
        assert not torch.allclose(model(changed)[:, cut], full[:, cut])
        torch.testing.assert_close(model(ids[:, :cut]), full[:, :cut])


@every
def test_each_token_before_counts(kind: Kind) -> None:
    model, ids = network(kind), tokens(1, N)
    last = model(ids)[0, -1]
    for position in range(N):
        changed = ids.clone()
        changed[0, position] = (changed[0, position] + 1) % V
        assert not torch.allclose(model(changed)[0, -1], last, rtol=1e-9, atol=1e-9)


@every
@pytest.mark.parametrize("pieces", [[1] * N, [4, 5], [3, 1, 3, 2]])
def test_reading_on_from_a_memory_is_reading_all(kind: Kind, pieces: list[int]) -> None:
    model, ids = network(kind), tokens(3, N)
    memory, outputs = None, []
    for part in torch.split(ids, pieces, dim=1):
        logits, memory = model.extend(part, memory)
        outputs.append(logits)
    torch.testing.assert_close(torch.cat(outputs, dim=1), model(ids))


@attentions
def test_attention_is_the_textbook_s(kind: Kind) -> None:
    torch.manual_seed(1)
    module = causal_attention(kind, D, H, length=N).double()
    x = torch.randn(2, N, D, dtype=torch.float64)
    query, key, value = module.project(x)
    size = D // H
    if kind == "dot_product":
        scores = query @ key.mT / math.sqrt(size)
    else:
        scores = -(query.unsqueeze(3) - key.unsqueeze(2)).square().sum(-1) / math.sqrt(size)
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1)
    expected = scores.masked_fill(hidden, -math.inf).softmax(dim=-1) @ value
    torch.testing.assert_close(module.mix(query, key, value, None), expected)


def test_the_contractive_one_divides_by_its_bound_for_the_longest_text() -> None:
    module = causal_attention("l2_contractive", D, H, length=N)
    assert isinstance(module, ContractiveL2Attention)
    assert module.length == N


def test_more_tokens_than_places_are_refused() -> None:
    with pytest.raises(ValueError, match=f"got {N + 1} tokens, expected at most {N}"):
        network("l2")(tokens(1, N + 1))


@every
def test_dropout_is_of_training_only(kind: Kind) -> None:
    model, ids = network(kind, dropout=0.5), tokens(2, N)
    assert torch.equal(model(ids), model(ids))
    model.train()
    assert not torch.equal(model(ids), model(ids))


@every
def test_weights_begin_as_the_paper_says(kind: Kind) -> None:
    model = network(kind, scale=0.25)
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            continue
        for part, parameter in module.named_parameters(recurse=False):
            weight = parameter.detach()
            if part.startswith("bias"):
                gates = weight.chunk(4)
                expected = 1.0 if part.startswith("bias_ih") else 0.0
                assert (gates[1] == expected).all() if "lstm" in name else (weight == 0).all()
            elif "attention" in name and kind.startswith("l2"):
                assert 0.9 * 0.25 / 4 < float(weight.abs().max()) <= 0.25 / 4
            else:
                heads, lstm = name.endswith("qkv"), isinstance(module, nn.LSTM)
                rows = D if heads or lstm else weight.shape[0]
                limit = math.sqrt(6 / (rows + weight.shape[1]))
                assert 0.8 * limit < float(weight.abs().max()) <= limit, name
    kinds = {type(m) for m in model.modules() if isinstance(m, HeadedAttention)}
    assert all(issubclass(attention, L2Attention) == kind.startswith("l2") for attention in kinds)
