"""A loss with gradients that were taken before."""

import torch
from torch import nn

from lit_modules.adversaries.prepared import Gradients


def test_sum_of_losses() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 2)
    unused = nn.Parameter(torch.ones(2))
    inputs = torch.randn(4, 5, 3)
    for scale in (1.0, 256.0):
        gradients = Gradients([*layer.parameters(), unused], scale=scale)
        total = torch.zeros(())
        for x in inputs:
            point = x.clone().requires_grad_()
            loss = layer(point).square().mean()
            total = total + loss.detach()
            found = gradients.add(loss, extra=point)
            assert found is not None
            torch.testing.assert_close(found / scale, 2 * layer(x) @ layer.weight / 10)
        prepared = gradients.loss(total)
        assert prepared.item() == total.item()
        for parameter in layer.parameters():
            parameter.grad = None
        (3 * prepared).backward()  # type: ignore[no-untyped-call] # of torch
        expected = torch.autograd.grad(
            3 * sum(layer(x).square().mean() for x in inputs), [*layer.parameters()]
        )
        for parameter, gradient in zip(layer.parameters(), expected, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, gradient)
        # What no loss depends on gets no gradient, as ever.
        assert unused.grad is None


def test_a_loss_that_does_not_depend_on_what_is_wanted() -> None:
    weight = nn.Parameter(torch.ones(2))
    other = torch.ones(3, requires_grad=True)
    gradient = Gradients([weight]).add((weight**2).sum(), extra=other)
    assert gradient is not None
    assert not gradient.any()
