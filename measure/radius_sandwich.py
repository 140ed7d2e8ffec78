"""The sandwich of a text: a certificate bounds it from below, attacks from above.

A certificate with the radius r proves one prediction at every point nearer than r to the embedded
text. An attack that finds another prediction at the distance d proves that no radius above d can
be right. So d < r is a contradiction: the proof, the program or the files are wrong.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from attacks.outcome import AttackRecord

LIMIT = 250
"""Steps of a curve; more cannot be seen."""
ROUNDING = 1e-4
"""Smallest margin of a certificate at a contradicting point. A certificate is about the pass in
float64, attacks run in float32, and a smaller margin may be rounding."""
_BATCH = 64
"""Pairs of texts that are embedded together."""


class Ball(NamedTuple):
    """A certificate: one prediction in an l2 ball of all embedded tokens together."""

    sample_id: int
    prediction: int
    radius: float
    # Margin per unit of the radius; infinite if unknown.
    lipschitz: float


class AttackPoint(NamedTuple):
    """A point with a known prediction, within the l2 `distance` of the embedded text."""

    sample_id: int
    by: str
    distance: float
    prediction: int


class TextSandwich(NamedTuple):
    """A text between its certificate and the attacks.

    `above` is the nearest point with another prediction, if any; `broken` are those inside the
    ball, the nearest first; `rounded` counts points inside whose margin may be rounding alone.
    """

    ball: Ball
    above: AttackPoint | None
    broken: tuple[AttackPoint, ...]
    rounded: int

    @property
    def ratio(self) -> float:
        """The certified radius over the distance of the nearest change."""
        if self.above is None or self.above.distance <= 0:
            return math.inf
        return self.ball.radius / self.above.distance


def sandwich(balls: Iterable[Ball], points: Iterable[AttackPoint]) -> list[TextSandwich]:
    """Return each certified text with its points; there is at most one ball for each text."""
    by_text: dict[int, list[AttackPoint]] = defaultdict(list)
    for point in points:
        by_text[point.sample_id].append(point)
    return [_sandwich(ball, by_text[ball.sample_id]) for ball in balls]


def _sandwich(ball: Ball, points: Sequence[AttackPoint]) -> TextSandwich:
    changed = [point for point in points if point.prediction != ball.prediction]
    changed.sort(key=lambda point: (point.distance, point.by))
    inside = [point for point in changed if point.distance < ball.radius]
    # A certificate proves a margin of lipschitz (radius - distance) at each point of its ball.
    broken = [p for p in inside if ball.lipschitz * (ball.radius - p.distance) > ROUNDING]
    above = changed[0] if changed else None
    return TextSandwich(ball, above, tuple(broken), len(inside) - len(broken))


def steps(radii: Sequence[float], right: Sequence[bool]) -> tuple[list[float], list[float]]:
    """Return the curve of the certified accuracy over the `[N]` certified radii, as steps.

    Radii from 0 (twice: at R = 0 all right texts count), rising, and the accuracy from each of them
    to the next.
    """
    certified = sorted(r for r, hit in zip(radii, right, strict=True) if hit)
    starts = sorted({0.0, *certified})
    # Several steps become one at the first of them: the curve is never too high.
    group = -(-len(starts) // LIMIT)
    ends = [starts[min(i + group, len(starts)) - 1] for i in range(0, len(starts), group)]
    ys = [(len(certified) - bisect_right(certified, end)) / len(radii) for end in ends]
    return [0.0, *starts[::group]], [len(certified) / len(radii), *ys]


def embedded_distances(checkpoint: Path, records: Sequence[AttackRecord]) -> list[float | None]:
    """Return the l2 distances of the embedded adversarial texts from the clean ones.

    None where the two texts have different numbers of tokens: no certificate is about such a
    change.

    Raises:
        ValueError: the checkpoint cannot be read, or the model does not accept the texts.
    """
    # Only here: without attacked texts to compare, a report loads no torch.
    import torch

    from lit_modules import load
    from text import cuts_unsaid

    model = load(checkpoint)
    distances: list[float | None] = []
    with torch.no_grad(), cuts_unsaid():
        for start in range(0, len(records), _BATCH):
            part = records[start : start + _BATCH]
            # Clean texts at even positions of the batch, adversarial ones at odd positions.
            texts = [text for r in part for text in (r.text, r.adversarial or r.text)]
            batch = model.encode_texts(texts)
            # `[2 B, N, d]`; padding does not count.
            tokens = model.embed(batch).double().masked_fill(~batch.mask.unsqueeze(-1), 0.0)
            lengths = batch.mask.sum(dim=1).tolist()
            gaps = (tokens[::2] - tokens[1::2]).flatten(1).norm(dim=1).tolist()
            pairs = zip(gaps, lengths[::2], lengths[1::2], strict=True)
            distances += [gap if clean == changed else None for gap, clean, changed in pairs]
    return distances
