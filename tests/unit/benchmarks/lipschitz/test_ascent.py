"""Norms of Jacobians by products, and lower bounds next to proven upper ones."""

import math

import pytest
import torch
from torch import Tensor

from benchmarks.lipschitz.ascent import Ascent, climb, random_inputs, value
from benchmarks.lipschitz.subjects import NAMES, Subject, Weights, build
from layers.norms import NORMS, Norm

CPU = torch.device("cpu")


def made(kind: str, norm: Norm, *, width: int = 4, tokens: int = 5) -> tuple[Subject, Tensor]:
    weights: Weights = "identity" if kind == "l2_tied" else "random"
    subject = Subject(kind=kind, width=width, heads=2, weights=weights, seed=1)
    return subject, random_inputs([0, 1, 2], tokens, width)


def by_all_entries(kind: str, norm: Norm) -> tuple[Tensor, Tensor]:
    """The norm of the whole Jacobian, or of the first token's rows, and what products give."""
    subject, x = made(kind, norm)
    x = x / 5
    layer = build(subject, 5, norm, CPU)
    rows = torch.func.vmap(torch.func.jacrev(lambda one: layer.all_tokens(one[None])[0]))(x)
    if norm == "inf":
        return rows[:, 0].abs().sum(dim=(2, 3)).amax(dim=1), value(layer, x, norm)
    return torch.linalg.matrix_norm(rows.flatten(3).flatten(1, 2), 2), value(layer, x, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["l2_tied", "l2", "l2_contractive", "scaled_dot_product", "paas"])
def test_products_give_the_norm_of_the_jacobian(kind: str, norm: Norm) -> None:
    expected, found = by_all_entries(kind, norm)
    torch.testing.assert_close(found, expected, rtol=0.02 if norm == "2" else 1e-9, atol=0)
    assert torch.all(found <= expected * (1 + 1e-12))


@pytest.mark.parametrize("kind", ["l2_tied", "l2_contractive", "one_lipschitz", "one_lipschitz_l2"])
@pytest.mark.parametrize("norm", NORMS)
def test_what_is_found_grows_and_stays_below_what_is_proven(kind: str, norm: Norm) -> None:
    if kind.startswith("one") and norm == "inf":
        return
    subject, x = made(kind, norm)
    layer = build(subject, 5, norm, CPU)
    begin = value(layer, x, norm)
    found = climb(layer, x, norm, Ascent(starts=3, steps=15)).best
    assert torch.all(found >= begin * (1 - 1e-9))
    assert bool((found > begin * 1.001).any())
    assert float(found.max()) <= layer.bounds["sound"]


@pytest.mark.parametrize("kind", NAMES)
def test_any_attention_has_a_lower_bound(kind: str) -> None:
    subject, x = made(kind, "2")
    layer = build(subject, 5, "2", CPU)
    path = climb(layer, x[:1], "2", Ascent(starts=1, steps=2)).path
    assert len(path) == 2
    assert all(math.isfinite(norm) and norm > 0 for norm in path)
    lipschitz = {kind for kind in NAMES if kind.startswith(("l2_", "one_lipschitz"))}
    assert bool(layer.bounds) == (kind in lipschitz)


def test_an_ascent_without_gain_ends() -> None:
    subject = Subject(kind="l2_tied")
    x = torch.zeros(1, 3, 1, dtype=torch.float64)  # all tokens alike: no gradient
    given = Ascent(starts=1, steps=50, patience=4)
    assert len(climb(build(subject, 3, "inf", CPU), x, "inf", given).path) == 5


def test_the_norm_inf_has_no_bound_in_a_ball() -> None:
    with pytest.raises(ValueError, match="kind=one_lipschitz with norm=inf, expected norm=2"):
        build(Subject(kind="one_lipschitz", width=4, heads=2), 5, "inf", CPU)
