"""The training objective against its definition, number by number."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lit_modules.shared.radius_objective import Loss, Margin, RadiusObjective
from lit_modules.shared.weight_schedule import WeightSchedule

F64 = torch.float64


def by_hand(
    objective: RadiusObjective, logits: Tensor, labels: Tensor, head: Tensor, progress: float
) -> float:
    """The mean over samples, one at a time, in plain Python."""
    total, rise = 0.0, min(1.0, progress) if objective.schedule.shape == "linear" else 1.0
    gamma, target = rise * objective.gamma, rise * objective.target_radius
    for row, label in enumerate(labels.tolist()):
        z = logits[row].tolist()
        rivals = [j for j in range(len(z)) if j != label]
        radius = min((z[label] - z[j]) / math.dist(head[label], head[j]) for j in rivals)
        if objective.loss == "hinge":
            total += max(0.0, target - radius)
            continue
        total += math.log(sum(math.exp(value) for value in z)) - z[label]
        margin = radius
        if objective.margin == "paper":
            margin = (z[label] - max(z[j] for j in rivals)) / math.sqrt(2)
        reward = max(0.0, margin)
        if objective.margin_cap is not None:
            reward = min(reward, objective.margin_cap)
        total -= gamma * reward
    return total / len(labels)


@pytest.mark.long
@given(
    st.sampled_from(["cross_entropy", "hinge"]),
    st.sampled_from(["paper", "pairwise"]),
    st.sampled_from(["constant", "linear"]),
    st.sampled_from([None, 0.3]),
    st.floats(0, 3),
    st.floats(0, 1.5),
    st.integers(2, 5),
    st.integers(0, 2**32 - 1),
)
def test_equal_to_the_definition(
    loss: Loss,
    margin: Margin,
    schedule: Any,
    cap: float | None,
    gamma: float,
    progress: float,
    classes: int,
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(6, classes, generator=generator, dtype=F64)
    labels = torch.randint(classes, (6,), generator=generator)
    head = torch.randn(classes, 4, generator=generator, dtype=F64)
    objective = RadiusObjective(
        loss=loss,
        gamma=gamma,
        schedule=WeightSchedule(shape=schedule),
        margin=margin,
        margin_cap=cap,
        target_radius=0.8,
    )
    found = objective(logits, labels, head, progress=progress).mean().item()
    assert found == pytest.approx(by_hand(objective, logits, labels, head, progress), abs=1e-10)


def test_the_weight_rises_and_stays() -> None:
    rising = RadiusObjective(gamma=2.0, schedule=WeightSchedule(shape="linear"))
    gammas = [rising.current(progress) for progress in (0, 0.25, 0.5, 1, 1.5)]
    assert gammas == [{"gamma": value} for value in (0, 0.5, 1, 2, 2)]
    hinge = replace(rising, loss="hinge", target_radius=0.5)
    assert hinge.current(0.5) == {"target_radius": 0.25}
    assert RadiusObjective(gamma=2.0).current(0) == {"gamma": 2.0}


@pytest.mark.parametrize("loss", ["cross_entropy", "hinge"])
@pytest.mark.parametrize("margin", ["paper", "pairwise"])
def test_gradients(loss: Loss, margin: Margin) -> None:
    torch.manual_seed(0)
    objective = RadiusObjective(loss=loss, margin=margin, gamma=1.0)
    labels = torch.tensor([0, 1, 2, 1])
    inputs = [torch.randn(4, 3, dtype=F64), torch.randn(3, 5, dtype=F64)]

    def value(logits: Tensor, head: Tensor) -> Tensor:
        return objective(logits, labels, head, progress=1.0).mean()

    assert torch.autograd.gradcheck(value, [x.requires_grad_() for x in inputs])


def test_equal_head_rows_give_finite_gradients() -> None:
    head = torch.ones(3, 4, requires_grad=True)
    logits = torch.zeros(2, 3, requires_grad=True)
    loss = RadiusObjective(loss="hinge")(logits, torch.tensor([0, 1]), head, progress=1.0).mean()
    loss.backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    assert head.grad is not None
    assert torch.isfinite(loss)
    assert bool(torch.isfinite(head.grad).all())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": -1.0}, "got objective.gamma=-1.0, expected a finite number of at least 0"),
        ({"target_radius": 0.0}, "got objective.target_radius=0.0, expected a finite number"),
        ({"margin_cap": 0.0}, "got objective.margin_cap=0.0, expected a finite number"),
        ({"loss": "huber"}, "got objective.loss='huber', expected one of cross_entropy, hinge"),
        ({"margin": "wide"}, "got objective.margin='wide', expected one of paper, pairwise"),
    ],
)
def test_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RadiusObjective(**settings)
