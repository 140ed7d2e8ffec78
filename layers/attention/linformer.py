"""Linformer: attention over k mixtures of the tokens (Wang et al., 2020)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention, real


class LinformerAttention(HeadedAttention):
    """softmax(Q (E K)^T / sqrt(e)) F V, E and F trained `[k, n]`, the same for all heads.

    Wang et al., "Linformer: Self-Attention with Linear Complexity", 2020; thesis, equation 3.5.
    Keys and values are zero at padding before they are mixed. Time and memory are linear in N.
    """

    def __init__(
        self, width: int, heads: int, *, length: int, mixtures: int = 64, **base: Any
    ) -> None:
        """Make the projections; `length` is n, the longest text in tokens, `mixtures` is k.

        Raises:
            ValueError: more mixtures than tokens, or none.
        """
        super().__init__(width, heads, **base)
        if not 1 <= mixtures <= length:
            msg = f"got mixtures={mixtures}, expected 1 ... {length}, the longest text in tokens"
            raise ValueError(msg)
        # Entries of a random projection that keeps lengths (theorem 2 of the paper).
        self.mix_keys = nn.Parameter(torch.randn(mixtures, length) / mixtures**0.5)
        self.mix_values = nn.Parameter(torch.randn(mixtures, length) / mixtures**0.5)

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        size = check_length(key.shape[-2], self.mix_keys.shape[1])
        key = self.mix_keys[:, :size] @ real(key, mask)
        value = self.mix_values[:, :size] @ real(value, mask)
        rate = self.dropout if self.training else 0.0
        return functional.scaled_dot_product_attention(query, key, value, dropout_p=rate)


def check_length(size: int, length: int) -> int:
    """Return the number of tokens; raise ValueError if a layer's table has fewer positions."""
    if size > length:
        msg = f"got {size} tokens, expected at most {length}, the length that the layer is made for"
        raise ValueError(msg)
    return size
