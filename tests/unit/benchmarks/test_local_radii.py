"""The benchmark of local radii measures what it says."""

import torch

from benchmarks.local_radii import _measured, slope
from certify import Certifier
from tests.unit.certify.models import classifier, olsa, tokens, train


def test_radii_stand_in_their_order() -> None:
    toy, batch = classifier(1, classes=2, feedforward=True), tokens([2, 3, 4])
    train(toy, batch, torch.tensor([0, 1, 0]), steps=10)
    olsa(toy).eval().requires_grad_(requires_grad=False)
    sound, local = Certifier(toy), Certifier(toy, "local")
    found = _measured({"sound": sound, "local": local}, [batch], 1)
    assert found["radius, local"] == found["radius, sound"] * found["local / sound"]
    assert 1 <= found["the least"] <= found["local / sound"] <= found["PGD / sound"] < 8
    assert found["if linear / sound"] > 1
    # A small step along the gradient lowers the lead as fast as it says.
    x, mask = batch.x, batch.mask
    steepest = slope(sound, x, mask)
    inside = x.detach().requires_grad_()
    with torch.enable_grad():
        first, second = sound.classify(inside, mask).topk(2, dim=1).values.unbind(dim=1)
        (step,) = torch.autograd.grad((first - second).sum(), inside)
    moved = x - 1e-6 * step / steepest.view(-1, 1, 1)
    one, other = sound.classify(moved, mask).topk(2, dim=1).values.unbind(dim=1)
    torch.testing.assert_close((first - second - (one - other)) / 1e-6, steepest, rtol=1e-3, atol=0)
