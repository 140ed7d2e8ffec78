"""FGSM: exact on linear models, in its ball, off the padding, and it touches nothing else."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attacks import FGSM, PGD
from attacks.embeddings.pgd import Loss, Norm
from tests.unit.attacks.embeddings.test_pgd import F64, LENGTHS, NORMS, Bag, curved, moved, sample

LOSSES = pytest.mark.parametrize("loss", ["margin", "cross_entropy"])


def gap(model: Bag, points: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    logits: Tensor = model(points, mask).detach()
    chosen = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    return logits.sum(dim=1) - 2 * chosen


@NORMS
@LOSSES
def test_exact_on_a_linear_model(norm: Norm, loss: Loss) -> None:
    """Two classes: the margin rises by epsilon times the dual norm of its slope, and no more."""
    model, (x, mask) = Bag(), sample(LENGTHS)
    labels, _ = model.distances(x, mask)
    points, _ = FGSM(epsilon=0.3, norm=norm, loss=loss)(model, x, mask, labels)
    rows, tokens = model.head.weight.detach(), mask.sum(dim=1).to(F64)
    slope = rows[0] - rows[1]
    dual = slope.norm() * tokens.sqrt() if norm == "l2" else slope.abs().sum() * tokens
    risen = gap(model, points, mask, labels) - gap(model, x, mask, labels)
    torch.testing.assert_close(risen, 0.3 * dual)
    torch.testing.assert_close(moved(points, x, norm), torch.full((4,), 0.3, dtype=F64))


@NORMS
@LOSSES
def test_finds_the_boundary_of_a_linear_model(norm: Norm, loss: Loss) -> None:
    model, (x, mask) = Bag(), sample(LENGTHS)
    labels, distance = model.distances(x, mask)
    if norm == "linf":
        rows, tokens = model.head.weight.detach(), mask.sum(dim=1)
        slope = (rows[0] - rows[1]).abs().sum() * tokens
        distance = -gap(model, x, mask, labels) / slope
    for factor, expected in ((1 - 1e-6, False), (1 + 1e-6, True)):
        attack = FGSM(norm=norm, loss=loss)
        points, found = attack(model, x, mask, labels, epsilon=factor * distance)
        assert found.tolist() == [expected] * 4
        torch.testing.assert_close(moved(points, x, norm), factor * distance)


@NORMS
@LOSSES
def test_one_step_of_pgd(norm: Norm, loss: Loss) -> None:
    network, (x, mask) = curved(), sample(LENGTHS)
    labels = network(x, mask).argmax(dim=1)
    points, _ = FGSM(epsilon=0.05, norm=norm, loss=loss)(network, x, mask, labels)
    pgd = PGD(epsilon=0.05, norm=norm, loss=loss, steps=1, step_size=0.05)
    torch.testing.assert_close(points, pgd(network, x, mask, labels)[0])


@NORMS
def test_padding_stays_even_where_a_model_reads_it(norm: Norm) -> None:
    network, (x, mask) = curved(), sample(LENGTHS)
    x[~mask] = 7.0

    def leaky(tokens: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = network(tokens, torch.ones_like(mask))
        return logits

    labels = leaky(x, mask).argmax(dim=1)
    points, _ = FGSM(norm=norm)(leaky, x, mask, labels)
    assert torch.equal(points[~mask], x[~mask])
    assert torch.all(moved(points, x, norm) > 0)


def test_nothing_moves_where_nothing_rises() -> None:
    x, mask = sample([2, 3])

    def flat(tokens: Tensor, mask: Tensor) -> Tensor:
        return 0 * tokens.sum(dim=(1, 2)).unsqueeze(1) + torch.tensor([1.0, 0.0], dtype=F64)

    labels = torch.zeros(2, dtype=torch.long)
    for norm in ("l2", "linf"):
        points, found = FGSM(norm=norm)(flat, x, mask, labels)
        assert torch.equal(points, x)
        assert found.tolist() == [False, False]


def test_margin_rises_where_cross_entropy_is_saturated() -> None:
    model, (x, mask) = Bag(), sample([3, 3])
    labels, distance = model.distances(x, mask)
    with torch.no_grad():
        model.head.weight.mul_(1e5)
        model.head.bias.mul_(1e5)
    epsilon = 1.01 * distance
    margin = FGSM(norm="l2")(model, x, mask, labels, epsilon=epsilon)[1]
    entropy = FGSM(norm="l2", loss="cross_entropy")(model, x, mask, labels, epsilon=epsilon)[1]
    assert margin.tolist() == [True, True]
    assert entropy.tolist() == [False, False]


@pytest.mark.parametrize("lead", [50.0, 60.0, 90.0])
def test_a_tiny_gradient_does_not_leave_the_ball(lead: float) -> None:
    """In single precision the squares of its entries are 0."""

    def classify(tokens: Tensor, mask: Tensor) -> Tensor:
        return (tokens * mask.unsqueeze(-1)).sum(dim=1)

    x, mask = torch.tensor([[[lead, 0.0]]]), torch.ones(1, 1, dtype=torch.bool)
    attack = FGSM(epsilon=0.5, norm="l2", loss="cross_entropy")
    points, _ = attack(classify, x, mask, torch.tensor([0]))
    # The probability of the label rounds to 1: its logit has the gradient 0.
    torch.testing.assert_close(points, x + torch.tensor([0.0, 0.5]))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_runs_in_every_gradient_mode_and_leaves_parameters_alone(mode: Any) -> None:
    network, (x, mask) = curved().float(), sample(LENGTHS)
    labels = network(x.float(), mask).argmax(dim=1)
    epsilon = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=F64)  # certified radii are float64
    expected, _ = FGSM()(network, x.float(), mask, labels, epsilon=epsilon)
    with mode():
        points, _ = FGSM()(network, x.float().clone(), mask, labels, epsilon=epsilon)
    torch.testing.assert_close(points, expected)
    assert points.dtype == torch.float32
    assert not points.is_inference()
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_settings_that_make_no_attack(epsilon: float) -> None:
    with pytest.raises(ValueError, match="expected a finite number"):
        FGSM(epsilon=epsilon)
