"""Learning rates: warm-up, decay, and the schedulers of the command line."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_lightning.cli import ReduceLROnPlateau
from torch.optim.lr_scheduler import LRScheduler, StepLR
from torch.optim.lr_scheduler import ReduceLROnPlateau as TorchReduceLROnPlateau

from lit_modules import (
    ASA,
    OLSA,
    AdversarialTraining,
    TaskModule,
    TextCNN,
    TextModule,
    WordRobustness,
    WordScores,
)
from lit_modules.adversaries import SMART
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.schedule import Decay, learning_rate_factor
from lit_modules.shared.weight_schedule import WeightSchedule
from tests.unit.lit_modules.builders import SINGLE, attached, loader, make, plain, trainer
from tests.unit.lit_modules.shared.test_unused import BERT

DECAYS: tuple[Decay, ...] = ("none", "linear", "cosine")


def factors(warmup: float, decay: Decay, total: int) -> list[float]:
    factor = learning_rate_factor(total, warmup=warmup, decay=decay)
    return [factor(step) for step in range(total + 1)]


@given(st.floats(0, 1), st.sampled_from(DECAYS), st.integers(1, 300))
def test_factor_is_a_share_and_has_no_jumps(warmup: float, decay: Decay, total: int) -> None:
    actual = factors(warmup, decay, total)
    assert all(0 <= value <= 1 for value in actual)
    rising, falling = 1 / (warmup * total + 1), 1 / max(1e-9, (1 - warmup) * total)
    steepest = max(rising, 0 if decay == "none" else falling * math.pi / 2)
    gaps = [abs(a - b) for a, b in itertools.pairwise(actual)]
    # One step may end the warm-up and begin the decay.
    assert max(gaps) <= min(1.0, rising + steepest) + 1e-9
    assert all(value > 0 for value in actual[:-1])  # no step of the run is wasted


@pytest.mark.parametrize("decay", DECAYS)
def test_factor_at_the_ends(decay: Decay) -> None:
    found = factors(0.1, decay, 100)
    assert found[0] == pytest.approx(1 / 11)
    assert found[9] == pytest.approx(10 / 11)
    assert found[10] == pytest.approx(1.0)
    assert found[:11] == sorted(found[:11])
    assert found[10:] == sorted(found[10:], reverse=True)
    half = {"none": 1.0, "linear": 0.5, "cosine": 0.5}[decay]
    assert found[55] == pytest.approx(half)
    assert found[100] == pytest.approx(1.0 if decay == "none" else 0.0, abs=1e-12)
    assert factors(0.0, decay, 10)[0] == 1.0


def test_only_warm_up_and_no_end() -> None:
    assert factors(1.0, "linear", 4) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert factors(0.5, "cosine", 0) == [1.0]


def test_warm_up_in_steps() -> None:
    """As the UniBERT paper has it (Table 6): 500 steps, however long the run is."""
    for total in (1000, 4000):
        found = factors(500, "linear", total)
        assert found[:500] == pytest.approx([(step + 1) / 501 for step in range(500)])
        assert found[500] == 1.0
        assert found[500:] == sorted(found[500:], reverse=True)
        assert found[total] == pytest.approx(0.0, abs=1e-12)
    assert factors(500, "linear", 100)[99] == pytest.approx(100 / 501)
    endless = learning_rate_factor(0, warmup=3, decay="linear")
    assert [endless(step) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]


@pytest.mark.parametrize("warmup", [-0.1, 1.1, math.nan, math.inf])
def test_warm_up_is_a_share_or_a_number_of_steps(warmup: float) -> None:
    with pytest.raises(ValueError, match=r"expected the share of all steps, 0 \.\.\. 1"):
        plain(warmup=warmup)()


def rates(module: TaskModule, **settings: Any) -> list[float]:
    """The learning rate of each training batch."""
    seen: list[float] = []
    step = module.training_step

    def spy(batch: Any, batch_idx: int) -> torch.Tensor:
        optimizer = module.optimizers()
        assert not isinstance(optimizer, list)
        seen.append(optimizer.param_groups[0]["lr"])
        return step(batch, batch_idx)

    module.training_step = spy  # type: ignore[method-assign] # only listened to
    data = loader(module, [*SINGLE, "fine"], 2)
    trainer(**settings).fit(module.train(), data, data)
    return seen


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0)


def test_steps_of_a_real_run() -> None:
    module = attached(plain(optimizer=sgd, warmup=0.25, decay="linear"))
    assert rates(module, max_epochs=2) == pytest.approx(
        [1 / 3, 2 / 3, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    )
    module = attached(plain(optimizer=sgd, warmup=0.5, decay="linear"))
    actual = rates(module, max_epochs=2, accumulate_grad_batches=2)
    assert actual == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3, 1, 1, 0.5, 0.5])


@pytest.mark.long
def test_a_warm_up_longer_than_the_run_is_told(caplog: pytest.LogCaptureFixture) -> None:
    actual = rates(attached(plain(optimizer=sgd, warmup=9.0)), max_epochs=2)
    assert actual == pytest.approx([(step + 1) / 10 for step in range(8)])
    assert "got a warm-up of 9 steps in a run of 8" in caplog.text
    caplog.clear()
    rates(attached(plain(optimizer=sgd, warmup=1.0)), max_epochs=1)
    assert "warm-up" not in caplog.text


ENDLESS: dict[str, Any] = {"max_epochs": -1, "max_time": {"seconds": 0}}


def test_run_without_end_keeps_its_rate() -> None:
    module = attached(plain(optimizer=sgd, warmup=0.0, decay="none"))
    assert set(rates(module, **ENDLESS)) <= {1.0}
    module = attached(plain(optimizer=sgd, warmup=2.0, decay="inverse_sqrt"))
    assert set(rates(module, **ENDLESS)) <= {0.5}


LINEAR = WeightSchedule(shape="linear")
REWARD = RadiusObjective(gamma=1.0, schedule=LINEAR)
HINGE = RadiusObjective(loss="hinge")
RATE = Optimisation()
LASTING: list[tuple[Callable[[], TextModule], dict[str, str]]] = [
    (plain(warmup=0.1, decay="none"), {"optimisation.warmup": "0"}),
    (plain(warmup=0.0, decay="linear"), {"optimisation.decay": "none"}),
    (plain(warmup=0.0, decay="cosine"), {"optimisation.decay": "none"}),
    (plain(warmup=3.0, decay="inverse_sqrt"), {}),
    (plain(lr_scheduler=lambda o: StepLR(o, 1), warmup=0.1, decay="linear"), {}),
    (lambda: OLSA(objective=REWARD, optimisation=RATE), {"objective.schedule.shape": "constant"}),
    (lambda: OLSA(objective=HINGE, optimisation=RATE), {}),
    (
        lambda: OLSA(objective=replace(HINGE, schedule=LINEAR), optimisation=RATE),
        {"objective.schedule.shape": "constant"},
    ),
    (lambda: OLSA(objective=RadiusObjective(gamma=1.0), optimisation=RATE), {}),
    (
        lambda: WordScores(robustness=WordRobustness(against="characters"), optimisation=RATE),
        {"robustness.schedule.shape": "constant"},
    ),
    (
        lambda: TextCNN(
            robustness=WordRobustness(against="synonyms", lists="file.json"), optimisation=RATE
        ),
        {"robustness.schedule.shape": "constant"},
    ),
    (lambda: WordScores(optimisation=RATE), {}),
    (
        lambda: make(ASA, **BERT, masking="scheduled", schedule=[0.1, 0.2], optimisation=RATE),
        {"masking.kind": "bernoulli"},
    ),
    (
        lambda: make(ASA, **BERT, reversal_schedule="rising", optimisation=RATE),
        {"masking.reversal_schedule": "constant"},
    ),
    (lambda: make(ASA, **BERT, optimisation=RATE), {}),
    (
        lambda: AdversarialTraining(classifier=OLSA(objective=REWARD), adversary=SMART()),
        {
            "optimisation.warmup": "0",
            "optimisation.decay": "none",
            "classifier.objective.schedule.shape": "constant",
            "adversary.average_decay": "[0.999, 0.999]",
        },
    ),
]


@pytest.mark.parametrize(("build", "expected"), LASTING, ids=range(len(LASTING)))
def test_what_needs_the_length_of_a_run_is_refused_without_an_end(
    build: Callable[[], TextModule], expected: dict[str, str]
) -> None:
    module = build()
    assert module.lasting() == expected
    module.trainer = trainer(max_epochs=-1)
    if not expected:
        module.refuse_endless()
        return
    with pytest.raises(ValueError, match="got a run without an end") as error:
        module.refuse_endless()
    for name, value in expected.items():
        assert f"--model.{name} {value}" in str(error.value)
    for end in ({"max_epochs": 1}, {"max_epochs": -1, "max_steps": 5}):
        module.trainer = trainer(**end)
        module.refuse_endless()


def test_a_fit_without_an_end_ends_before_its_first_step() -> None:
    module = attached(plain(optimizer=sgd, warmup=0.5, decay="linear"))
    with pytest.raises(ValueError, match=r"--model\.optimisation\.warmup 0"):
        rates(module, **ENDLESS)


@pytest.mark.parametrize("own", [False, True])
def test_schedulers_of_the_command_line(own: bool) -> None:
    def scheduler(optimizer: torch.optim.Optimizer) -> LRScheduler | TorchReduceLROnPlateau:
        if own:
            return ReduceLROnPlateau(
                optimizer, monitor="val/accuracy", threshold=10, patience=0, threshold_mode="abs"
            )
        return TorchReduceLROnPlateau(optimizer, threshold=10, patience=0, threshold_mode="abs")

    module = attached(plain(optimizer=sgd, lr_scheduler=scheduler))
    assert rates(module, max_epochs=3)[::4] == pytest.approx([1.0, 1.0, 0.1])


def test_scheduler_replaces_warm_up_and_steps_once_an_epoch() -> None:
    module = attached(plain(optimizer=sgd, lr_scheduler=lambda o: StepLR(o, 1, 0.5), warmup=0.5))
    assert rates(module, max_epochs=3) == pytest.approx([1.0] * 4 + [0.5] * 4 + [0.25] * 4)
