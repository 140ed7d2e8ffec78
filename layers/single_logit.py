"""Heads from a pooled text to logits: one output per class, or one output for two classes."""

import torch
from torch import Tensor, nn


class SingleLogit(nn.Module):
    """A linear map to one number z, returned as the logits (0, z) of two classes.

    Their softmax is (1 - sigmoid(z), sigmoid(z)), so the cross-entropy of the two logits is the
    binary cross-entropy of z.
    """

    def __init__(self, width: int) -> None:
        """Args: width: of the pooled text."""
        super().__init__()
        self.linear = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, width]` to `[B, 2]`."""
        z: Tensor = self.linear(x)
        return torch.cat([torch.zeros_like(z), z], dim=-1)


def logit_head(width: int, num_classes: int, *, single: bool = False) -> nn.Module:
    """Return a head `[B, width]` to `[B, C]`; `single` has one output for two classes.

    Raises:
        ValueError: `single` with another number of classes than two.
    """
    if not single:
        return nn.Linear(width, num_classes)
    if num_classes != 2:
        msg = (
            f"got single_logit with {num_classes} classes, expected 2: one number tells two "
            "classes apart; use --model.single_logit false"
        )
        raise ValueError(msg)
    return SingleLogit(width)
