"""The largest ball in which one or two words may move without changing the prediction."""

import math
from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from torch import Tensor

from certify.bound_propagation.propagation_graph import Passes
from certify.bound_propagation.regions import Region
from certify.bound_propagation.transformer_bounds import (
    check_transformer,
    copy_double,
    least_margins,
)
from certify.certificate import Certifiable, evaluating
from certify.parts import check_holder
from layers.transformer import TransformerClassifier

FIRST = 0.25
"""The radius that is tried first."""


@dataclass(frozen=True, kw_only=True)
class WordBalls:
    """The settings of bound propagation.

    Attributes:
        words: number of words that move together, 1 or 2; each in a ball of its own.
        norm: p-norm of the balls.
        passes: bounds inside the network. forward: by one forward pass, the quickest; mixed: by a
            forward pass in each attention and backward passes else; backward: by backward passes
            only. Those of the margins always come from a backward pass.
        steps: number of radii tried for each choice of words.
        numbers: largest number of bounds of attention scores in memory at once.
    """

    words: Literal[1, 2] = 1
    norm: Literal["1", "2", "inf"] = "2"
    passes: Passes = "mixed"
    steps: int = 10
    numbers: int = 4_000_000

    def __post_init__(self) -> None:
        expected = {"words": (1, 2), "norm": ("1", "2", "inf"), "passes": get_args(Passes)}
        for name, choices in expected.items():
            if getattr(self, name) not in choices:
                names = ", ".join(map(str, choices))
                msg = f"got propagation.{name}={getattr(self, name)!r}, expected one of {names}"
                raise ValueError(msg)
        for name in ("steps", "numbers"):
            if getattr(self, name) < 1:
                msg = f"got propagation.{name}={getattr(self, name)}, expected at least 1"
                raise ValueError(msg)


class WordRadii(NamedTuple):
    """Radii `[B]`: no choice of `words` words can change the prediction within them.

    `mean` `[B]` is over the choices of words, the figure of Shi et al.
    """

    prediction: Tensor
    radius: Tensor
    mean: Tensor
    seconds: float


class WordBallsCertifier:
    """Certifies batches of one ordinary Transformer classifier.

    Raises:
        ValueError: see `check_transformer`.
    """

    def __init__(self, module: Certifiable, settings: WordBalls = WordBalls()) -> None:
        self.module, self.settings = module, settings
        check_holder(module, module.network)
        check_transformer(module.network)
        assert isinstance(module.network, TransformerClassifier)  # as just checked
        self.network = copy_double(module.network)

    @torch.no_grad()
    def __call__(self, batch: Any) -> WordRadii:
        """Certify a batch with `mask` `[B, N]` and the inputs of `module.embed`."""
        # Again in each call: hooks may have been added since the constructor.
        check_transformer(self.module.network)
        started = perf_counter()
        with evaluating(self.module):
            x, mask = self.module.embed(batch).to(torch.float64), batch.mask
        logits: Tensor = self.network(x, mask)
        prediction = logits.argmax(dim=1)
        radii = [
            # Without its padding, so that only real words are chosen to move.
            self._radii(text[real], label)
            for text, real, label in zip(x, mask, prediction.tolist(), strict=True)
        ]
        least = torch.stack([of_choices.amin() for of_choices in radii])
        mean = torch.stack([of_choices.mean() for of_choices in radii])
        return WordRadii(prediction, least, mean, perf_counter() - started)

    def _radii(self, x: Tensor, label: int) -> Tensor:
        """Return the radius of every choice of words of one text `[N, d]`."""
        length, blocks = len(x), cast(Any, self.network.blocks)
        choices = list(combinations(range(length), min(self.settings.words, length)))
        words = torch.tensor(choices, device=x.device)
        # The slopes of the scores are the largest tensor of the forward pass.
        heads = max([block.attention.heads for block in blocks], default=1)
        numbers = max(1, heads * length * length * max(words.shape[1] * x.shape[1], length))
        size = max(1, self.settings.numbers // numbers)
        return torch.cat([self._searched(x, part, label) for part in torch.split(words, size)])

    def _searched(self, x: Tensor, words: Tensor, label: int) -> Tensor:
        """Return the largest proven radius for each row of `words` `[K, W]`."""
        count = len(words)
        certain = torch.zeros(count, dtype=x.dtype, device=x.device)
        failed = torch.full_like(certain, torch.inf)
        tried = torch.full_like(certain, FIRST)
        centre = x.expand(count, *x.shape)
        mask = torch.ones(centre.shape[:2], dtype=torch.bool, device=x.device)
        labels = torch.full((count,), label, device=x.device)
        for _ in range(self.settings.steps):
            # Each row is the same text with other words that move.
            region = Region(centre, words, tried, p=float(self.settings.norm))
            passes = self.settings.passes
            margins = least_margins(self.network, region, mask, labels, passes=passes)
            held = margins > 0  # false where it is NaN, too
            # Bisection: `certain` is proven, and `failed` is not.
            certain = torch.where(held, tried, certain)
            failed = torch.where(held, failed, tried)
            # Twice or a quarter until both ends are known; then the geometric mean, as radii differ
            # by orders of magnitude.
            enclosed = (certain > 0) & (failed < math.inf)
            tried = torch.where(
                enclosed, (certain * failed).sqrt(), torch.where(held, 2 * tried, tried / 4)
            )
        return certain
