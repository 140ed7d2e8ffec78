"""L2 attention: the textbook form, half precision, causal masks and caches."""

import math

import pytest
import torch
from torch import Tensor

from layers.attention.l2 import ContractiveL2Attention, L2Attention, TiedL2Attention, l2_attention
from layers.norms import NORMS, Norm

HEADS, SIZE = 3, 4
WIDTH = HEADS * SIZE


def textbook(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
    """All pairs, as equation 10 is printed; `allowed` broadcasts to `[B, H, N, M]`."""
    squares = (query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(dim=-1)
    scores = (-squares / math.sqrt(query.shape[-1])).masked_fill(~allowed, -torch.inf)
    return scores.softmax(dim=-1) @ value


def triple(rows: int, columns: int, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return tuple(  # type: ignore[return-value] # three of them
        torch.randn(2, HEADS, n, SIZE, generator=draw, dtype=torch.float64)
        for n in (rows, columns, columns)
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (1, 7), (3, 7), (1, 1)])
def test_values_and_gradients(causal: bool, masked: bool, rows: int, columns: int) -> None:
    parts = [part.requires_grad_() for part in triple(rows, columns)]
    mask = torch.ones(2, columns, dtype=torch.bool)
    mask[0, columns - 2 : columns - 1] = columns == 1
    allowed = mask[:, None, None, :].expand(-1, -1, rows, -1) if masked else torch.tensor(1) > 0
    if causal:
        positions = torch.arange(columns)
        here = positions[columns - rows :, None]
        allowed = (allowed | (positions == here)) & (positions <= here)
    expected = textbook(parts[0], masked_keys(parts[1], mask, masked), parts[2], allowed)
    out = l2_attention(*parts, mask=mask if masked else None, causal=causal)
    torch.testing.assert_close(out, expected)
    weight = torch.randn_like(out)
    for one, other in zip(
        torch.autograd.grad((out * weight).sum(), parts),
        torch.autograd.grad((expected * weight).sum(), parts),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def masked_keys(key: Tensor, mask: Tensor, masked: bool) -> Tensor:
    return key.masked_fill(~mask[:, None, :, None], 0.0) if masked else key


def test_nothing_of_all_pairs_and_features_is_made() -> None:
    sizes: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    parts = [part.float().requires_grad_() for part in triple(300, 300)]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        l2_attention(*parts)
    assert max(sizes) < 300 * 300


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_needs_the_norm_in_parts(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 1, 50, 16, generator=draw) for _ in range(3))
    # Far from the origin and near to each other, where |k|^2 is large and distances are not.
    query, key, value = ((part + 3).to(dtype) for part in (query, key, value))
    exact = textbook(
        query.double(), key.double(), value.double(), torch.ones(50, 50, dtype=torch.bool)
    )
    norm = key.square().sum(dim=-1, keepdim=True)
    one_part = torch.nn.functional.scaled_dot_product_attention(
        torch.cat([2 * query, -torch.ones_like(norm)], dim=-1),
        torch.cat([key, norm], dim=-1),
        torch.nn.functional.pad(value, (0, 1)),
        scale=16**-0.5,
    )[..., :16]
    ours = (l2_attention(query, key, value).double() - exact).abs().amax()
    theirs = (one_part.double() - exact).abs().amax()
    # Rounding of the values themselves remains.
    assert ours < 8 * torch.finfo(dtype).eps
    assert theirs > 4 * ours


def test_centring_moves_queries_and_keys_together() -> None:
    query, key, value = triple(7, 7)
    mean = key.mean(dim=2, keepdim=True)
    same = l2_attention(query - mean, key - mean, value)
    torch.testing.assert_close(same, l2_attention(query, key, value))
    other = l2_attention(query, key - mean, value)
    assert (other - same).abs().amax() > 0.01


def test_half_precision_keys_of_large_norm() -> None:
    query, key, value = (part.to(torch.float16) for part in triple(5, 5))
    assert l2_attention(200 * query, 200 * key, value).isfinite().all()


def test_under_autocast_distances_are_those_of_the_rounded_tokens() -> None:
    parts = [part.float() + 3 for part in triple(7, 7)]
    rounded = [part.bfloat16() for part in parts]
    with torch.autocast("cpu", torch.bfloat16):
        out = l2_attention(*parts)
    torch.testing.assert_close(out, l2_attention(*rounded))


# Layers


def text(size: int, *, seed: int = 1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(2, size, WIDTH, generator=draw, dtype=torch.float64)


def alone(x: Tensor) -> Tensor:
    return torch.ones(x.shape[:2], dtype=torch.bool)


def layer(kind: str, *, causal: bool = False) -> L2Attention:
    torch.manual_seed(0)
    module = L2Attention(WIDTH, HEADS, causal=causal)
    if kind in ("tied", "wide"):
        module = TiedL2Attention(WIDTH, HEADS, wide=kind == "wide", causal=causal)
    elif kind in ("2", "inf"):
        norm: Norm = "2" if kind == "2" else "inf"
        module = ContractiveL2Attention(WIDTH, HEADS, length=9, norm=norm, causal=causal)
    return module.double().eval()


def of_the_paper(module: TiedL2Attention, x: Tensor) -> Tensor:
    """F(X) = [P^h X A_h W^{V,h}]_h W^O with A_h = W^{Q,h} W^{Q,h}^T / sqrt(D / H)."""
    heads = []
    for query, value in zip(module.weights().query, module.weights().value, strict=True):
        w_q, w_v = query.T, value.T
        squares = ((x @ w_q).unsqueeze(-2) - (x @ w_q).unsqueeze(-3)).square().sum(dim=-1)
        weights = (-squares / math.sqrt(SIZE)).softmax(dim=-1)
        heads.append(weights @ x @ (w_q @ w_q.T / math.sqrt(SIZE)) @ w_v)
    return torch.cat(heads, dim=-1) @ module.output.weight.T + module.output.bias


@pytest.mark.parametrize("kind", ["tied", "wide"])
def test_the_tied_layer_is_the_papers(kind: str) -> None:
    module, x = layer(kind), text(7)
    assert isinstance(module, TiedL2Attention)
    weight = torch.randn_like(x)
    out, expected = module(x, alone(x)), of_the_paper(module, x)
    torch.testing.assert_close(out, expected)
    for one, other in zip(
        torch.autograd.grad((out * weight).sum(), list(module.parameters())),
        torch.autograd.grad((expected * weight).sum(), list(module.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_the_wide_layer_has_as_many_weights_as_one_with_own_keys() -> None:
    wide, untied = layer("wide"), layer("untied")
    assert wide.qkv.weight.shape == untied.qkv.weight.shape == (3 * WIDTH, WIDTH)


@pytest.mark.parametrize("norm", NORMS)
def test_further_columns_of_zeros_change_nothing(norm: Norm) -> None:
    wide, tied, x = layer("wide"), layer("tied"), text(7)
    assert isinstance(wide, TiedL2Attention)
    assert isinstance(tied, TiedL2Attention)
    with torch.no_grad():
        for part in wide.weights()[:2]:
            part.zero_()
        wide.weights().query[:, :SIZE] = tied.weights().query
        wide.weights().value.copy_(tied.weights().value)
    wide.output.load_state_dict(tied.output.state_dict())
    torch.testing.assert_close(wide(x, alone(x)), tied(x, alone(x)))
    # The bound counts columns, also those of zeros, in the norm inf only.
    bounds = [module.bound(torch.tensor([7]), norm=norm) for module in (wide, tied)]
    if norm == "2":
        torch.testing.assert_close(*bounds)
    else:
        assert bounds[0] > bounds[1]


@pytest.mark.parametrize("norm", ["inf", "2"])
def test_the_contractive_layer_is_the_tied_one_over_its_bound(norm: str) -> None:
    module, x = layer(norm), text(7)
    assert isinstance(module, ContractiveL2Attention)
    bias = module.output.bias
    scale = module.bound(torch.tensor([9]), norm=module.norm)
    torch.testing.assert_close(module(x, alone(x)) - bias, (of_the_paper(module, x) - bias) / scale)
    with pytest.raises(ValueError, match="got 10 tokens, expected at most length=9"):
        module(text(10), alone(text(10)))


@pytest.mark.parametrize("kind", ["untied", "tied", "wide", "inf", "2"])
def test_causal_layers_do_not_look_ahead(kind: str) -> None:
    module, x = layer(kind, causal=True), text(8)
    full = module(x, alone(x))
    changed = x.clone()
    changed[:, 5:] += 1
    torch.testing.assert_close(module(changed, alone(x))[:, :5], full[:, :5])
    assert (module(changed, alone(x))[:, 5:] - full[:, 5:]).abs().amax() > 1e-4
    # A text is the same alone and with padding behind it.
    mask = alone(x)
    mask[:, 6:] = False
    torch.testing.assert_close(
        module(1e3 * mask.logical_not()[..., None] + x, mask)[:, :6], full[:, :6]
    )


@pytest.mark.parametrize("kind", ["untied", "tied", "wide", "inf", "2"])
def test_token_by_token_with_kept_keys_and_values(kind: str) -> None:
    module, x = layer(kind, causal=True), text(8)
    key, value = (part[:, :, :0] for part in module.project(x)[1:])
    steps = []
    for part in (x[:, :3], x[:, 3:4], x[:, 4:8]):
        query, new_key, new_value = module.project(part)
        key, value = torch.cat([key, new_key], dim=2), torch.cat([value, new_value], dim=2)
        mixed = l2_attention(query, key, value, causal=True)
        steps.append(module.output(module.joined(mixed)))
    torch.testing.assert_close(torch.cat(steps, dim=1), module(x, alone(x)))


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="got length=0 and norm='inf', expected 1 token or more"):
        ContractiveL2Attention(WIDTH, HEADS, length=0)
