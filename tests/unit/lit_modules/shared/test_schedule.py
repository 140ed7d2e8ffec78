"""Learning rates: warm-up, decay, and the schedulers of the command line."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_lightning.cli import ReduceLROnPlateau
from torch.optim.lr_scheduler import LRScheduler, StepLR
from torch.optim.lr_scheduler import ReduceLROnPlateau as TorchReduceLROnPlateau

from lit_modules import TaskModule
from lit_modules.shared.schedule import Decay, learning_rate_factor
from tests.unit.lit_modules.builders import SINGLE, attached, loader, plain, trainer

DECAYS: tuple[Decay, ...] = ("none", "linear", "cosine")


def factors(warmup: float, decay: Decay, total: int) -> list[float]:
    factor = learning_rate_factor(total, warmup=warmup, decay=decay)
    return [factor(step) for step in range(total + 1)]


@given(st.floats(0, 1), st.sampled_from(DECAYS), st.integers(1, 300))
def test_factor_is_a_share_and_has_no_jumps(warmup: float, decay: Decay, total: int) -> None:
    found = factors(warmup, decay, total)
    assert all(0 <= value <= 1 for value in found)
    rising, falling = 1 / (warmup * total + 1), 1 / max(1e-9, (1 - warmup) * total)
    steepest = max(rising, 0 if decay == "none" else falling * math.pi / 2)
    gaps = [abs(a - b) for a, b in itertools.pairwise(found)]
    # One step may end the warm-up and begin the decay.
    assert max(gaps) <= min(1.0, rising + steepest) + 1e-9
    assert all(value > 0 for value in found[:-1])  # no step of the run is wasted


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
    found = rates(module, max_epochs=2, accumulate_grad_batches=2)
    assert found == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3, 1, 1, 0.5, 0.5])


def test_a_warm_up_longer_than_the_run_is_told(caplog: pytest.LogCaptureFixture) -> None:
    found = rates(attached(plain(optimizer=sgd, warmup=9.0)), max_epochs=2)
    assert found == pytest.approx([(step + 1) / 10 for step in range(8)])
    assert "got a warm-up of 9 steps in a run of 8" in caplog.text
    caplog.clear()
    rates(attached(plain(optimizer=sgd, warmup=1.0)), max_epochs=1)
    assert "warm-up" not in caplog.text


def test_run_without_end_keeps_its_rate() -> None:
    module = attached(plain(optimizer=sgd, warmup=0.5, decay="linear"))
    found = rates(module, max_epochs=-1, max_time={"seconds": 0})
    assert set(found) <= {1.0}


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
