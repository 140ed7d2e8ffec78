"""The projection onto a ball is the nearest point of it, and 1-Lipschitz."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from layers import project_to_ball

F64 = torch.float64


@given(st.floats(0.1, 5.0), st.floats(0.01, 10.0), st.integers(0, 2**32 - 1))
def test_nearest_point_and_one_lipschitz(radius: float, scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = scale * torch.randn(2, 20, 3, generator=generator, dtype=F64)
    projected, other = project_to_ball(x, radius), project_to_ball(y, radius)
    inside = x.norm(dim=-1) <= radius
    torch.testing.assert_close(projected[inside], x[inside], rtol=1e-14, atol=0)
    norms = projected[~inside].norm(dim=-1)
    torch.testing.assert_close(norms, torch.full_like(norms, radius))
    # No point of the ball is nearer.
    assert bool(((x - projected).norm(dim=-1) <= (x - other).norm(dim=-1) + 1e-12).all())
    moved = (projected - other).norm(dim=-1)
    assert bool((moved <= (x - y).norm(dim=-1) + 1e-12).all())


def test_a_radius_for_each_sample() -> None:
    x = torch.ones(2, 3, 4)
    out = project_to_ball(x, torch.tensor([1.0, 5.0])[:, None, None])
    torch.testing.assert_close(out[0].norm(dim=-1), torch.ones(3))
    assert torch.equal(out[1], x[1])


def test_gradients_also_at_zero() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=F64, requires_grad=True)
    radius = torch.tensor([0.1, 0.5, 1.0, 2.0, 4.0, 8.0], dtype=F64)[:, None].requires_grad_()
    assert torch.autograd.gradcheck(project_to_ball, (x, radius))
    zero = torch.zeros(2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(project_to_ball(zero, 1.0).sum(), zero)
    assert torch.equal(gradient, torch.ones(2, 3))
