"""The worst text among all that candidates can make: a shortest path through a lattice."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from layers.ngram_scores import NgramScores

TOGETHER = 1 << 18
"""Choices of words whose scores are looked up together, if they are of several positions."""


class Worst(NamedTuple):
    """The worst texts of R rows, for each number of changes.

    Attributes:
        value: `[R, K]`, least score of the texts with at most 0, 1, ... changes; or `[R, 1]`
            without limit.
        path: `[R, K, N]` int64, for each position the chosen candidate; 0 is the word itself.
    """

    value: Tensor
    path: Tensor


def worst_words(
    scores: NgramScores, candidates: Tensor, direction: Tensor, k: int | None = None
) -> Worst:
    """Finds the least score by words alone: each position by itself.

    Args:
        scores: of width 1; n-grams are not looked at.
        candidates: `[R, N, S]` ids, the word itself first; rows are filled up with the word itself,
            texts with 0.
        direction: `[R, C]`; the score of a text is its product with that of the classes.
        k: largest number of changes; None for any number.
    """
    table = scores.word_table()
    local = (table[candidates] * direction[:, None, None]).sum(dim=-1)
    least, chosen = local.min(dim=2)
    whole = local[..., 0].sum(dim=1, keepdim=True)
    if k is None:
        return Worst(least.sum(dim=1, keepdim=True), chosen.unsqueeze(1))
    lost, order = (local[..., 0] - least).sort(dim=1, descending=True, stable=True)
    taken = lost[:, :k].cumsum(dim=1)
    if taken.shape[1] < k:
        taken = functional.pad(taken, (0, k - taken.shape[1]), mode="constant")
        reached = lost.sum(dim=1, keepdim=True)
        taken[:, lost.shape[1] :] = reached
    rank = order.argsort(dim=1)
    changes = torch.arange(k + 1, device=rank.device)
    path = chosen.unsqueeze(1) * (rank.unsqueeze(1) < changes[None, :, None])
    return Worst(torch.cat([whole, whole - taken], dim=1), path)


@torch.no_grad()
def worst_path(
    scores: NgramScores, candidates: Tensor, direction: Tensor, k: int | None = None
) -> Worst:
    """Finds the least score of words and n-grams or windows (Viterbi); see `worst_words`.

    A state is the last w - 1 choices and, with a limit, the number of changes so far; so the time
    is N (k + 1) S^w for a width of w.
    """
    rows, _, size = candidates.shape
    width, limit = scores.width, 1 if k is None else k + 1
    words = functional.embedding(candidates, scores.word_table())
    words = (words * direction[:, None, None]).sum(dim=-1)
    # Rows are filled up with the word itself. It is one choice: the others are never chosen.
    again = candidates == candidates[..., :1]
    again[..., 0] = False
    words, candidates = words.masked_fill(again, torch.inf), candidates.masked_fill(again, 0)
    # Index of a state: its last choice counts least. Outside of the text all choices are word 0.
    states = size ** (width - 1)
    padded = torch.cat([candidates.new_zeros(rows, width - 1, size), candidates], dim=1)
    value = words.new_full((rows, limit, states), torch.inf)
    value[:, 0, 0] = 0.0
    choices = torch.arange(size if width == 1 else states, device=words.device)
    changed = choices % size > 0
    back = []
    for local in _steps(scores, words, padded, direction):
        if width == 1:
            moved = value + local.view(rows, 1, size)
        else:
            moved = value.unsqueeze(-1) + local.view(rows, 1, states, size)
        moved = moved.view(rows, limit, size, -1)
        # Dimension 2 is the choice that is left behind; the last one is the new state.
        if k is not None:
            moved = _counted(moved, changed, alone=width == 1)
        value, where = moved.min(dim=2)
        back.append(where.to(torch.int16))
    return _trace(value, back, size, width, counted=k is not None)


def _steps(
    scores: NgramScores, words: Tensor, padded: Tensor, direction: Tensor
) -> Iterator[Tensor]:
    """Yields for each position `[R, S^w]` scores of its word with every choice of those before.

    Args:
        scores: of the words.
        words: `[R, N, S]` scores of the candidates alone.
        padded: `[R, w - 1 + N, S]` candidates.
        direction: `[R, C]`.
    """
    rows, length, size = words.shape
    width = scores.width
    tables = [(scores.ngram_table(order), scores.finder(order)) for order in scores.orders]
    together = max(1, TOGETHER // max(1, rows * size**width))
    for start in range(0, length, together):
        stop = min(start + together, length)
        local = words[:, start:stop]
        for order, (table, find) in enumerate(tables, start=2):
            first = width - order + start
            places = [padded[:, first + i : first + i + stop - start] for i in range(order)]
            at, found = find.among([place.flatten(0, 1) for place in places])
            # The choice of one more word in front counts most.
            local = local.unsqueeze(2).expand(-1, -1, size, -1).flatten(2)
            row = torch.div(at, local[0].numel(), rounding_mode="floor")
            local.view(-1)[at] += (table[found] * direction[row]).sum(dim=-1)
        if scores.net is not None:
            windows = _windows(padded[:, start : stop + width - 1].unfold(1, width, 1))
            whole = (scores.of_windows(windows) * direction[:, None, None]).sum(dim=-1)
            local = local.unsqueeze(2) + whole.view(rows, stop - start, -1, size)
        yield from local.flatten(2).unbind(1)


def _windows(places: Tensor) -> Tensor:
    """`[R, T, S, w]` candidates of w positions to `[R, T, S^w, w]`: every choice of one of each."""
    rows, steps, size, width = places.shape
    parts = [
        places[..., at]
        .view(rows, steps, *[1] * at, size, *[1] * (width - at - 1))
        .expand(rows, steps, *[size] * width)
        for at in range(width)
    ]
    return torch.stack(parts, dim=-1).view(rows, steps, -1, width)


def _counted(moved: Tensor, changed: Tensor, *, alone: bool) -> Tensor:
    """Moves values of a changed word up by one change."""
    later = torch.full_like(moved, torch.inf)
    later[:, 1:] = moved[:, :-1]
    where = changed.view(1, 1, -1, 1) if alone else changed.view(1, 1, 1, -1)
    return torch.where(where, later, moved)


def _trace(value: Tensor, back: list[Tensor], size: int, width: int, *, counted: bool) -> Worst:
    """Follows the choices back from the best ends."""
    rows, limit, states = value.shape
    best, state = value.min(dim=2)
    # With at most so many changes.
    best, used = best.cummin(dim=1)
    state = state.gather(1, used)
    path = state.new_zeros(rows, limit, len(back))
    row = torch.arange(rows, device=value.device).unsqueeze(1)
    for place in reversed(range(len(back))):
        left = back[place][row, used, state].long()
        chosen = left if width == 1 else state % size
        path[:, :, place] = chosen
        if width > 1:
            state = left * (states // size) + state // size
        if counted:
            used = used - (chosen > 0).long()
    return Worst(best, path)
