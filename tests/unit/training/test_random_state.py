"""Random numbers go on where a checkpoint was written, in every process."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from training import random_state
from training.random_state import RandomState, current_state, restore


def draw() -> list[float]:
    return [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002 (the global generator is what is tested)


def test_all_generators_go_on() -> None:
    state = current_state()
    first = draw()
    assert draw() != first
    restore(state)
    assert draw() == first


def test_the_state_needs_no_code(tmp_path: Any) -> None:
    torch.save(current_state(), tmp_path / "state")
    state = torch.load(tmp_path / "state", weights_only=True)
    restore(state)
    first = draw()
    restore(state)
    assert draw() == first


def callback(rank: int, world: int, **settings: bool) -> tuple[RandomState, Any]:
    made = RandomState(**settings)
    trainer: Any = SimpleNamespace(global_rank=rank, world_size=world)
    made.setup(trainer, None, "fit")  # type: ignore[arg-type] # not looked at
    return made, trainer


def test_every_rank_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    states, drawn = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(current_state())
        drawn.append(draw())
    # What the other process would have sent.
    monkeypatch.setattr(random_state, "gather", lambda _, mine: [states[0], *mine])
    restore(states[1])
    saved = callback(1, 2)[0].state_dict()
    for rank in (0, 1):
        made, trainer = callback(rank, 2)
        made.load_state_dict(saved)
        torch.manual_seed(99)
        made.on_train_start(trainer, trainer)
        assert draw()[2] == drawn[rank][2]


def test_ranks_draw_different_numbers_from_the_beginning() -> None:
    found = []
    for rank in (0, 1, 2):
        made, trainer = callback(rank, 3)
        torch.manual_seed(5)
        made.on_train_start(trainer, trainer)
        found.append(float(torch.rand(())))
    assert len(set(found)) == 3
    torch.manual_seed(5)
    assert found[0] == float(torch.rand(()))


@pytest.mark.parametrize(("saved", "now"), [(1, 2), (2, 1)])
def test_another_number_of_processes_is_refused(saved: int, now: int) -> None:
    state = {"ranks": [current_state()] * saved}
    message = rf"checkpoint of {saved} process\(es\), expected one of {now}.*allow_world_change"
    with pytest.raises(ValueError, match=message):
        callback(0, now)[0].load_state_dict(state)
    callback(0, now, allow_world_change=True)[0].load_state_dict(state)
