"""ReVA: scaled dot-product attention over non-negative values (thesis, section 6.1)."""

from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from layers.attention.scaled_dot_product import SelfAttention


class ReluValueAttention(SelfAttention):
    """softmax(Q K^T / sqrt(e)) ReLU(V) through torch's fused kernel (thesis, equation 6.2)."""

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return super().mix(query, key, functional.relu(value), mask)
