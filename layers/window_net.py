"""A feed-forward net over each window of words, with sums that do not depend on their order."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from text import check_range

WEIGHT_GRID = 2.0**-16
"""Entries of tables and weights in evaluation mode are multiples of it, and so at most `STEEPEST`
in absolute value: a product of two has 40 bits, and sums of them are exact in float64."""
STEEPEST = 2.0**4
"""Largest absolute value of an entry of a certified net."""
WIDEST = 2**7
"""Most hidden units."""
AT_ONCE = 1 << 15
"""Windows whose hidden units are computed together."""


@dataclass(frozen=True, kw_only=True)
class WindowNetSettings:
    """The net over windows.

    Attributes:
        hidden: hidden units of the net over each window, which replaces the tables of n-grams; 0
            for those tables.
        width: width of the word vectors that the net reads.
    """

    hidden: int = 0
    width: int = 24

    def __post_init__(self) -> None:
        """Raise a ValueError for a number out of its range."""
        check_range({"net.hidden": self.hidden}, least=0, most=WIDEST)
        check_range({"net.width": self.width}, least=1)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        return {} if self.hidden else {"width": "net.hidden=0"}


class WindowNet(nn.Module):
    """Scores of windows of words: a vector for each word, one hidden layer of ReLU, one output.

    The first layer is linear in the vectors of the words, so it is a sum over the window of entries
    of one table for each position. Those tables are computed once, and rounded in evaluation mode.

    Padding and unknown words have zeros in all tables. A window of only these scores 0.

    Args:
        size: number of words.
        classes: number of classes C.
        window: words of a window.
        settings: of the net.
        vectors: width of fixed word vectors, a linear function of which is the vector of a word;
            0: words have their own vectors.
        specials: number of words with zeros.
    """

    def __init__(
        self,
        size: int,
        classes: int,
        *,
        window: int,
        settings: WindowNetSettings,
        vectors: int = 0,
        specials: int = 3,
    ) -> None:
        super().__init__()
        self.window, self.settings, self.specials = window, settings, specials
        width, hidden = settings.width, settings.hidden
        rows = vectors or size
        self.words = nn.Parameter(torch.randn(rows, width) * (vectors**-0.5 if vectors else 0.1))
        self.first = nn.Parameter(torch.randn(window, width, hidden) * width**-0.5)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Parameter(torch.randn(hidden, classes) * 0.3 * hidden**-0.5)

    def tables(self, vectors: Tensor | None) -> Tensor:
        """`[w, V, H]`: the summand of each word in the hidden units at each position of a window.

        A net for fixed word vectors needs them, `[V, d]`.
        """
        words = self.words if vectors is None else vectors @ self.words
        tables = words @ self.first
        # The bias belongs to the last word, so that windows of only unknown words score 0.
        tables = torch.cat([tables[:-1], tables[-1:] + self.bias])
        ordinary = torch.arange(words.shape[0], device=words.device) >= self.specials
        return self._final(tables * ordinary.unsqueeze(1))

    def output(self) -> Tensor:
        """`[H, C]`: weights of the hidden units; float64 and rounded in evaluation mode."""
        return self._final(self.second)

    def _final(self, table: Tensor) -> Tensor:
        if self.training:
            return table
        return (table.to(torch.float64) / WEIGHT_GRID).round() * WEIGHT_GRID

    def forward(self, tables: Tensor, ids: Tensor) -> Tensor:
        """`[B, N]` ids to `[B, N, C]`: the score of the window that ends at each word."""
        hidden = sum(
            _shift(nn.functional.embedding(ids, table), len(tables) - 1 - i)
            for i, table in enumerate(tables)
        )
        assert isinstance(hidden, Tensor)  # a window has a word
        return (hidden.relu() @ self.output()) * (ids != 0).unsqueeze(-1)

    def of_windows(self, tables: Tensor, windows: Tensor) -> Tensor:
        """`[M, w]` ids of windows, each once, to `[M, C]` scores."""
        output = self.output()
        scores = [windows.new_zeros(0, output.shape[1]).to(output)]
        for some in torch.split(windows, AT_ONCE):
            hidden = tables[0][some[:, 0]]
            for i in range(1, len(tables)):
                hidden = hidden + tables[i][some[:, i]]
            scores.append((hidden.relu_() @ output) * (some[:, -1:] != 0))
        return torch.cat(scores)

    def least(self, tables: Tensor, candidates: Tensor, direction: Tensor) -> Tensor:
        """`[B, N, J]` lower bounds on directions of scores, by intervals around the hidden units.

        Directions are `[B, J, C]`; candidates `[B, N, S]`: see `certify.words.worst_path`.
        """
        lower, upper = tables.new_zeros(1), tables.new_zeros(1)
        for i, table in enumerate(tables):
            entries = nn.functional.embedding(candidates, table)  # [B, N, S, H]
            steps = len(tables) - 1 - i
            lower = lower + _shift(entries.amin(dim=2), steps)
            upper = upper + _shift(entries.amax(dim=2), steps)
        weights = (direction @ self.output().T).transpose(1, 2)
        # Of a negative weight the least product has the upper end.
        bounds = lower.relu() @ weights.clamp_min(0.0) + upper.relu() @ weights.clamp_max(0.0)
        return bounds * (candidates[..., :1] != 0)

    @torch.no_grad()
    def check(self, tables: Tensor) -> float:
        """Return a bound on the absolute value of a score, for a net in evaluation mode.

        Raises:
            ValueError: weights too large for exact sums.
        """
        output = self.output()
        # torch's maximum keeps a NaN, Python's may lose it.
        steepest = float(torch.stack([tables.abs().amax(), output.abs().amax()]).amax())
        if not steepest <= STEEPEST:
            msg = (
                f"got a net over windows with entries up to {steepest:g}, expected at most "
                f"{STEEPEST:g}, and finite ones: train anew"
            )
            raise ValueError(msg)
        # Greatest hidden units of any window, times the absolute output weights.
        highest = tables.amax(dim=1).clamp_min(0.0).sum(dim=0)
        return float((highest @ output.abs()).amax())


def _shift(entries: Tensor, steps: int) -> Tensor:
    """`[B, N, H]`: entries shifted to later words by some steps, with zeros in front."""
    if not steps:
        return entries
    return nn.functional.pad(entries, (0, 0, steps, 0))[:, : entries.shape[1]]
