"""Ties of logits: a lead that float64's rounding could make up is none."""

import torch
from torch import Tensor

ALLOWANCE = 1e-9
"""Of a lead, times the largest logit: float64's rounding is far below it."""


def allowance(logits: Tensor) -> Tensor:
    """Return `[...]`: the lead that rounding may make up, for `[..., C]` logits in float64."""
    return ALLOWANCE * (1 + logits.abs().amax(dim=-1))


def leads(logits: Tensor, labels: Tensor) -> Tensor:
    """Return `[n]`: how far the logit of a class is above every other one, for `[n, C]` logits."""
    gaps = logits.gather(1, labels.unsqueeze(1)) - logits
    return gaps.scatter(1, labels.unsqueeze(1), torch.inf).amin(dim=1)


def runners_up(logits: Tensor, labels: Tensor) -> Tensor:
    """Return `[n]` int64: the largest class but a given one, also where it is tied with that."""
    return logits.scatter(1, labels.unsqueeze(1), -torch.inf).argmax(dim=1)


def classes(logits: Tensor) -> Tensor:
    """Return `[n]` int64: the predicted class; -1 for a tie, and where a logit is NaN."""
    logits = logits.to(torch.float64)
    predictions = logits.argmax(dim=1)
    clear = leads(logits, predictions) > allowance(logits)
    return torch.where(clear, predictions, torch.full_like(predictions, -1))
