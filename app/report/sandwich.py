"""The sandwich of a text: what is proven about it from below, and what attacks show from above.

A certificate with the radius r proves one prediction at every point nearer than r to the embedded
text. An attack that finds another prediction at the distance d proves that no radius above d can
be right. So d < r is a contradiction: the proof, the program or the files are wrong.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LIMIT = 250
"""Steps of a curve; more of them nobody sees."""
ROUNDING = 1e-4
"""Margin that the certificate has to leave at a point. A certificate is about the pass in float64,
attacks run in float32, and a smaller margin may be rounding."""


class Ball(NamedTuple):
    """A certificate.

    Attributes:
        sample_id: its text.
        prediction: class at every point of the ball.
        radius: of the ball, in the l2 norm of all embedded tokens together.
        lipschitz: margin that a unit of the radius stands for.
    """

    sample_id: int
    prediction: int
    radius: float
    lipschitz: float


class Found(NamedTuple):
    """A point that somebody has looked at.

    Attributes:
        sample_id: its text.
        by: name of the attack.
        distance: largest possible l2 distance from the embedded text.
        prediction: class at this point.
    """

    sample_id: int
    by: str
    distance: float
    prediction: int


class Layers(NamedTuple):
    """A text between its certificate and the attacks.

    Attributes:
        ball: the certificate.
        above: the nearest point with another prediction; None where no attack has found one.
        broken: the points with another prediction inside the ball, the nearest one first.
        rounded: number of points there at which the certificate leaves no margin but rounding.
    """

    ball: Ball
    above: Found | None
    broken: tuple[Found, ...]
    rounded: int


def sandwich(balls: Iterable[Ball], points: Iterable[Found]) -> list[Layers]:
    """Returns each certified text with what attacks have found, in the order of the balls.

    Args:
        balls: at most one for each text.
        points: of any texts; those without a ball do not count.
    """
    by_text: dict[int, list[Found]] = defaultdict(list)
    for point in points:
        by_text[point.sample_id].append(point)
    return [_layers(ball, by_text[ball.sample_id]) for ball in balls]


def _layers(ball: Ball, points: Sequence[Found]) -> Layers:
    changed = [one for one in points if one.prediction != ball.prediction]
    changed.sort(key=lambda one: (one.distance, one.by))
    inside = [one for one in changed if one.distance < ball.radius]
    broken = [one for one in inside if ball.lipschitz * (ball.radius - one.distance) > ROUNDING]
    return Layers(ball, changed[0] if changed else None, tuple(broken), len(inside) - len(broken))


def certified_accuracy(radii: Sequence[float], right: Sequence[bool], limit: float) -> float:
    """Returns the share of texts that are right with a radius of more than `limit`; at 0: right.

    Args:
        radii: `[N]` certified radii, at least one.
        right: `[N]` True where the prediction is right.
        limit: at least 0.
    """
    pairs = zip(radii, right, strict=True)
    return sum(hit and (r > limit or limit == 0) for r, hit in pairs) / len(radii)


def steps(radii: Sequence[float], right: Sequence[bool]) -> tuple[list[float], list[float]]:
    """Returns the curve of the certified accuracy over the radius, as steps after each place.

    Args:
        radii: `[N]` certified radii, at least one.
        right: `[N]` True where the prediction is right.

    Returns:
        Radii from 0 (twice: for R = 0 all right texts count), rising, and the accuracy from each
        of them to the next.
    """
    own = sorted(r for r, hit in zip(radii, right, strict=True) if hit)
    places = sorted({0.0, *own})
    # Several steps become one at the place of the first: the curve is never too high.
    group = -(-len(places) // LIMIT)
    ends = [places[min(i + group, len(places)) - 1] for i in range(0, len(places), group)]
    ys = [(len(own) - bisect_right(own, end)) / len(radii) for end in ends]
    return [0.0, *places[::group]], [len(own) / len(radii), *ys]
