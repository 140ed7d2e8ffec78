"""Gradient reversal: the same numbers, the opposite gradient."""

import math

import pytest
import torch

from layers.gradient_reversal import reversal_coefficient, reverse_gradient


def numbers() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, 4, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("coefficient", [0.0, 0.3, 1.0, 7.0])
def test_gradient_is_that_of_the_function_that_it_pretends_to_be(coefficient: float) -> None:
    x = numbers()
    torch.autograd.backward((reverse_gradient(x, coefficient).sin() * 3).sum())
    assert x.grad is not None
    # From here on, f(-c x) stands for what flows back; numerically, so as not to ask autograd.
    step = 1e-6
    for index in [(0, 0), (1, 2), (2, 3)]:
        moved = torch.zeros_like(x)
        moved[index] = step
        up, down = ((x + sign * moved).detach().sin() * 3 for sign in (1, -1))
        slope = float((up.sum() - down.sum()) / (2 * step))
        assert float(x.grad[index]) == pytest.approx(-coefficient * slope, abs=1e-8)


def test_gradcheck_of_two_reversals() -> None:
    """Reversed twice, it is a plain factor, which gradcheck can compare with differences."""

    def twice(x: torch.Tensor) -> torch.Tensor:
        plain = reverse_gradient(reverse_gradient(x * x, 1.0), 1.0)
        return plain.exp()

    assert torch.autograd.gradcheck(twice, numbers())
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(lambda x: reverse_gradient(x * x).exp(), numbers())


def test_numbers_are_the_same_without_a_copy() -> None:
    x = numbers()
    y = reverse_gradient(x)
    assert torch.equal(x, y)
    assert y.data_ptr() == x.data_ptr()


def test_schedule() -> None:
    assert reversal_coefficient(0.0) == 0
    assert reversal_coefficient(0.5) == pytest.approx(math.tanh(2.5))  # the same curve
    assert reversal_coefficient(1.0) == pytest.approx(math.tanh(5.0))
    assert reversal_coefficient(0.1, steepness=4.0) == pytest.approx(math.tanh(0.2))
    assert reversal_coefficient(-1.0) == 0
    assert reversal_coefficient(2.0) == reversal_coefficient(1.0)


@pytest.mark.parametrize("coefficient", [-0.1, math.inf, math.nan])
def test_wrong_coefficient(coefficient: float) -> None:
    with pytest.raises(ValueError, match="expected a finite number of at least 0"):
        reverse_gradient(numbers(), coefficient)
