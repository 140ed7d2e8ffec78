"""The attention layers whose constants are compared, with all that is proven of them."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.lipschitz import trained
from layers.attention.headed import HeadedAttention
from layers.attention.l2 import ContractiveL2Attention, L2Attention, TiedL2Attention
from layers.attention.l2_bounds import FORMULAS
from layers.attention.mechanisms import KINDS, Attention, Layer, build_attention
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.attention.scaled_dot_product import SelfAttention
from layers.ball import project_to_ball
from layers.norms import Norm
from text import check_choice, check_range

Weights = Literal["identity", "random"]
NAMES = (*KINDS, "one_lipschitz", "one_lipschitz_l2")
_RUN = f"{trained.PREFIX}NAME is the first attention of a run's model"
_EXACT = 1 + 1e-9
"""Orthogonal weights in float64 have a norm of 1 up to this."""


def option(default: Any, text: str, metavar: str = "N") -> Any:
    """Return a field of settings that is an option of the command; a tuple takes several values."""
    return field(default=default, metadata={"text": text, "metavar": metavar})


def kinds_option(*default: str) -> Any:
    """Return the field of settings with the attentions to compare."""
    return option(default, f"attentions, of {', '.join(NAMES)}; {_RUN}", "NAME")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The settings of a layer; `run:NAME` has its own weights, whatever `weights` is."""

    kind: str = option("l2_tied", f"one of {', '.join(NAMES)}; {_RUN}", "NAME")
    width: int = option(1, "D, numbers of a token")
    heads: int = option(1, "H, heads of the attention")
    weights: Weights = option("identity", "identity, as in the paper, or random", "WEIGHTS")
    radius: float = option(
        4.0, "largest norm of a token, for one_lipschitz and one_lipschitz_l2", "R"
    )
    seed: int = option(0, "seed of random weights and starts")
    runs_dir: str = "runs"

    def __post_init__(self) -> None:
        check_kind(self.kind)
        check_choice("weights", self.weights, ("identity", "random"))
        check_range({"width": self.width, "heads": self.heads}, least=1)
        check_range({"radius": self.radius}, above=0)


def check_kind(kind: str) -> None:
    """Raise a ValueError unless an attention has this name, or it names a run."""
    if not trained.is_trained(kind):
        check_choice("kind", kind, (*NAMES, f"{trained.PREFIX}NAME"))


@dataclass(frozen=True)
class BoundedLayer:
    """A layer for texts of one length, `[B, N, D]` to `[B, N, D]`, in float64.

    `first_token` computes `[B, D]` alone where possible; `bounds` are proven upper bounds on the
    Lipschitz constant by name, none without a proof; `queries` maps tokens `[B, D]` to
    `[B, H e]`, None for tokens in a ball.
    """

    all_tokens: Callable[[Tensor], Tensor]
    first_token: Callable[[Tensor], Tensor]
    bounds: dict[str, float]
    queries: Callable[[Tensor], Tensor] | None = None


def build(subject: Subject, tokens: int, norm: Norm, device: torch.device) -> BoundedLayer:
    """Return a layer for texts of N tokens; the norm is that of all numbers of a text together.

    Raises:
        ValueError: sizes that do not go together, or a layer in a ball with another norm than 2.
    """
    # Its own random numbers: the same layer whatever was drawn before.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(subject.seed)
        layer = _layer(subject, tokens, norm).to(device, torch.float64).eval()
    layer.requires_grad_(requires_grad=False)
    if isinstance(layer, HeadedAttention):
        if subject.weights == "identity" and not trained.is_trained(subject.kind):
            _set_identity(layer)
        return _headed(layer, _bounds(layer, tokens, norm))
    if norm != "2":
        msg = f"got kind={subject.kind} with norm={norm}, expected norm=2: its bound is for that"
        raise ValueError(msg)

    def all_tokens(x: Tensor) -> Tensor:
        bounds = x.new_full((len(x),), subject.radius)
        # The proof is for tokens in the ball.
        out: Tensor = layer(project_to_ball(x, subject.radius), _no_padding(x), bounds)[0]
        return out

    return BoundedLayer(all_tokens, lambda x: all_tokens(x)[:, 0], {"sound": _EXACT})


def _layer(subject: Subject, tokens: int, norm: Norm) -> nn.Module:
    width, heads = subject.width, subject.heads
    if trained.is_trained(subject.kind):
        return deepcopy(trained.attention(subject.kind, subject.runs_dir, width=width, heads=heads))
    if subject.kind == "one_lipschitz":
        # The one form with second derivatives.
        return OneLipschitzSelfAttention(width, heads, form="pairs")
    if subject.kind == "one_lipschitz_l2":
        return OneLipschitzL2Attention(width, heads)
    if subject.kind == "l2_contractive":
        return ContractiveL2Attention(width, heads, length=tokens, norm=norm)
    settings = Layer(width=width, heads=heads, dropout=0.0, length=tokens, early=False)
    return build_attention(Attention(kind=subject.kind, mixtures=min(64, tokens)), settings)


def _set_identity(layer: HeadedAttention) -> None:
    """Set the matrices of queries, keys, values and output to the identity, biases to 0."""
    # `qkv` stacks two or three matrices: the identity in each block.
    for linear in (layer.qkv, layer.output):
        blocks = torch.unflatten(linear.weight, 0, (-1, linear.in_features))
        blocks.copy_(torch.eye(linear.in_features, dtype=blocks.dtype).expand_as(blocks))
        if linear.bias is not None:
            linear.bias.zero_()


def _no_padding(x: Tensor) -> Tensor:
    return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)


def _headed(layer: HeadedAttention, bounds: dict[str, float]) -> BoundedLayer:
    # The fused kernels have no second derivatives.
    @sdpa_kernel(SDPBackend.MATH)
    def all_tokens(x: Tensor) -> Tensor:
        out: Tensor = layer(x, _no_padding(x))
        return out

    @sdpa_kernel(SDPBackend.MATH)
    def first_token(x: Tensor) -> Tensor:
        if type(layer) not in (SelfAttention, L2Attention, TiedL2Attention, ContractiveL2Attention):
            return all_tokens(x)[:, 0]
        query, key, value = layer.project(x)
        # The output of the first token needs its own query only.
        mixed = layer.mix(query[:, :, :1], key, value, _no_padding(x))
        out: Tensor = layer.output(layer.joined(mixed))
        return out[:, 0]

    def queries(x: Tensor) -> Tensor:
        return layer.joined(layer.project(x.unsqueeze(1))[0])[:, 0]

    return BoundedLayer(all_tokens, first_token, bounds, queries)


def _bounds(layer: HeadedAttention, tokens: int, norm: Norm) -> dict[str, float]:
    if isinstance(layer, ContractiveL2Attention):
        return {"sound": _EXACT}
    if not isinstance(layer, TiedL2Attention):
        return {}
    lengths = torch.tensor([tokens], device=layer.output.weight.device)
    return {name: float(layer.bound(lengths, norm=norm, formula=name)) for name in FORMULAS}


def short_names(names: Sequence[str]) -> list[str]:
    """Return the parts of names, between hyphens, in which they differ: runs of a study."""
    parts = [name.split("-") for name in dict.fromkeys(names)]
    if len(parts) < 2 or len({len(part) for part in parts}) > 1:
        return list(names)
    differ = [i for i, column in enumerate(zip(*parts, strict=True)) if len(set(column)) > 1]
    return [", ".join(name.split("-")[i] for i in differ) for name in names]
