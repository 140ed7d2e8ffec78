"""The self-attentions of the attention study, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from layers.attention.block_diagonal import BlockDiagonalAttention
from layers.attention.cosformer import CosFormerAttention
from layers.attention.gaussian import GaussianAttention
from layers.attention.headed import HeadedAttention
from layers.attention.l2 import ContractiveL2Attention, L2Attention, TiedL2Attention
from layers.attention.linformer import LinformerAttention
from layers.attention.normed import NormAttention
from layers.attention.own_attention import build_own, own_class
from layers.attention.position_scaled import PositionScaledAttention
from layers.attention.relu_value import ReluValueAttention
from layers.attention.scaled_dot_product import SelfAttention
from layers.attention.sima import SimAttention
from layers.attention.tanh_additive import TanhAdditiveAttention
from text import check_choice, check_range


@dataclass(frozen=True, kw_only=True)
class Attention:
    """The settings of the self-attention of an encoder.

    Attributes:
        kind: name of the mechanism, or the import path of your own class, such as
            my_file.MyAttention; see docs/methods/attention_study.md.
        window: tokens of a block of `diag` and of the first layers of `transnormer_*`.
        mixtures: number k of mixtures of the tokens in `linformer`.
        landmarks: number of landmarks of `soft_linear`.
    """

    kind: str = "scaled_dot_product"
    window: int = 15
    mixtures: int = 64
    landmarks: int = 49

    def __post_init__(self) -> None:
        """Check the settings."""
        if "." in self.kind:
            own_class(self.kind)
        else:
            check_choice("attention.kind", self.kind, tuple(KINDS))
        least = {name: getattr(self, name) for name in ("window", "mixtures", "landmarks")}
        check_range({f"attention.{name}": value for name, value in least.items()}, least=1)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        users = {"window": _BLOCKS, "mixtures": ("linformer",), "landmarks": ("soft_linear",)}
        names = [name for name, kinds in users.items() if self.kind not in kinds]
        return dict.fromkeys(names, f"attention.kind={self.kind}")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The layer that an attention is built for.

    Attributes:
        width: of a token.
        heads: of the attention.
        dropout: on attention weights.
        length: the longest text in tokens.
        early: True in the first half of the layers.

    A class of your own gets those of these arguments that its constructor names.
    """

    width: int
    heads: int
    dropout: float
    length: int
    early: bool


_BLOCKS = ("diag", "transnormer_layer_norm", "transnormer_rms")
Build = Callable[[Layer, Attention], HeadedAttention]


def _plain(cls: type[HeadedAttention], **own: Any) -> Build:
    """Return the builder of a class whose own settings are fixed."""
    return lambda at, settings: cls(at.width, at.heads, dropout=at.dropout, **own)


def _diag(at: Layer, settings: Attention) -> HeadedAttention:
    return BlockDiagonalAttention(at.width, at.heads, window=settings.window, dropout=at.dropout)


def _transnormer(later: Build) -> Build:
    """Use blocks in the first half of the layers, norms in the second (thesis, section 3.2.7)."""
    return lambda at, settings: (_diag if at.early else later)(at, settings)


_layer_norm, _rms = _plain(NormAttention, norm="layer"), _plain(NormAttention, norm="rms")
KINDS: dict[str, Build] = {
    "scaled_dot_product": _plain(SelfAttention),
    "additive": _plain(TanhAdditiveAttention),
    "paas": lambda at, settings: PositionScaledAttention(
        at.width, at.heads, length=at.length, dropout=at.dropout
    ),
    "linformer": lambda at, settings: LinformerAttention(
        at.width, at.heads, length=at.length, mixtures=settings.mixtures, dropout=at.dropout
    ),
    "sima_l1": _plain(SimAttention, norm="l1"),
    "sima_l2": _plain(SimAttention, norm="l2"),
    "soft": _plain(GaussianAttention),
    "soft_linear": lambda at, settings: GaussianAttention(
        at.width, at.heads, landmarks=settings.landmarks, dropout=at.dropout
    ),
    "cosformer": _plain(CosFormerAttention),
    "cosformer_no_relu": _plain(CosFormerAttention, relu=False),
    "transnormer_layer_norm": _transnormer(_layer_norm),
    "transnormer_rms": _transnormer(_rms),
    "diag": _diag,
    "norm_layer_norm": _layer_norm,
    "norm_rms": _rms,
    "reva": _plain(ReluValueAttention),
    "revcos": _plain(CosFormerAttention, relu_value=True),
    "l2": _plain(L2Attention),
    "l2_tied": _plain(TiedL2Attention),
    "l2_tied_wide": _plain(TiedL2Attention, wide=True),
    "l2_contractive": lambda at, settings: ContractiveL2Attention(
        at.width, at.heads, length=at.length, dropout=at.dropout
    ),
}
"""Builders by the name of the mechanism."""


def build_attention(settings: Attention, at: Layer) -> nn.Module:
    """Return the attention of a layer, from tokens `[B, N, d]` and mask `[B, N]` to `[B, N, d]`.

    Raises:
        ValueError: sizes that do not fit each other, or `AttentionCheck` refuses your own class.
    """
    if "." in settings.kind:
        return build_own(settings.kind, vars(at))
    return KINDS[settings.kind](at, settings)
