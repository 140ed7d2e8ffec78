"""Scores of additive attention without a tensor of size N * N * d.

The score of tokens i and j is w . sigma(q_i + k_j) with sigma MaxMin or ReLU. Both are an average
plus half a difference, max(a, b) = (a + b)/2 + |a - b|/2 and relu(a) = a/2 + |a|/2, so the score is
a sum of a term in q_i alone, a term in k_j alone, and weighted absolute values. The softmax over j
removes the first; the last is an L1 distance between transformed queries and keys, for which torch
has a kernel that needs N * N memory.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from layers.groupsort import maxmin

Activation = Literal["maxmin", "relu"]
ACTIVATIONS: tuple[Activation, ...] = ("maxmin", "relu")
Form = Literal["cdist", "pairs", "textbook"]


def additive_scores(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    *,
    activation: Activation = "maxmin",
    form: Form = "cdist",
) -> Tensor:
    """w_h . sigma(q_i + k_j) for all pairs of tokens, up to a constant of each row (i).

    Args:
        query: `[B, H, N, e]`, e even for `maxmin`.
        key: `[B, H, M, e]`.
        weight: `[H, e]`, the score vectors.
        activation: sigma.
        form: `cdist` (N M memory), `pairs` (absolute differences spelled out, N M e memory) or
            `textbook` (the definition, to compare with: N M e memory, no constant left out).

    Returns:
        `[B, H, N, M]`.
    """
    if form == "textbook":
        pairs = query.unsqueeze(-2) + key.unsqueeze(-3)
        hidden = maxmin(pairs) if activation == "maxmin" else functional.relu(pairs)
        return torch.sum(hidden * weight[:, None, None, :], dim=-1)
    if activation == "maxmin":
        first, second = weight[:, 0::2], weight[:, 1::2]
        mean, half_range = (first + second) / 2, (first - second) / 2
        key_mean = key[..., 0::2] + key[..., 1::2]
        query, key = query[..., 0::2] - query[..., 1::2], key[..., 0::2] - key[..., 1::2]
    else:
        mean = half_range = weight / 2
        key_mean = key
    # [B, H, 1, M]; the term in q_i alone is constant in a row, so the softmax ignores it.
    linear = torch.sum(key_mean * mean[:, None, :], dim=-1).unsqueeze(-2)
    if form == "pairs":
        gaps = (query.unsqueeze(-2) + key.unsqueeze(-3)).abs()
        return linear + torch.sum(gaps * half_range[:, None, None, :], dim=-1)
    # The sum of weight * |q_i + k_j|. c |a - b| = |c a - c b| holds for c >= 0 only: one distance
    # for each sign of the weights.
    plus, minus = (sign.clamp_min(0.0)[:, None, :] for sign in (half_range, -half_range))
    key = -key
    distance = torch.cdist(query * plus, key * plus, p=1.0)
    return linear + (distance - torch.cdist(query * minus, key * minus, p=1.0))
