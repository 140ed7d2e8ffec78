"""An objective that is divided before its gradient is taken changes no step."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lit_modules.shared.optimisation import undo_division

KINDS: dict[str, dict[str, Any]] = {
    "Adam": {},
    "AdamW": {},
    "NAdam": {},
    "Adamax": {},
    "Adagrad": {},
    "RMSprop": {"momentum": 0.5},
    "SGD": {"momentum": 0.9},
}


def steps(kind: str, divisor: float, *, undone: bool, **settings: Any) -> Tensor:
    """A weight after some steps on an objective with small slopes."""
    weight = torch.linspace(-1, 1, 6, dtype=torch.float64).requires_grad_()
    optimizer = getattr(torch.optim, kind)([weight], lr=1e-2, **settings)
    if undone:
        undo_division(optimizer.param_groups[0], divisor)
    for number in range(4):
        optimizer.zero_grad()
        torch.autograd.backward(1e-4 * ((weight - number).square().sum() / divisor))
        optimizer.step()
    return weight.detach()


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_the_undivided_objective(kind: str, decay: float) -> None:
    settings = {**KINDS[kind], "weight_decay": decay}
    expected = steps(kind, 1.0, undone=False, **settings)
    torch.testing.assert_close(steps(kind, 1e4, undone=True, **settings), expected)
    assert not torch.allclose(steps(kind, 1e4, undone=False, **settings), expected)


def test_an_objective_that_is_not_divided_keeps_its_settings() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    before = dict(optimizer.param_groups[0])
    undo_division(optimizer.param_groups[0], 1.0)
    assert optimizer.param_groups[0] == before
