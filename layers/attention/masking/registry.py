"""Our attention function in the registry of `transformers`."""

from typing import Any, Protocol

from torch import Tensor, nn
from torch.nn import functional

IMPLEMENTATION = "steadfast"
"""The name of our attention function in the library's registry."""
ENTRY = "_steadfast_attention"
"""The attribute of a module of the library that holds our attention."""


class Attention(Protocol):
    """Computes attention in place of the library."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        *,
        scaling: float,
        dropout: float,
    ) -> Tensor | None:
        """`[B, H, N, d]`; None to leave it to torch."""


def register() -> None:
    """Make our attention known to the library, and the mask function that goes with it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(IMPLEMENTATION, attention)
    # Without it, padding would silently not be masked.
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def attention(  # noqa: PLR0917 (the interface of the library)
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,  # of the library's interface
) -> tuple[Tensor, None]:
    """The function that the library calls in each layer."""
    del others
    entry: Attention | None = getattr(module, ENTRY, None)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = None
    if entry is not None:
        out = entry.attend(query, key, value, attention_mask, scaling=scale, dropout=dropout)
    if out is None:
        out = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scale
        )
    return out.transpose(1, 2).contiguous(), None
