"""All self-attentions: padding, the printed equations, gradients, precision, settings."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from layers.attention.attention_check import AttentionCheck
from layers.attention.headed import HeadedAttention
from layers.attention.mechanisms import KINDS, Attention, Layer, build_attention
from layers.transformer import TransformerClassifier

WIDTH, HEADS, LENGTH = 12, 3, 40
every = pytest.mark.parametrize("kind", KINDS)


def build(kind: str, *, early: bool = False, dtype: torch.dtype = torch.float64) -> HeadedAttention:
    torch.manual_seed(0)
    at = Layer(width=WIDTH, heads=HEADS, dropout=0.0, length=LENGTH, early=early)
    # Fewer landmarks and mixtures than tokens, so that they are what they are named for.
    module = build_attention(Attention(kind=kind, window=4, mixtures=5, landmarks=6), at)
    assert isinstance(module, HeadedAttention)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.to(dtype).eval()


def text(size: int, *, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(1, size, WIDTH, generator=torch.Generator().manual_seed(seed)).to(dtype)


def padded(x: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """A batch of two: the text with garbage behind it, and a longer one."""
    garbage = 1e3 * torch.randn(1, size - x.shape[1], WIDTH).to(x.dtype)
    mask = torch.ones(2, size, dtype=torch.bool)
    mask[0, x.shape[1] :] = False
    return torch.cat([torch.cat([x, garbage], dim=1), text(size, seed=2, dtype=x.dtype)]), mask


def alone(x: Tensor) -> Tensor:
    return torch.ones(x.shape[:2], dtype=torch.bool)


@every
@pytest.mark.parametrize("early", [True, False])
def test_padding_has_no_influence(kind: str, early: bool) -> None:
    check = AttentionCheck(WIDTH, sizes=(1, 3, 4, 7, 19, 23), longest=LENGTH, tolerance=1e-6)
    check(build(kind, early=early), kind)


# The equations as they are printed, with all pairs of tokens of one text


def parts(module: HeadedAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`[H, N, e]` each."""
    query, key, value = (
        part.reshape(-1, HEADS, WIDTH // HEADS).transpose(0, 1)
        for part in module.qkv(x[0]).chunk(3, dim=-1)
    )
    return query, key, value


def softmax_of(scores: Tensor, value: Tensor) -> Tensor:
    return scores.softmax(dim=-1) @ value


def dot(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def cosine(query: Tensor, key: Tensor) -> Tensor:
    positions = torch.arange(query.shape[-2], dtype=query.dtype)
    gaps = positions[:, None] - positions
    return query @ key.transpose(-1, -2) * torch.cos(math.pi * gaps / (2 * len(positions)))


def cosformer(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = cosine(query.relu(), key.relu())
    return weights @ value / weights.sum(dim=-1, keepdim=True).clamp_min(1e-6)


def signed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = cosine(query, key)
    total = weights.sum(dim=-1, keepdim=True)
    return weights @ value / (total.sign() * total.abs().clamp_min(1e-2))


def sima(power: int) -> Callable[..., Tensor]:
    def mixed(query: Tensor, key: Tensor, value: Tensor, module: HeadedAttention) -> Tensor:
        del module
        scale = [p.abs().pow(power).sum(dim=-2, keepdim=True) ** (1 / power) for p in (query, key)]
        return (query / scale[0]) @ (key / scale[1]).transpose(-1, -2) @ value

    return mixed


def diag(query: Tensor, key: Tensor, value: Tensor, module: HeadedAttention) -> Tensor:
    del module
    block = torch.arange(query.shape[-2]) // 4
    apart = block[:, None] != block
    return softmax_of(dot(query, key).masked_fill(apart, float("-inf")), value)


def gaussian(query: Tensor, key: Tensor) -> Tensor:
    squares = (query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(dim=-1)
    return torch.exp(-squares / (2 * math.sqrt(query.shape[-1])))


def distances(query: Tensor, key: Tensor) -> Tensor:
    squares = (query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(dim=-1)
    return -squares / math.sqrt(query.shape[-1])


def linformer(query: Tensor, key: Tensor, value: Tensor, module: HeadedAttention) -> Tensor:
    of_keys, of_values = (
        module.get_parameter(name)[:, : key.shape[-2]] for name in ("mix_keys", "mix_values")
    )
    return softmax_of(dot(query, of_keys @ key), of_values @ value)


def paas(query: Tensor, key: Tensor, value: Tensor, module: HeadedAttention) -> Tensor:
    scale = module.get_parameter("scale")[: key.shape[-2], : key.shape[-2]]
    return softmax_of(dot(query, key) * scale, value)


def additive(query: Tensor, key: Tensor, value: Tensor, module: HeadedAttention) -> Tensor:
    pairs = torch.tanh((query.unsqueeze(-2) + key.unsqueeze(-3)) / 2)
    scores = torch.stack([pairs[h] @ module.get_parameter("score")[h] for h in range(HEADS)])
    return softmax_of(scores, value)


def by_landmarks(query: Tensor, key: Tensor, value: Tensor, module: HeadedAttention) -> Tensor:
    del key, module
    size = query.shape[-2]
    runs = [[i for i in range(size) if i * 6 // size == j] for j in range(6)]
    marks = torch.stack([query[:, run].mean(dim=1) for run in runs], dim=1)
    across = gaussian(marks, query)
    ridge = 1e-3 * torch.eye(6, dtype=query.dtype)
    inverse: Tensor = torch.linalg.inv(gaussian(marks, marks) + ridge)
    return across.transpose(-1, -2) @ inverse @ across @ value


ORACLES: dict[str, Callable[..., Tensor]] = {
    "scaled_dot_product": lambda q, k, v, m: softmax_of(dot(q, k), v),
    "reva": lambda q, k, v, m: softmax_of(dot(q, k), v.relu()),
    "additive": additive,
    "paas": paas,
    "linformer": linformer,
    "sima_l1": sima(1),
    "sima_l2": sima(2),
    "soft": lambda q, k, v, m: gaussian(q, q) @ v,
    "soft_linear": by_landmarks,
    "cosformer": lambda q, k, v, m: cosformer(q, k, v),
    "cosformer_no_relu": lambda q, k, v, m: signed(q, k, v),
    "revcos": lambda q, k, v, m: cosformer(q, k, v.relu()),
    "diag": diag,
    "norm_layer_norm": lambda q, k, v, m: q @ k.transpose(-1, -2) @ v,
    "norm_rms": lambda q, k, v, m: q @ k.transpose(-1, -2) @ v,
    "l2": lambda q, k, v, m: softmax_of(distances(q, k), v),
}


@pytest.mark.parametrize("kind", ORACLES)
def test_the_printed_equation(kind: str) -> None:
    module, x = build(kind), text(19)
    mixed = ORACLES[kind](*parts(module, x), module).transpose(0, 1).flatten(-2)
    if kind == "norm_layer_norm":
        weight, bias = (module.get_parameter(f"norm.{name}") for name in ("weight", "bias"))
        mixed = functional.layer_norm(mixed, (WIDTH,), weight, bias)
    if kind == "norm_rms":
        mixed = mixed / mixed.square().mean(dim=-1, keepdim=True).sqrt()
    torch.testing.assert_close(module(x, alone(x))[0], module.output(mixed), rtol=1e-6, atol=1e-8)


def test_transnormer_has_blocks_first_and_norms_later() -> None:
    for kind, later in (
        ("transnormer_layer_norm", "norm_layer_norm"),
        ("transnormer_rms", "norm_rms"),
    ):
        assert type(build(kind, early=True)) is type(build("diag"))
        assert type(build(kind)) is type(build(later))


def test_few_tokens_are_their_own_landmarks() -> None:
    exact, linear, x = build("soft"), build("soft_linear"), text(6)
    linear.load_state_dict(exact.state_dict())
    # But for the ridge on the diagonal.
    torch.testing.assert_close(linear(x, alone(x)), exact(x, alone(x)), rtol=2e-2, atol=2e-2)


# Gradients, precision


# In its default width a numerical Jacobian takes half a second.
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: str) -> None:
    module, x = build(kind), text(3)
    batch, mask = padded(x, 4)
    assert torch.autograd.gradcheck(
        lambda one: module(one, mask)[mask], batch.requires_grad_(), atol=1e-4
    )


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_finite(kind: str, dtype: torch.dtype) -> None:
    module = build(kind, dtype=torch.float32)
    batch, mask = padded(30 * text(19, dtype=torch.float32), 40)
    half = module.to(dtype)
    out = half(batch.clamp(-300, 300).to(dtype), mask)
    assert out.dtype == dtype
    assert out.isfinite().all()
    with torch.autocast("cpu", torch.bfloat16):
        assert build(kind, dtype=torch.float32)(batch, mask).isfinite().all()


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "some"}, "attention.kind='some'.*expected one of scaled_dot_product, additive"),
        ({"window": 0}, "attention.window=0"),
        ({"mixtures": 0}, "attention.mixtures=0"),
        ({"landmarks": -1}, "attention.landmarks=-1"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Attention(**settings)  # type: ignore[arg-type] # wrong on purpose


def test_wrong_sizes() -> None:
    at = Layer(width=10, heads=3, dropout=0.0, length=8, early=False)
    with pytest.raises(ValueError, match="width=10 and heads=3, expected a width divisible"):
        build_attention(Attention(), at)
    fits = Layer(width=9, heads=3, dropout=0.0, length=8, early=False)
    with pytest.raises(ValueError, match=r"got mixtures=64, expected 1 ... 8"):
        build_attention(Attention(kind="linformer"), fits)
    module = build_attention(Attention(kind="paas"), fits)
    with pytest.raises(ValueError, match="got 9 tokens, expected at most 8"):
        module(torch.zeros(1, 9, 9), torch.ones(1, 9, dtype=torch.bool))


def test_settings_without_effect() -> None:
    assert set(Attention().unused) == {"window", "mixtures", "landmarks"}
    assert set(Attention(kind="transnormer_rms").unused) == {"mixtures", "landmarks"}
    assert Attention(kind="linformer").unused["window"] == "attention.kind=linformer"


# In an encoder


@every
def test_a_transformer_of_each_kind(kind: str) -> None:
    attention = Attention(kind=kind, window=4, mixtures=5, landmarks=6)
    torch.manual_seed(0)
    model = TransformerClassifier(
        WIDTH, 2, depth=2, heads=HEADS, attention=attention, max_length=LENGTH
    )
    model, x = model.double().eval(), text(9)
    batch, mask = padded(x, 13)
    torch.testing.assert_close(model(batch, mask)[:1], model(x, alone(x)))
    first, second = (type(block.attention).__name__ for block in model.blocks)
    assert (first == second) is not kind.startswith("transnormer")
