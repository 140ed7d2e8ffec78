"""SOFT: attention by a Gaussian kernel without softmax, exact or by landmarks."""

import math
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from layers.attention.headed import HeadedAttention, exact, place, real, wide

# Added to the diagonal of the landmarks' kernel, whose entries are at most 1.
_RIDGE = 1e-3


class GaussianAttention(HeadedAttention):
    """S V with S_ij = exp(-|q_i - q_j|^2 / (2 sqrt(e))): symmetric, entries from 0 to 1.

    Lu et al., "SOFT: Softmax-free Transformer with Linear Complexity", 2021, section 3.1; thesis,
    equations 3.9 and 3.10. Keys are the queries, without which S would not be symmetric, as the
    paper requires; the key's part of the projection has no effect.
    """

    def __init__(
        self, width: int, heads: int, *, landmarks: int | None = None, **base: Any
    ) -> None:
        """Make the projections; the rest: see `HeadedAttention`.

        The linear form has `landmarks` (section 3.2 of the paper): the means of as many runs of
        tokens; S is P^T M^-1 P, with the kernel P of landmarks and tokens, and M of the landmarks.
        A text of no more tokens has each as a landmark, which is exact but for a small ridge. None:
        S itself, with memory for N x N.
        """
        super().__init__(width, heads, **base)
        if landmarks is not None and landmarks < 1:
            msg = f"got landmarks={landmarks}, expected at least 1, or none for the exact kernel"
            raise ValueError(msg)
        self.landmarks = landmarks

    @override
    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        del key
        with exact(query):
            tokens, values = wide(real(query, mask)), wide(real(value, mask))
            if self.landmarks is None:
                mixed = kernel(tokens, tokens) @ values
            else:
                mixed = self._by_landmarks(tokens, values, mask, self.landmarks)
        return mixed.to(self.output.weight.dtype)

    @staticmethod
    def _by_landmarks(tokens: Tensor, values: Tensor, mask: Tensor, count: int) -> Tensor:
        # [B, K, N], True where a landmark's mean includes a token; in short texts some have none.
        length = mask.sum(dim=1, keepdim=True)
        part = torch.where(length > count, place(mask) * count // length, place(mask))
        part = part.masked_fill(~mask, count)
        member = part.unsqueeze(1) == torch.arange(count, device=mask.device)[:, None]
        share = member.to(tokens.dtype)
        sizes = share.sum(dim=-1, keepdim=True)
        marks = (share / sizes.clamp_min(1)).unsqueeze(1) @ tokens
        there = (sizes > 0).unsqueeze(1)
        across = kernel(marks, tokens) * there
        between = kernel(marks, marks) * (there & there.transpose(-1, -2))
        # An absent landmark has 1 on the diagonal and zeros elsewhere: it has no effect.
        ridge = torch.where(there, _RIDGE, 1.0) * torch.eye(count, device=mask.device)
        solved: Tensor = torch.linalg.solve(between + ridge, across @ values)
        return across.transpose(-1, -2) @ solved


def kernel(first: Tensor, second: Tensor) -> Tensor:
    """`[..., N, M]`: exp(-|a_i - b_j|^2 / (2 sqrt(e))) of `[..., N, e]` and `[..., M, e]`."""
    scale = math.sqrt(first.shape[-1])
    # |a - b|^2 = |a|^2 - 2 a.b + |b|^2, which rounding may make negative.
    squares = first.square().sum(-1)[..., :, None] + second.square().sum(-1)[..., None, :]
    distances = (squares - 2 * first @ second.transpose(-1, -2)).clamp_min(0.0)
    return torch.exp(-distances / (2 * scale))
