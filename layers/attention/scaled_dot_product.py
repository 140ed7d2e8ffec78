"""Multi-head scaled dot-product self-attention (Vaswani et al., 2017), the baseline."""

from torch import Tensor, nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Multi-head self-attention through torch's fused kernel."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        """Args: width: token width. heads: divides `width`. dropout: on attention weights."""
        super().__init__()
        if width % heads:
            msg = f"got width={width} and heads={heads}, expected a width divisible by the heads"
            raise ValueError(msg)
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`x` `[B, N, d]`, `mask` `[B, N]` bool (True = real token); returns `[B, N, d]`."""
        qkv = self.qkv(x).reshape(*x.shape[:-1], 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask[:, None, None, :],
            dropout_p=self.dropout if self.training else 0.0,
        )
        out: Tensor = self.output(mixed.transpose(1, 2).flatten(-2))
        return out
