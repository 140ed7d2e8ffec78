"""PGD: stays in its ball, climbs, finds what is there to find, and touches nothing else."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from attacks import PGD
from attacks.embeddings.pgd import Loss, Norm
from layers import olsa_classifier
from layers.encoders import OLSALayers

F64 = torch.float64


class Bag(nn.Module):
    """Linear in the tokens: sum over real tokens, then a head; distances are known exactly."""

    def __init__(self, classes: int = 2, width: int = 6) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.head = nn.Linear(width, classes).double()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.head((x * mask.unsqueeze(-1)).sum(dim=1))
        return logits

    def distances(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and distances to the nearest boundary, in the norm over all real tokens."""
        with torch.no_grad():
            logits = self(x, mask)
            label = logits.argmax(dim=1)
            gaps = logits.gather(1, label.unsqueeze(1)) - logits
            rows = self.head.weight[label].unsqueeze(1) - self.head.weight
            # Moving each of n tokens by t moves the sum by n t, at a price of sqrt(n) t.
            distance = gaps / rows.norm(dim=-1) / mask.sum(dim=1, keepdim=True).sqrt()
            own = functional.one_hot(label, logits.shape[1]).bool()
            return label, distance.masked_fill(own, torch.inf).amin(dim=1)


def sample(lengths: list[int], *, width: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(lengths), max(lengths), width, generator=generator, dtype=F64)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return x, mask


def curved(width: int = 6, classes: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return olsa_classifier(
        width, classes, depth=2, heads=1, radius=2.0, layers=OLSALayers(initial_alpha_1=0.3)
    ).double()


def moved(points: Tensor, x: Tensor, norm: Norm = "l2") -> Tensor:
    if norm == "linf":
        return (points - x).abs().amax(dim=(1, 2))
    length: Tensor = (points - x).norm(dim=(1, 2))
    return length


LENGTHS = [1, 3, 5, 2]


NORMS = pytest.mark.parametrize("norm", ["l2", "linf"])


@NORMS
@pytest.mark.parametrize("loss", ["margin", "cross_entropy"])
@pytest.mark.parametrize("step_size", [None, 0.05, 10.0])
def test_stays_in_the_ball_and_off_the_padding(
    norm: Norm, loss: Loss, step_size: float | None
) -> None:
    network, (x, mask) = curved(), sample(LENGTHS)
    x[~mask] = 7.0
    labels = network(x, mask).argmax(dim=1)
    epsilon = torch.tensor([0.1, 0.5, 1.0, 0.01], dtype=F64)
    attack = PGD(norm=norm, steps=6, restarts=3, loss=loss, step_size=step_size)
    points, _ = attack(network, x, mask, labels, epsilon=epsilon, seeds=[0, 1, 2, 3])
    assert torch.all(moved(points, x, norm) <= epsilon * (1 + 1e-12))
    assert torch.all(moved(points, x, norm) > 0)
    assert torch.equal(points[~mask], x[~mask])


@NORMS
def test_padding_stays_even_where_a_model_reads_it(norm: Norm) -> None:
    network, (x, mask) = curved(), sample(LENGTHS)

    def leaky(tokens: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = network(tokens, torch.ones_like(mask))
        return logits

    labels = leaky(x, mask).argmax(dim=1)
    points, _ = PGD(norm=norm, epsilon=0.5, steps=3, restarts=2)(leaky, x, mask, labels)
    assert torch.equal(points[~mask], x[~mask])
    assert torch.all(moved(points, x) > 0)


@NORMS
def test_random_starts_are_in_the_ball_and_fill_it(norm: Norm) -> None:
    x, mask = sample([2] * 200, width=2)
    starts: list[Tensor] = []

    def flat(tokens: Tensor, mask: Tensor) -> Tensor:
        starts.append(moved(tokens.detach(), x, norm))
        return (0.0 * tokens).sum(dim=(1, 2)).unsqueeze(1) + torch.tensor([1.0, 0.0], dtype=F64)

    PGD(norm=norm, epsilon=2.0, steps=1, restarts=2)(
        flat, x, mask, torch.zeros(200, dtype=torch.long), seeds=list(range(200))
    )
    assert float(starts[0].max()) == 0.0  # the first restart begins at the centre
    radii = starts[3]  # after one step's two evaluations and the judgement
    assert float(radii.max()) <= 2.0
    # Uniform in any ball of 4 dimensions: a share of 1/2 lies beyond 2 (1/2)^(1/4).
    share = float((radii > 2 * 0.5**0.25).double().mean())
    assert 0.4 < share < 0.6


@NORMS
def test_loss_never_falls_on_a_linear_model(norm: Norm) -> None:
    model, (x, mask) = Bag(), sample(LENGTHS)
    labels, _ = model.distances(x, mask)
    losses: list[Tensor] = []

    def classify(tokens: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = model(tokens, mask)
        chosen = logits.detach().gather(1, labels.unsqueeze(1)).squeeze(1)
        losses.append(logits.detach().sum(dim=1) - 2 * chosen)
        return logits

    attack = PGD(norm=norm, epsilon=1.0, steps=10)
    points, _ = attack(classify, x, mask, labels)
    path = torch.stack(losses[:-1])  # the last is the judgement
    assert path.shape[0] == 11
    assert torch.all(path[1:] >= path[:-1] - 1e-12)
    assert torch.all(path[4] > path[0])
    # The best point of a linear model is known: the whole radius along the gradient.
    rows = model.head.weight.detach()
    slope = torch.stack([rows[1 - int(label)] - rows[int(label)] for label in labels])
    if norm == "l2":
        best = path[0] + slope.norm(dim=1) * mask.sum(dim=1).sqrt()
    else:
        best = path[0] + slope.abs().sum(dim=1) * mask.sum(dim=1)
    torch.testing.assert_close(path[-1], best)
    torch.testing.assert_close(moved(points, x, norm), torch.ones(4, dtype=F64))


@NORMS
def test_loss_never_falls_on_a_convex_model(norm: Norm) -> None:
    """What is convex lies above its tangents, and a projected step never turns back."""
    x, mask = sample(LENGTHS)
    losses: list[Tensor] = []

    def classify(tokens: Tensor, mask: Tensor) -> Tensor:
        bowl = (tokens * mask.unsqueeze(-1)).square().sum(dim=(1, 2))
        losses.append(bowl.detach())
        return torch.stack([torch.zeros_like(bowl), bowl - 1e3], dim=1)

    labels = torch.zeros(4, dtype=torch.long)
    points, _ = PGD(norm=norm, epsilon=0.5, steps=8, step_size=0.2)(classify, x, mask, labels)
    path = torch.stack(losses[:-1])
    assert torch.all(path[1:] >= path[:-1] - 1e-12)
    # The highest point of the ball: straight outwards, or the corner furthest out.
    real = x * mask.unsqueeze(-1)
    highest = (real.norm(dim=(1, 2)) + 0.5).square()
    if norm == "linf":
        highest = ((real.abs() + 0.5) * mask.unsqueeze(-1)).square().sum(dim=(1, 2))
    torch.testing.assert_close(losses[-1], highest)
    torch.testing.assert_close(moved(points, x, norm), torch.full((4,), 0.5, dtype=F64))


@pytest.mark.parametrize(
    ("classes", "loss", "restarts"),
    # With three classes the nearest boundary is not always the steepest one from the centre.
    [(2, "margin", 1), (2, "cross_entropy", 1), (3, "margin", 10)],
)
def test_finds_the_boundary_of_a_linear_model(classes: int, loss: Loss, restarts: int) -> None:
    model, (x, mask) = Bag(classes), sample([1, 3, 5, 2, 4, 4])
    labels, distance = model.distances(x, mask)
    attack = PGD(steps=40, restarts=restarts, loss=loss)
    for factor, expected in ((1 - 1e-6, False), (1.01, True)):
        _, found = attack(
            model, x, mask, labels, epsilon=factor * distance, seeds=list(range(len(x)))
        )
        assert found.tolist() == [expected] * len(x)


@pytest.mark.long
def test_points_found_are_misclassified() -> None:
    network, (x, mask) = curved(), sample([3] * 20)
    labels = network(x, mask).argmax(dim=1)
    points, found = PGD(epsilon=1.5, restarts=2)(network, x, mask, labels, seeds=list(range(20)))
    assert torch.equal(network(points, mask).argmax(dim=1) != labels, found)
    assert bool(found.any())
    assert not bool(found.all())


def test_samples_that_are_wrong_already_count_as_found() -> None:
    network, (x, mask) = curved(), sample([3, 3])
    labels = (network(x, mask).argmax(dim=1) + 1) % 3
    _, found = PGD(epsilon=0.0)(network, x, mask, labels)
    assert found.tolist() == [True, True]


def test_cross_entropy_does_not_step_over_a_misclassified_point() -> None:
    """Class 1 wins only on the way: at the far end the loss is larger and the label wins again."""
    x, mask = torch.zeros(1, 1, 1, dtype=F64), torch.ones(1, 1, dtype=torch.bool)

    def classify(tokens: Tensor, mask: Tensor) -> Tensor:
        t = tokens[:, 0, 0]
        bump = 1.0 - (2 * t - 1).square()  # beats the label around t = 1/2
        return torch.stack([0.5 + 0 * t, bump, 0.49 * t, 0.49 * t, 0.49 * t, 0.49 * t], dim=1)

    labels = torch.zeros(1, dtype=torch.long)
    _, found = PGD(epsilon=1.0, steps=5, step_size=0.25, loss="cross_entropy")(
        classify, x, mask, labels
    )
    assert found.tolist() == [True]


def test_margin_beats_saturated_cross_entropy() -> None:
    """Logits of huge scale: the gradient of the cross-entropy vanishes, the margin's does not."""
    model, (x, mask) = Bag(), sample([3, 3])
    labels, distance = model.distances(x, mask)
    with torch.no_grad():
        model.head.weight.mul_(1e5)
        model.head.bias.mul_(1e5)
    _, margin = PGD(steps=20)(model, x, mask, labels, epsilon=2 * distance)
    _, entropy = PGD(steps=20, loss="cross_entropy")(model, x, mask, labels, epsilon=2 * distance)
    assert margin.tolist() == [True, True]
    assert entropy.tolist() == [False, False]


@pytest.mark.long
@NORMS
@pytest.mark.parametrize("step_size", [None, 1e-3])
def test_seeds_make_results_independent_of_batch_and_padding(
    norm: Norm, step_size: float | None
) -> None:
    network, (x, mask) = curved(), sample(LENGTHS)
    labels = network(x, mask).argmax(dim=1)
    epsilon = 0.8 if norm == "l2" else 0.2
    attack = PGD(norm=norm, epsilon=epsilon, steps=3, restarts=4, step_size=step_size)
    points, found = attack(network, x, mask, labels, seeds=[10, 11, 12, 13])
    again, _ = attack(network, x, mask, labels, seeds=[10, 11, 12, 13])
    assert torch.equal(points, again)
    other, _ = attack(network, x, mask, labels, seeds=[20, 21, 22, 23])
    if step_size is not None:  # too short to climb: what counts is where one starts
        assert not torch.equal(points, other)
    for row, length in enumerate(LENGTHS):
        alone, flag = attack(
            network,
            x[row : row + 1, :length],
            mask[row : row + 1, :length],
            labels[row : row + 1],
            seeds=[10 + row],
        )
        torch.testing.assert_close(alone[0], points[row, :length], rtol=0, atol=1e-9)
        assert bool(flag) is bool(found[row])


def test_what_is_found_first_is_kept_whatever_the_others_need() -> None:
    """A sample found by the first restart is not improved on while others are still searched."""
    model, (x, mask) = Bag(), sample([2, 2])
    labels, distance = model.distances(x, mask)
    # One short step finds sample 0 from the centre; random starts further out have larger losses.
    attack = PGD(steps=1, restarts=8, step_size=1.5 * float(distance[0]))
    epsilon = torch.stack([5 * distance[0], 0.1 * distance[1]])
    points, found = attack(model, x, mask, labels, epsilon=epsilon, seeds=[1, 2])
    assert found.tolist() == [True, False]
    alone, _ = attack(model, x[:1], mask[:1], labels[:1], epsilon=epsilon[:1], seeds=[1])
    torch.testing.assert_close(points[:1], alone, rtol=0, atol=1e-12)


@pytest.mark.long
def test_more_restarts_never_lose() -> None:
    network, (x, mask) = curved(), sample([3] * 20)
    labels = network(x, mask).argmax(dim=1)
    counts = []
    for restarts in (1, 2, 6):
        attack = PGD(epsilon=0.9, steps=4, restarts=restarts)
        _, found = attack(network, x, mask, labels, seeds=list(range(20)))
        counts.append(found)
    assert torch.all(counts[0] <= counts[1])
    assert torch.all(counts[1] <= counts[2])
    assert bool(counts[0].any())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_runs_in_every_gradient_mode(mode: Any) -> None:
    network, (x, mask) = curved(), sample(LENGTHS)
    labels = network(x, mask).argmax(dim=1)
    attack, epsilon = PGD(steps=4, restarts=2), torch.full((4,), 0.8, dtype=F64)
    expected, flags = attack(network, x, mask, labels, epsilon=epsilon, seeds=[0, 1, 2, 3])
    with mode():
        inside = x.clone(), mask.clone(), labels.clone()
        found, found_flags = attack(network, *inside, epsilon=epsilon.clone(), seeds=[0, 1, 2, 3])
        assert torch.is_grad_enabled() is (mode is torch.enable_grad)
        assert torch.is_inference_mode_enabled() is (mode is torch.inference_mode)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert torch.equal(found_flags, flags)
    assert not found.requires_grad
    assert not found.is_inference()


@pytest.mark.parametrize("frozen", [True, False])
def test_parameters_and_inputs_are_left_alone(frozen: bool) -> None:
    network, (x, mask) = curved(), sample(LENGTHS)
    network.requires_grad_(not frozen)
    parameters = list(network.parameters())
    if not frozen:
        network(x, mask).sum().backward()
    grads = [None if p.grad is None else p.grad.clone() for p in parameters]
    values, given = [p.detach().clone() for p in parameters], x.clone()
    PGD(epsilon=0.5, steps=3, restarts=2)(network, x, mask, torch.zeros(4, dtype=torch.long))
    for parameter, grad, value in zip(parameters, grads, values, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.requires_grad is not frozen
        assert (parameter.grad is None) is (grad is None)
        assert grad is None or (parameter.grad is not None and torch.equal(parameter.grad, grad))
    assert torch.equal(x, given)
    assert not x.requires_grad


@pytest.mark.long
def test_epsilon_zero_moves_nothing() -> None:
    network, (x, mask) = curved(), sample(LENGTHS)
    labels = network(x, mask).argmax(dim=1)
    points, found = PGD(epsilon=0.0, restarts=3)(network, x, mask, labels, seeds=[0, 1, 2, 3])
    assert torch.equal(points, x)
    assert not bool(found.any())


def test_float64_radii_on_float32_tokens() -> None:
    """Certified radii are float64: the model must still see its own precision."""
    network, (x, mask) = curved().float(), sample(LENGTHS)
    seen: set[torch.dtype] = set()

    def classify(tokens: Tensor, mask: Tensor) -> Tensor:
        seen.add(tokens.dtype)
        logits: Tensor = network(tokens.float(), mask)
        return logits

    epsilon = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=F64)
    points, _ = PGD(steps=3, restarts=2)(
        classify, x.float(), mask, torch.zeros(4, dtype=torch.long), epsilon=epsilon
    )
    assert seen == {torch.float32}
    assert points.dtype == torch.float32
    assert torch.all(moved(points, x.float()) <= epsilon * (1 + 1e-5))


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"steps": 0},
        {"restarts": 0},
        {"step_size": 0.0},
        {"step_size": math.nan},
    ],
)
def test_settings_that_make_no_attack(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        PGD(**settings)
