"""Adversaries in the space of embeddings, against closed forms and plain loops."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from attacks.embeddings.pgd import frobenius, steepest
from layers.divergence import divergence, symmetric_divergence
from layers.noise import sample_seeds
from lit_modules import TaskModule
from lit_modules.adversaries import (
    SMART,
    TAVAT,
    FGSMAdversary,
    FreeLB,
    FreeLBPlus,
    InnerProblem,
    PGDAdversary,
    RanMASK,
    RDrop,
    TemperatureScaling,
    VirtualAdversary,
)
from lit_modules.adversaries.adversary import Adversary
from tests.unit.lit_modules.builders import METHODS, SINGLE, attached, batch_of

EVERY: dict[str, Adversary] = {
    "pgd": PGDAdversary(epsilon=0.5, steps=2),
    "pgd, clean": PGDAdversary(epsilon=0.5, steps=2, clean_weight=0.3),
    "pgd, linf, random": PGDAdversary(epsilon=0.1, norm="linf", random_start=True),
    "pgd, margin": PGDAdversary(inner_loss="margin", clean_weight=0.5),
    "fgsm": FGSMAdversary(epsilon=0.1),
    "freelb": FreeLB(steps=3, epsilon=0.7),
    "freelb, linf": FreeLB(steps=2, norm="linf", initial_size=0.1, step_size=0.05),
    "smart": SMART(epsilon=0.1, step_size=0.1, noise=1e-3, bregman=0),
    "smart, l2": SMART(epsilon=0.5, step_size=0.5, norm="l2", steps=2, bregman=0),
    "smart, released": SMART(released=True),
    "virtual": VirtualAdversary(epsilon=0.5, steps=2),
    "freelb++": FreeLBPlus(steps=4, step_size=0.2),
    "tavat": TAVAT(steps=3, epsilon=0.7),
    "rdrop": RDrop(alpha=2.0),
    "ranmask": RanMASK(rate=0.5, votes=3),
    "temperature": TemperatureScaling(temperature=3.0, entropy=0.2),
}


def problem_of(module: TaskModule, **settings: Any) -> InnerProblem:
    batch = batch_of(module, SINGLE)
    assert batch.labels is not None
    seeds = sample_seeds(batch.sample_ids, seed=0, epoch=0)
    return InnerProblem(
        classifier=module, batch=batch, labels=batch.labels, seeds=seeds, **settings
    )


def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call] # of torch
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def assert_same(
    first: dict[str, Tensor], second: dict[str, Tensor], *, rtol: float = 1e-4, atol: float = 1e-6
) -> None:
    assert first.keys() == second.keys()
    assert first
    for name, gradient in first.items():
        torch.testing.assert_close(gradient, second[name], rtol=rtol, atol=atol)


class Convex(TaskModule):
    """Cross-entropy of a linear function of the mean token: convex in the perturbation."""

    def __init__(self, width: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(50, width)
        self.linear = nn.Linear(width, classes)

    def embed(self, batch: Any) -> Tensor:
        found: Tensor = self.words(batch.input_ids)
        return found

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1)
        logits: Tensor = self.linear((x * real).sum(dim=1) / real.sum(dim=1))
        return logits


def convex() -> InnerProblem:
    torch.manual_seed(0)
    module = Convex()
    tokens = attached(METHODS["transformer"])
    batch = batch_of(tokens, SINGLE)
    assert batch.labels is not None
    seeds = sample_seeds(batch.sample_ids, seed=0, epoch=0)
    return InnerProblem(classifier=module, batch=batch, labels=batch.labels, seeds=seeds)


@pytest.mark.parametrize("name", ["transformer", "olsa", "mean"])
def test_freelb_of_one_step_without_start_is_plain_training(name: str) -> None:
    module = attached(METHODS[name]).train()
    torch.manual_seed(3)
    batch = batch_of(module, SINGLE)
    assert batch.labels is not None
    logits = module(batch)
    plain = functional.cross_entropy(logits, batch.labels)
    expected = gradients(module, plain)
    torch.manual_seed(3)
    problem = problem_of(module)
    problem.loss = lambda logits: functional.cross_entropy(logits, problem.labels)  # type: ignore[method-assign] # OLSA's asks a trainer
    result = FreeLB(steps=1, initial_size=0, step_size=0).step(problem)
    assert result.loss.item() == pytest.approx(plain.item(), abs=1e-7)
    assert_same(gradients(module, result.loss), expected, rtol=1e-6, atol=1e-8)


def test_freelb_against_a_plain_loop() -> None:
    """Zhu et al., 2020, algorithm 1, written out with backward()."""
    module = attached(METHODS["transformer"])
    problem = problem_of(module)
    batch, labels = problem.batch, problem.labels
    adversary = FreeLB(steps=3, step_size=0.3, initial_size=0.5, epsilon=0.6)
    actual = gradients(module, adversary.step(problem).loss)

    module.zero_grad(set_to_none=True)
    delta = adversary._start(problem, module.embed(batch))
    assert frobenius(delta).max() <= 0.5
    for _ in range(3):
        delta = delta.detach().requires_grad_()
        loss = functional.cross_entropy(
            module.classify(module.embed(batch) + delta, batch.mask), labels
        )
        (loss / 3).backward()  # type: ignore[no-untyped-call] # of torch
        assert delta.grad is not None
        step = delta.grad * batch.mask.unsqueeze(-1)
        rows = []
        for row, g in zip(delta.detach(), step, strict=True):
            moved = row + 0.3 * g / g.norm()
            rows.append(moved * min(1.0, 0.6 / moved.norm().item()))
        delta = torch.stack(rows)
    expected = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    assert_same(actual, expected)


def test_pgd_rises_along_its_steps_on_a_convex_loss() -> None:
    problem = convex()
    x = problem.embed().detach()
    before = -1.0
    for steps in range(1, 8):
        adversary = PGDAdversary(epsilon=3.0, steps=steps, step_size=0.2)
        delta = adversary._perturbation(problem, None)
        value = problem.loss(problem.classify(x + delta)).item()
        assert value > before
        before = value


def test_pgd_finds_the_worst_point_of_a_linear_function() -> None:
    """Two classes: the loss rises along one direction, the difference of the two rows."""
    problem = convex()
    module = problem.classifier
    assert isinstance(module, Convex)
    module.linear = nn.Linear(6, 2)
    problem.labels = problem.labels % 2
    delta = PGDAdversary(epsilon=0.5, steps=1)._perturbation(problem, None)
    direction = module.linear.weight[1] - module.linear.weight[0]
    for row, label, mask in zip(delta, problem.labels, problem.mask, strict=True):
        sign = 1 if label == 0 else -1
        expected = sign * direction / direction.norm() / mask.sum().sqrt() * 0.5
        torch.testing.assert_close(row[mask], expected.expand(int(mask.sum()), 6))
        assert not row[~mask].any()


@pytest.mark.parametrize("adversary", EVERY.values(), ids=EVERY.keys())
def test_padding_never_moves_and_the_model_is_as_it_was(adversary: Adversary) -> None:
    module = attached(METHODS["transformer"]).train()
    problem = problem_of(module)
    seen = []
    classify = module.classify

    def watched(x: Tensor, mask: Tensor) -> Tensor:
        seen.append((x.detach() - module.embed(problem.batch).detach())[~mask].abs().max().item())
        return classify(x, mask)

    module.classify = watched  # type: ignore[method-assign] # to look on
    result = adversary.step(problem)
    assert max(seen) == 0
    assert all(p.requires_grad and p.grad is None for p in module.parameters())
    assert module.training
    assert {"clean_loss", "adversarial_loss", "accuracy"} <= result.values.keys()
    part, total = result.ratios["attack_success"]
    assert 0 <= part <= total <= 1


@pytest.mark.parametrize("adversary", EVERY.values(), ids=EVERY.keys())
def test_a_sample_does_not_depend_on_its_batch(adversary: Adversary) -> None:
    """In double precision, without dropout: alone, and padded among others."""
    module = attached(METHODS["transformer"]).double()
    problem = problem_of(module, logs=False)
    total = gradients(module, adversary.step(problem).loss)
    parts: list[dict[str, Tensor]] = []
    for row in range(len(SINGLE)):
        batch = module.encode_texts(SINGLE[row : row + 1])
        batch.sample_ids = problem.batch.sample_ids[row : row + 1]
        seeds = sample_seeds(batch.sample_ids, seed=0, epoch=0)
        one = InnerProblem(
            classifier=module,
            batch=batch,
            labels=problem.labels[row : row + 1],
            seeds=seeds,
            logs=False,
        )
        parts.append(gradients(module, adversary.step(one).loss))
    for name, expected in total.items():
        mean = sum(part[name] for part in parts) / len(parts)
        torch.testing.assert_close(torch.as_tensor(mean), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("adversary", EVERY.values(), ids=EVERY.keys())
def test_logging_a_step_changes_no_later_dropout(adversary: Adversary) -> None:
    states = []
    for logs in (True, False):
        module = attached(METHODS["transformer"]).train()
        torch.manual_seed(3)
        adversary.step(problem_of(module, logs=logs))
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("steps", [1, 4])
def test_smart_stays_in_its_ball(norm: Any, steps: int) -> None:
    module = attached(METHODS["transformer"])
    problem = problem_of(module)
    adversary = SMART(epsilon=0.2, norm=norm, steps=steps, step_size=5.0, noise=1.0)
    delta = adversary.perturbation(problem, module(problem.batch).detach())
    size = frobenius(delta).amax() if norm == "l2" else delta.abs().amax()
    assert size <= 0.2 * (1 + 1e-6)
    assert size >= 0.2 * (1 - 1e-4)


def test_released_smart_leaves_any_ball() -> None:
    """The largest entry of every token becomes 1, whatever the settings are."""
    module = attached(METHODS["transformer"])
    problem = problem_of(module)
    adversary = SMART(released=True, noise=1e-2, epsilon=1e-5)
    delta = adversary.perturbation(problem, module(problem.batch).detach())
    largest = delta.abs().amax(dim=-1)[problem.mask]
    torch.testing.assert_close(largest, torch.ones_like(largest), rtol=1e-3, atol=0)


def test_smart_loss_by_hand() -> None:
    module = attached(METHODS["transformer"])
    problem = problem_of(module)
    adversary = SMART(epsilon=0.2, step_size=0.2, noise=1e-2, weight=2.0, bregman=0)
    result = adversary.step(problem)
    clean = module(problem.batch)
    delta = adversary.perturbation(problem, clean.detach())
    logits = module.classify(module.embed(problem.batch) + delta, problem.mask)
    p, q = clean.softmax(dim=1), logits.softmax(dim=1)
    both = ((p - q) * (p.log() - q.log())).sum(dim=1).mean()
    expected = functional.cross_entropy(clean, problem.labels) + 2 * both
    assert result.loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_divergences_by_torch() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(2, 5, 4, dtype=torch.float64)
    p, q = first.log_softmax(1), second.log_softmax(1)
    expected = functional.kl_div(q, p, reduction="none", log_target=True).sum(dim=1)
    torch.testing.assert_close(divergence(first, second), expected)
    back = functional.kl_div(p, q, reduction="none", log_target=True).sum(dim=1)
    torch.testing.assert_close(symmetric_divergence(first, second), expected + back)


def test_virtual_adversary_looks_along_the_first_eigenvector() -> None:
    """The divergence is about r'Hr / 2; a linear model of two classes has H of rank 1."""
    problem = convex()
    module = problem.classifier
    assert isinstance(module, Convex)
    module.linear = nn.Linear(6, 2)
    adversary = VirtualAdversary(epsilon=0.3, steps=1, xi=1e-2)
    fixed = problem.classify(problem.embed()).detach()
    delta = adversary._perturbation(problem, fixed)
    direction = module.linear.weight[1] - module.linear.weight[0]
    for row, mask in zip(delta, problem.mask, strict=True):
        per_token = row[mask]
        cosine = functional.cosine_similarity(per_token, direction.expand_as(per_token), dim=1)
        torch.testing.assert_close(cosine.abs(), torch.ones_like(cosine), rtol=1e-2, atol=0)
        assert row.norm().item() == pytest.approx(0.3, rel=1e-4)


@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_fgsm_is_the_thesis_loss(alpha: float) -> None:
    """Equation 2.18: alpha J(x) + (1 - alpha) J(x + epsilon sign of the gradient)."""
    module = attached(METHODS["transformer"])
    problem = problem_of(module)
    result = FGSMAdversary(epsilon=0.05, clean_weight=alpha).step(problem)
    got = gradients(module, result.loss)

    x = module.embed(problem.batch)
    clean = functional.cross_entropy(module.classify(x, problem.mask), problem.labels)
    point = x.detach().requires_grad_()
    probe = functional.cross_entropy(module.classify(point, problem.mask), problem.labels)
    (g,) = torch.autograd.grad(probe, point)
    eta = 0.05 * g.sign() * problem.mask.unsqueeze(-1)
    moved = functional.cross_entropy(
        module.classify(module.embed(problem.batch) + eta, problem.mask), problem.labels
    )
    expected = alpha * clean + (1 - alpha) * moved
    assert result.loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert_same(got, gradients(module, expected))


def test_dropout_is_the_same_in_all_passes() -> None:
    module = attached(METHODS["transformer"]).train()
    problem = problem_of(module)
    torch.manual_seed(1)
    x = problem.embed()
    first = problem.classify(x)
    torch.rand(3)  # somebody else's
    assert torch.equal(problem.classify(problem.embed()), first)
    # Another batch drops others.
    assert not torch.equal(problem_of(module).classify(x), first)


def test_inner_passes_under_half_precision_leave_the_gradients_alone() -> None:
    """Weights cast without a graph are not used again (torch keeps such casts)."""
    module = attached(METHODS["transformer"])
    for adversary in (PGDAdversary(), SMART(epsilon=0.1, bregman=0), VirtualAdversary()):
        twin = copy.deepcopy(module)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = adversary.step(problem_of(twin))
        got = gradients(twin, result.loss)
        assert got.keys() == {name for name, p in twin.named_parameters() if p.requires_grad}


@pytest.mark.long
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_scaled_losses_change_nothing(scale: float) -> None:
    module = attached(METHODS["transformer"])
    for adversary in EVERY.values():
        plain = gradients(module, adversary.step(problem_of(module)).loss)
        scaled = gradients(module, adversary.step(problem_of(module, scale=scale)).loss)
        assert_same(plain, scaled)


@pytest.mark.parametrize("adversary", EVERY.values(), ids=EVERY.keys())
def test_a_gradient_that_overflows_is_no_step(adversary: Adversary) -> None:
    """As the first ones in 16-mixed precision, before the gradient scaler has its scale."""
    problem = problem_of(attached(METHODS["transformer"]), scale=torch.inf)
    assert adversary.step(problem).loss.isfinite()
    assert all(memory.isfinite().all() for memory in problem.memory.values())


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_only_samples_that_overflow_take_no_step(norm: Any) -> None:
    gradient = torch.tensor([[[1.0, -2.0]], [[torch.inf, 1.0]], [[torch.nan, 1.0]]])
    step = steepest(gradient, norm)
    assert torch.equal(step[:1], steepest(gradient[:1], norm))
    assert step[0].all()
    assert not step[1:].any()


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: PGDAdversary(epsilon=-1), "epsilon"),
        (lambda: PGDAdversary(steps=0), "steps"),
        (lambda: PGDAdversary(step_size=0), "step_size"),
        (lambda: PGDAdversary(clean_weight=1), "clean_weight"),
        (lambda: PGDAdversary(inner_loss="kl"), "inner_loss"),  # type: ignore[arg-type] # is wrong
        (lambda: FGSMAdversary(norm="l1"), "norm"),  # type: ignore[arg-type] # is wrong
        (lambda: FreeLB(steps=0), "steps"),
        (lambda: FreeLB(epsilon=0), "epsilon"),
        (lambda: FreeLB(step_size=float("nan")), "step_size"),
        (lambda: SMART(noise=0), "noise"),
        (lambda: SMART(average_decay=[1.0, 0.5]), "average_decay"),
        (lambda: SMART(norm="l2", released=True), "released"),
        (lambda: VirtualAdversary(xi=0), "xi"),
        (lambda: VirtualAdversary(steps=0), "steps"),
        (lambda: FreeLBPlus(steps=0), "steps"),
        (lambda: TAVAT(steps=0), "steps"),
        (lambda: TAVAT(epsilon=0), "epsilon"),
        (lambda: RDrop(alpha=-1), "alpha"),
        (lambda: RanMASK(rate=1), "rate"),
        (lambda: RanMASK(votes=-1), "votes"),
        (lambda: TemperatureScaling(temperature=0), "temperature"),
        (lambda: TemperatureScaling(entropy=-1), "entropy"),
    ],
)
def test_settings_that_make_no_sense(make: Any, part: str) -> None:
    with pytest.raises(ValueError, match=f"got .*{part}.*expected"):
        make()
