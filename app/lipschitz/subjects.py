"""The attention layers whose constants are compared, with all that is proven of them."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from app.lipschitz import trained
from layers.attention.headed import HeadedAttention
from layers.attention.l2 import ContractiveL2Attention, L2Attention, TiedL2Attention
from layers.attention.l2_bounds import FORMULAS
from layers.attention.mechanisms import KINDS, Attention, build_attention
from layers.attention.mechanisms import Layer as Place
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.attention.scaled_dot_product import SelfAttention
from layers.ball import project_to_ball
from layers.norms import Norm
from text import check_choice, check_range

Weights = Literal["identity", "random"]
IN_A_BALL = ("one_lipschitz", "one_lipschitz_l2")
"""Attentions whose bound, in the norm 2, is for tokens of bounded norm."""
NAMES = (*KINDS, *IN_A_BALL)
_EXACT = 1 + 1e-9
"""Orthogonal weights in float64 have a norm of 1 up to this."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The settings of a layer.

    Attributes:
        kind: a name of `--model.attention.kind`, `one_lipschitz` (OLSA's), `one_lipschitz_l2`, or
            `run:NAME`, the first attention of a run's model.
        width: D, of a token.
        heads: H.
        weights: `identity`, as in the paper; or `random`, as a layer begins. Those of
            `one_lipschitz` and `one_lipschitz_l2` are random orthogonal ones, those of a run are
            its own.
        radius: largest norm of a token; for these two alone.
        seed: of random weights.
        runs_dir: directory of all runs.
    """

    kind: str = "l2_tied"
    width: int = 1
    heads: int = 1
    weights: Weights = "identity"
    radius: float = 4.0
    seed: int = 0
    runs_dir: str = "runs"

    def __post_init__(self) -> None:
        """Checks the settings."""
        check_kind(self.kind)
        check_choice("weights", self.weights, ("identity", "random"))
        check_range({"width": self.width, "heads": self.heads}, least=1)
        check_range({"radius": self.radius}, above=0)


def check_kind(kind: str) -> None:
    """Raises a ValueError unless an attention has this name, or it names a run."""
    if not trained.is_trained(kind):
        check_choice("kind", kind, (*NAMES, f"{trained.PREFIX}NAME"))


@dataclass(frozen=True)
class Built:
    """A layer for texts of one length.

    Attributes:
        whole: `[B, N, D]` to `[B, N, D]`, in float64.
        first: the same, of which only the first token's output `[B, D]` is computed if possible.
        proven: upper bounds on the Lipschitz constant by name; none if nothing is proven.
    """

    whole: Callable[[Tensor], Tensor]
    first: Callable[[Tensor], Tensor]
    proven: dict[str, float]


def build(given: Subject, tokens: int, norm: Norm, device: torch.device) -> Built:
    """Makes a layer, in float64.

    Args:
        given: the settings.
        tokens: N.
        norm: of all numbers of a text together.
        device: of its weights.

    Raises:
        ValueError: sizes that do not go together, or a layer in a ball with another norm than 2.
    """
    # Its own random numbers: the same layer whatever was drawn before.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given.seed)
        layer = _layer(given, tokens, norm).to(device, torch.float64).eval()
    layer.requires_grad_(requires_grad=False)
    if isinstance(layer, HeadedAttention):
        if given.weights == "identity" and not trained.is_trained(given.kind):
            _identity(layer)
        return Built(_whole(layer), _first(layer), _proven(layer, tokens, norm))
    if norm != "2":
        msg = f"got kind={given.kind} with norm={norm}, expected norm=2: its bound is for that"
        raise ValueError(msg)
    whole = _inside(layer, given.radius)
    return Built(whole, lambda x: whole(x)[:, 0], {"sound": _EXACT})


def _layer(given: Subject, tokens: int, norm: Norm) -> nn.Module:
    if trained.is_trained(given.kind):
        sizes = {"width": given.width, "heads": given.heads}
        return deepcopy(trained.attention(given.kind, given.runs_dir, **sizes))
    if given.kind == "one_lipschitz":
        # The one form with second derivatives.
        return OneLipschitzSelfAttention(given.width, given.heads, form="pairs")
    if given.kind == "one_lipschitz_l2":
        return OneLipschitzL2Attention(given.width, given.heads)
    if given.kind == "l2_contractive":
        return ContractiveL2Attention(given.width, given.heads, length=tokens, norm=norm)
    place = Place(width=given.width, heads=given.heads, dropout=0.0, length=tokens, early=False)
    return build_attention(Attention(kind=given.kind, mixtures=min(64, tokens)), place)


def _identity(layer: HeadedAttention) -> None:
    """Sets the matrices of queries, keys, values and output to the identity, biases to 0."""
    for linear in (layer.qkv, layer.output):
        blocks = torch.unflatten(linear.weight, 0, (-1, linear.in_features))
        blocks.copy_(torch.eye(linear.in_features, dtype=blocks.dtype).expand_as(blocks))
        if linear.bias is not None:
            linear.bias.zero_()


def _every(x: Tensor) -> Tensor:
    return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)


def _whole(layer: HeadedAttention) -> Callable[[Tensor], Tensor]:
    def whole(x: Tensor) -> Tensor:
        # The fused kernels have no second derivatives.
        with sdpa_kernel(SDPBackend.MATH):
            out: Tensor = layer(x, _every(x))
        return out

    return whole


def _first(layer: HeadedAttention) -> Callable[[Tensor], Tensor]:
    def first(x: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            query, key, value = layer.project(x)
            mixed = layer.mix(query[:, :, :1], key, value, _every(x))
            out: Tensor = layer.output(layer.joined(mixed))
        return out[:, 0]

    if type(layer) in (SelfAttention, L2Attention, TiedL2Attention, ContractiveL2Attention):
        return first
    whole = _whole(layer)
    return lambda x: whole(x)[:, 0]


def _inside(layer: nn.Module, radius: float) -> Callable[[Tensor], Tensor]:
    def whole(x: Tensor) -> Tensor:
        bounds = x.new_full((len(x),), radius)
        out: Tensor = layer(project_to_ball(x, radius), _every(x), bounds)[0]
        return out

    return whole


def _proven(layer: HeadedAttention, tokens: int, norm: Norm) -> dict[str, float]:
    if isinstance(layer, ContractiveL2Attention):
        return {"sound": _EXACT}
    if not isinstance(layer, TiedL2Attention):
        return {}
    lengths = torch.tensor([tokens], device=layer.output.weight.device)
    return {name: float(layer.bound(lengths, norm=norm, formula=name)) for name in FORMULAS}
