"""NormAttention: linear attention with a norm instead of the denominator (Qin et al., 2022)."""

from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention, exact, real, wide

Norm = Literal["layer", "rms"]


class NormAttention(HeadedAttention):
    """Norm(Q (K^T V)), the norm over the features of all heads of a token.

    Qin et al., "The Devil in Linear Transformer", 2022, section 4.1; thesis, equation 3.20. Time
    and memory are linear in N.
    """

    def __init__(self, width: int, heads: int, *, norm: Norm = "layer", **base: Any) -> None:
        """Make the projections and the norm: LayerNorm, or x / rms(x) without weights."""
        super().__init__(width, heads, **base)
        self.norm = nn.LayerNorm(width) if norm == "layer" else None

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        with exact(query):
            query, key, value = wide(query), wide(real(key, mask)), wide(real(value, mask))
            return query @ (key.transpose(-1, -2) @ value)

    @override
    def joined(self, mixed: Tensor) -> Tensor:
        x, size = super().joined(mixed), (mixed.shape[1] * mixed.shape[-1],)
        if self.norm is None:
            return functional.rms_norm(x, size).to(self.output.weight.dtype)
        weight, bias = wide(self.norm.weight), wide(self.norm.bias)
        normed = functional.layer_norm(x, size, weight, bias, self.norm.eps)
        return normed.to(self.output.weight.dtype)
