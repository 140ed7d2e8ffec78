"""Metrics are means over samples, whatever the batches."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attacks import PGD
from certify import certify
from layers import LipschitzClassifier
from lit_modules import TaskModule
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.weight_schedule import WeightSchedule
from tests.unit.lit_modules.builders import (
    EVERY_METHOD,
    METHODS,
    SINGLE,
    Build,
    attached,
    batch_of,
    loader,
    olsa,
    plain,
    trainer,
)
from text import Batch


@pytest.mark.long
@EVERY_METHOD
def test_weighted_over_uneven_batches(build: Build) -> None:
    module = attached(build)
    module.test_attack = PGD(epsilon=0.5, steps=3)
    scores = []
    for size in (3, 7):  # 3 + 3 + 1, and all at once
        data, run = loader(module, SINGLE, size), trainer()
        run.validate(module, data, verbose=False)
        logged = dict(run.callback_metrics)
        run.test(module, data, verbose=False)
        scores.append({**logged, **run.callback_metrics})
    assert scores[0].keys() == scores[1].keys()
    for name, value in scores[0].items():
        torch.testing.assert_close(value, scores[1][name], rtol=1e-5, atol=1e-6)
    batch = batch_of(module, SINGLE)
    assert batch.labels is not None
    with torch.no_grad():
        logits = module(batch)
    right = logits.argmax(dim=1) == batch.labels
    expected = torch.nn.functional.cross_entropy(logits, batch.labels)
    torch.testing.assert_close(scores[0]["val/loss"], expected, rtol=1e-5, atol=1e-6)
    assert scores[0]["test/accuracy"].item() == pytest.approx(right.float().mean().item())
    assert scores[0]["test/pgd_accuracy"] <= scores[0]["test/accuracy"]
    if "val/radius" in scores[0]:
        prediction, rows = logits.argmax(dim=1), torch.arange(len(batch))
        assert isinstance(module.network, LipschitzClassifier)
        head = module.network.head.weight.detach()
        gaps = logits[rows, prediction][:, None] - logits
        distances = torch.cdist(head[prediction], head)
        radius = torch.where(gaps > 0, gaps / distances, torch.inf).amin(dim=1)
        assert scores[0]["val/radius"].item() == pytest.approx(radius.mean().item(), rel=1e-4)
        correct = (radius * right).mean().item()
        assert scores[0]["val/radius_correct"].item() == pytest.approx(correct, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("build", [olsa(depth=2, feedforward=True), plain(encoder="mean")])
def test_radius_is_that_of_the_certificate(build: Build) -> None:
    """The metric of training is the certificate, but for rounding and the last digits of alpha."""
    module = attached(build)
    batch = batch_of(module, SINGLE)
    with torch.no_grad():
        radius = module.evaluate(batch)["radius"]
    certified = certify(module, batch).radius
    torch.testing.assert_close(radius.double(), certified, rtol=1e-3, atol=1e-5)


def test_methods_without_certificate_have_no_radius() -> None:
    module = attached(plain())
    assert module.evaluate(batch_of(module, SINGLE)).keys() == {"loss", "accuracy"}


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("olsa", True),  # a hinge on the radius
        ("olsa, paper", True),  # a reward on the margin
        ("mean", True),
        ("olsa, freelb", True),  # that of its classifier
        ("transformer", False),
        ("transformer, smart", False),
    ],
)
def test_the_objective_stands_beside_the_loss(name: str, own: bool) -> None:
    """Where training minimises something else than cross-entropy, evaluations show both."""
    module = attached(METHODS[name])
    batch = batch_of(module, SINGLE)
    with torch.no_grad():
        logits = module(batch)
        assert batch.labels is not None
        expected = module.loss(logits, batch.labels)
    cross_entropy = torch.nn.functional.cross_entropy(logits, batch.labels)
    run = trainer()
    run.validate(module, loader(module, SINGLE, 3), verbose=False)
    metrics = dict(run.callback_metrics)
    run.test(module, loader(module, SINGLE, 3), verbose=False)
    metrics |= run.callback_metrics
    for stage in ("val", "test"):
        torch.testing.assert_close(metrics[f"{stage}/loss"], cross_entropy)
        assert (f"{stage}/objective" in metrics) == own
        if own:
            torch.testing.assert_close(metrics[f"{stage}/objective"], expected)
    assert own == (not torch.allclose(expected, cross_entropy))


def test_cross_entropy_without_reward_is_no_objective_of_its_own() -> None:
    module = attached(olsa(loss="cross_entropy", gamma=0.0))
    assert "objective" not in module.metric_names


@pytest.mark.long
def test_the_objective_follows_gamma() -> None:
    """Within a fit it is what is minimised then; after it the last gamma counts."""
    objective = RadiusObjective(gamma=2.0, schedule=WeightSchedule(shape="linear"))
    module = attached(olsa(objective=objective, optimizer=still))
    data, run = loader(module, SINGLE, 3), trainer(max_epochs=2, num_sanity_val_steps=0)
    values = []
    module.on_validation_end = lambda: values.append(  # type: ignore[method-assign] # only listens
        run.callback_metrics["val/objective"].item()
    )
    run.fit(module.train(), data, data)
    run.validate(module, data, verbose=False)
    first, second, after = values
    assert second < first  # the reward has risen
    assert after == pytest.approx(second, rel=1e-5)


def still(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.0)


def test_nan_is_seen() -> None:
    """A diverged model must not look fine because its NaN are left out of the mean."""
    module = attached(plain())
    classify = module.classify

    def diverged(x: Tensor, mask: Tensor) -> Tensor:
        logits = classify(x, mask)
        return torch.cat([logits[:1] * math.nan, logits[1:]])

    module.classify = diverged  # type: ignore[method-assign] # a model for one test
    run = trainer()
    run.validate(module, loader(module, SINGLE, 3), verbose=False)
    assert math.isnan(run.callback_metrics["val/loss"])


def test_metrics_start_anew_every_epoch() -> None:
    module = attached(plain())
    first, second = loader(module, SINGLE[:3], 2), loader(module, SINGLE[3:], 2)
    run = trainer()
    run.validate(module, first, verbose=False)
    run.validate(module, second, verbose=False)
    after = run.callback_metrics["val/loss"]
    fresh = trainer()
    fresh.validate(module, second, verbose=False)
    assert torch.equal(after, fresh.callback_metrics["val/loss"])


def test_predictions() -> None:
    module = attached(olsa())
    outputs = trainer().predict(module, loader(module, SINGLE, 3))
    assert outputs is not None
    rows: list[dict[str, Tensor]] = [output for output in outputs if isinstance(output, dict)]
    assert torch.cat([row["sample_ids"] for row in rows]).tolist() == list(range(len(SINGLE)))
    logits = torch.cat([row["logits"] for row in rows])
    torch.testing.assert_close(logits, module.predict_texts(SINGLE))
    assert torch.equal(torch.cat([row["prediction"] for row in rows]), logits.argmax(dim=1))


def test_unlabelled_batches_can_be_predicted() -> None:
    module: TaskModule = attached(olsa())
    batch: Batch = module.encode_texts(SINGLE)
    assert module.predict_step(batch, 0)["logits"].shape == (len(SINGLE), 3)
