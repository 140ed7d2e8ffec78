"""SimA: attention without softmax, by normalising each feature over the tokens."""

from typing import Any, Literal

from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention, real


class SimAttention(HeadedAttention):
    """Q^ (K^^T V), with each column of Q and K divided by its norm over the real tokens.

    Koohpayegani and Pirsiavash, "SimA: Simple Softmax-free Attention", 2022; thesis, equations 3.7
    and 3.8. Time and memory are linear in N.
    """

    def __init__(
        self, width: int, heads: int, *, norm: Literal["l1", "l2"] = "l1", **base: Any
    ) -> None:
        """Make the projections; the norm is over the tokens, l1 in the paper."""
        super().__init__(width, heads, **base)
        self.power = 1.0 if norm == "l1" else 2.0

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (real(part, mask) for part in (query, key, value))
        # Over the tokens, not over the features.
        query, key = (functional.normalize(part, p=self.power, dim=-2) for part in (query, key))
        return query @ (key.transpose(-1, -2) @ value)
