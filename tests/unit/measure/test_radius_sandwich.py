"""Certificates below, attacks above."""

import random
from collections.abc import Sequence

import pytest

from measure.radius_sandwich import LIMIT, ROUNDING, AttackPoint, Ball, sandwich, steps


def certified_accuracy(radii: Sequence[float], right: Sequence[bool], limit: float) -> float:
    """The share of texts that are right with a radius of more than `limit`; at 0: right."""
    pairs = zip(radii, right, strict=True)
    return sum(hit and (r > limit or limit == 0) for r, hit in pairs) / len(radii)


def ball(radius: float, *, lipschitz: float = 1.0) -> Ball:
    return Ball(sample_id=7, prediction=1, radius=radius, lipschitz=lipschitz)


@pytest.mark.parametrize(
    ("radius", "point", "broken", "rounded"),
    [
        (1.5, AttackPoint(7, "PGD", 1.0, 0), 1, 0),  # another class inside the ball
        (1.5, AttackPoint(7, "PGD", 1.0, 1), 0, 0),  # the same class
        (0.5, AttackPoint(7, "PGD", 1.0, 0), 0, 0),  # outside
        (1.0, AttackPoint(7, "PGD", 1.0, 0), 0, 0),  # the ball is open
        (1.0 + ROUNDING / 2, AttackPoint(7, "PGD", 1.0, 0), 0, 1),  # may be rounding
        (0.1, AttackPoint(7, "clean text", 0.0, 0), 1, 0),
        (1.5, AttackPoint(8, "PGD", 1.0, 0), 0, 0),  # another text
    ],
)
def test_contradictions(radius: float, point: AttackPoint, broken: int, rounded: int) -> None:
    (found,) = sandwich([ball(radius)], [point])
    assert (len(found.broken), found.rounded) == (broken, rounded)


def test_rounding_is_of_the_margin_and_not_of_the_radius() -> None:
    (found,) = sandwich([ball(1.0, lipschitz=ROUNDING / 2)], [AttackPoint(7, "PGD", 0.0, 0)])
    assert (found.broken, found.rounded) == ((), 1)


def test_the_nearest_change_is_above() -> None:
    points = [
        AttackPoint(7, "far", 3.0, 0),
        AttackPoint(7, "near", 2.0, 0),
        AttackPoint(7, "same", 1.0, 1),
    ]
    (found,) = sandwich([ball(0.5)], points)
    assert found.above == points[1]


def test_certified_accuracy() -> None:
    radii, right = [0.0, 0.5, 2.0, 3.0], [True, True, True, False]
    assert certified_accuracy(radii, right, 0) == 0.75
    assert certified_accuracy(radii, right, 0.5) == 0.25
    assert certified_accuracy(radii, right, 2.0) == 0.0


@pytest.mark.parametrize("count", [1, 5, 3 * LIMIT + 1])
def test_the_curve_is_never_above_the_certified_accuracy(count: int) -> None:
    draw = random.Random(count)
    radii = [round(draw.expovariate(1), 2) for _ in range(count)]
    right = [draw.random() < 0.8 for _ in range(count)]
    xs, ys = steps(radii, right)
    assert len(xs) == len(ys) <= LIMIT + 2
    assert ys[0] == certified_accuracy(radii, right, 0)
    assert xs == sorted(xs)
    assert ys[-1] == 0
    for limit in (0.001, *sorted(radii)[:: max(1, count // 20)], 1.234, 100.0):
        curve = [y for x, y in zip(xs, ys, strict=True) if x <= limit][-1]
        truth = certified_accuracy(radii, right, limit)
        assert curve <= truth or (limit == 0 and curve <= certified_accuracy(radii, right, 1e-9))
        assert curve >= truth - 8 / LIMIT
        if count < LIMIT and limit > 0:
            assert curve == truth
