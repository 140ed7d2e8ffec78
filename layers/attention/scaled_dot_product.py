"""Multi-head scaled dot-product self-attention (Vaswani et al., 2017), the baseline."""

from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from layers.attention.headed import HeadedAttention


class SelfAttention(HeadedAttention):
    """softmax(Q K^T / sqrt(e)) V through torch's fused kernel (thesis, equation 2.9)."""

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask[:, None, None, :],
            dropout_p=self.dropout if self.training else 0.0,
        )
