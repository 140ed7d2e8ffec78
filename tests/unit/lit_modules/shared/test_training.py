"""Training in every precision and way: finite, repeatable, and every parameter takes part."""

import copy
import math
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attacks import PGD
from lit_modules import TaskModule
from lit_modules.shared.optimisation import Optimisation
from tests.unit.lit_modules.builders import (
    EVERY_METHOD,
    FEW,
    METHODS,
    PAIRS,
    SINGLE,
    Build,
    attached,
    batch_of,
    loader,
    olsa,
    plain,
    trainer,
)

# Most other tests fit in 32-true.
PRECISIONS = pytest.mark.parametrize(
    "precision",
    [
        pytest.param("32-true", marks=pytest.mark.slow),
        pytest.param("64-true", marks=pytest.mark.slow),
        "bf16-mixed",
    ],
)


def fit(module: TaskModule, epochs: int = 2, **settings: Any) -> dict[str, Tensor]:
    """A short fit and test; what they logged."""
    module.train()
    module.test_attack = PGD(steps=2)
    train, evaluate = loader(module, SINGLE, 2), loader(module, SINGLE, 4)
    run = trainer(max_epochs=epochs, **settings)
    run.fit(module, train, evaluate)
    metrics = dict(run.callback_metrics)
    run.test(module, evaluate, verbose=False)
    return {**metrics, **run.callback_metrics}


def objective(module: TaskModule) -> Tensor:
    pairs = module.pairs
    batch = batch_of(module, PAIRS if pairs else SINGLE)
    assert batch.labels is not None
    module.plain.total_steps = lambda: 0  # type: ignore[method-assign] # no trainer: a run without end
    return module.loss(module(batch), batch.labels)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("build", METHODS.values(), ids=METHODS.keys())
def test_every_trainable_parameter_gets_a_gradient(build: Build, pairs: bool) -> None:
    """Distributed training waits for ever for a parameter without one."""
    module = attached(build, pairs=pairs).train()
    objective(module).backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert bool(torch.isfinite(parameter.grad).all()), name
            # The positions of a bag say nothing of its classes, but its head must learn.
            assert bool(parameter.grad.any()) or "norm" in name or "alpha" in name, name


@pytest.mark.parametrize("loss", ["cross_entropy", "hinge"])
def test_gradients_of_one_token_texts(loss: str) -> None:
    """A single token has constant attention weights: still a gradient for all, and finite."""
    module = attached(olsa(depth=2, loss=loss, offset_heads=2, value_clip=1.0)).train()
    batch = batch_of(module, ["good", "bad"])
    assert batch.labels is not None
    module.plain.total_steps = lambda: 0  # type: ignore[method-assign] # as above
    module.loss(module(batch), batch.labels).backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    for parameter in module.parameters():
        assert parameter.grad is not None
        assert bool(torch.isfinite(parameter.grad).all())


def test_backbone_gets_none(bert: str) -> None:
    module = attached(olsa(backbone=bert, max_length=30)).train()
    objective(module).backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    assert isinstance(module.embedding, nn.Module)
    assert all(p.grad is None for p in module.embedding.parameters())
    assert all(p.grad is not None for p in module.network.parameters())


@pytest.mark.long
@PRECISIONS
@EVERY_METHOD
def test_every_precision(build: Build, precision: str) -> None:
    metrics = fit(attached(build), epochs=1, precision=precision)
    assert all(math.isfinite(value) for value in metrics.values()), metrics
    assert {"train/loss", "val/loss", "test/accuracy", "test/pgd_accuracy"} <= metrics.keys()


@pytest.mark.long
@PRECISIONS
def test_backbone_in_every_precision(bert: str, precision: str) -> None:
    module = attached(olsa(backbone=bert, max_length=30, cache=True))
    metrics = fit(module, epochs=1, precision=precision)
    assert all(math.isfinite(value) for value in metrics.values())


def test_certificates_need_full_precision() -> None:
    with pytest.raises(ValueError, match="got precision bf16-true, expected 32-true, 64-true"):
        fit(attached(olsa()), precision="bf16-true")
    assert math.isfinite(fit(attached(plain()), precision="bf16-true")["val/loss"])


def test_no_logging_at_all() -> None:
    assert "train/accuracy" not in fit(attached(olsa()), log_every_n_steps=0)


@pytest.mark.long
def test_what_training_logs() -> None:
    metrics = fit(attached(olsa(depth=2, loss="cross_entropy")), log_every_n_steps=1)
    assert {"train/accuracy", "train/gamma", "alpha_1/layer_1", "alpha_2/layer_2"} <= metrics.keys()


@pytest.mark.parametrize("build", [olsa(gamma=0.0, loss="cross_entropy"), plain(dropout=0.0)])
def test_accumulated_gradients_are_those_of_the_large_batch(build: Build) -> None:
    def trained(size: int, accumulate: int) -> dict[str, Tensor]:
        module = attached(lambda: build_with_sgd(build)).train()
        data = loader(module, [*SINGLE, "fine"], size)
        run = trainer(max_epochs=1, accumulate_grad_batches=accumulate)
        run.fit(module, data, data)
        return module.state_dict()

    large, small = trained(4, 1), trained(2, 2)
    for name, value in large.items():
        torch.testing.assert_close(small[name], value, rtol=1e-5, atol=1e-6)


def build_with_sgd(build: Build) -> TaskModule:
    module = build()
    module.optimisation = Optimisation(optimizer=partial(torch.optim.SGD, lr=0.1))
    return module


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("build", FEW, ids=["olsa", "transformer", "mean"])
def test_same_seed_same_weights(build: Build) -> None:
    def run() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        torch.manual_seed(3)
        module = attached(build, seed=3)
        return fit(module), module.state_dict()

    (metrics, weights), (metrics_again, weights_again) = run(), run()
    assert metrics.keys() == metrics_again.keys()
    assert all(torch.equal(metrics[name], metrics_again[name]) for name in metrics)
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)


@pytest.mark.long
@pytest.mark.parametrize("build", FEW, ids=["olsa", "transformer", "mean"])
def test_copies_and_pickles(build: Build) -> None:
    """What spawned processes get."""
    module = attached(build)
    fit(module)
    module.eval()
    expected = module.predict_texts(SINGLE)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(again.predict_texts(SINGLE), expected)
        assert again.require_text()[1] == module.class_names
        fit(again)
        assert not torch.equal(again.eval().predict_texts(SINGLE), expected)
    assert torch.equal(module.predict_texts(SINGLE), expected)


def test_frozen_gives_back_what_it_took(bert: str) -> None:
    module = attached(olsa(backbone=bert, max_length=30))
    before = {name: p.requires_grad for name, p in module.named_parameters()}
    assert set(before.values()) == {True, False}
    with module.frozen():
        assert not any(p.requires_grad for p in module.parameters())
    assert {name: p.requires_grad for name, p in module.named_parameters()} == before
    with pytest.raises(ZeroDivisionError), module.frozen():
        raise ZeroDivisionError
    assert {name: p.requires_grad for name, p in module.named_parameters()} == before


@pytest.mark.long
def test_attack_in_a_test_step_leaves_no_trace() -> None:
    module = attached(olsa())
    fit(module)
    assert all(p.requires_grad for p in module.parameters())
    weights = copy.deepcopy(module.state_dict())
    run = trainer(inference_mode=True)
    run.test(module, loader(module, SINGLE, 4), verbose=False)
    assert all(torch.equal(module.state_dict()[name], value) for name, value in weights.items())
    fit(module)  # nothing made under inference mode is left
