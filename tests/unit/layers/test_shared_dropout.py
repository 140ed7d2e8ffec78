"""Dropout that two passes share: what is drawn, and what is drawn again."""

import copy

import pytest
import torch
from torch import nn

from layers.shared_dropout import DropoutTape, SharedDropout, SharedLinear, share_dropout


def network(rate: float = 0.3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Dropout(rate), nn.Sequential(nn.Dropout(rate), nn.Linear(8, 5))
    )


def shared(rate: float = 0.3) -> tuple[nn.Sequential, DropoutTape]:
    tape, layers = DropoutTape(), network(rate)
    share_dropout(layers, tape)
    return layers, tape


def run(layers: nn.Module, x: torch.Tensor, seed: int = 3) -> torch.Tensor:
    torch.manual_seed(seed)
    out: torch.Tensor = layers(x)
    return out


X = torch.linspace(-1, 1, 24).view(4, 6)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_recorded_pass_draws_what_dropout_draws(rate: float, dtype: torch.dtype) -> None:
    x = torch.randn(64, 65, generator=torch.Generator().manual_seed(1)).to(dtype)
    for tensor in (x, x.T, x[:, ::2]):
        tape = DropoutTape()
        torch.manual_seed(5)
        expected = nn.Dropout(rate)(tensor)
        after = torch.rand(1)
        torch.manual_seed(5)
        with tape.recording():
            drawn = SharedDropout(rate, tape)(tensor)
        assert torch.equal(drawn, expected)
        # And as many random numbers: what is drawn later is the same too.
        assert torch.equal(torch.rand(1), after)


def test_a_network_drops_what_it_dropped_before_sharing() -> None:
    plain, (layers, tape) = network(), shared()
    assert torch.equal(run(layers, X), run(plain, X))
    with tape.recording():
        recorded = run(layers, X)
    assert torch.equal(recorded, run(plain, X))


def test_replay_drops_the_same_whatever_the_generator_says() -> None:
    layers, tape = shared()
    with tape.recording():
        first = run(layers, X, seed=3)
    for seed in (4, 5):
        with tape.replaying():
            assert torch.equal(run(layers, X, seed=seed), first)
    assert not torch.equal(run(layers, X, seed=4), first)
    # Nothing is drawn in a replay.
    torch.manual_seed(9)
    expected = torch.rand(1)
    torch.manual_seed(9)
    with tape.replaying():
        layers(X)
    assert torch.equal(torch.rand(1), expected)
    # What was dropped belongs to the last recording.
    with tape.recording():
        second = run(layers, X, seed=4)
    with tape.replaying():
        assert torch.equal(layers(X), second)


def test_gradients_of_a_replay_are_those_of_the_recording() -> None:
    layers, tape = shared()
    with tape.recording():
        grads = torch.autograd.grad(layers(X).sum(), list(layers.parameters()))
    with tape.replaying():
        again = torch.autograd.grad(layers(X).sum(), list(layers.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(grads, again, strict=True))


def test_weights_and_names_stay() -> None:
    plain, (layers, _) = network(), shared()
    names = [name for name, _ in plain.named_modules()]
    assert [name for name, _ in layers.named_modules()] == names
    weights = layers.state_dict()
    assert list(weights) == list(plain.state_dict())
    assert all(torch.equal(weights[name], value) for name, value in plain.state_dict().items())
    assert layers[1].training
    evaluated = network().eval()
    share_dropout(evaluated, DropoutTape())
    assert not any(module.training for module in evaluated.modules())


def test_another_pass_than_the_recorded_one() -> None:
    layers, tape = shared()
    with tape.recording():
        layers(X)
    with tape.replaying(), pytest.raises(RuntimeError, match=r"\(3, 8\) where \(4, 8\) was rec"):
        layers(X[:3])
    assert tape.mode == "off"
    with tape.replaying():
        layers(X)
        with pytest.raises(RuntimeError, match="where None was recorded, expected two passes"):
            layers(X)
    tape.clear()
    with tape.replaying(), pytest.raises(RuntimeError, match="where None was recorded"):
        layers(X)


def test_nothing_is_dropped_in_evaluation_or_at_rate_0() -> None:
    for layers, tape in (shared(0.0), shared()):
        layers.eval() if layers[1].p else layers.train()
        expected = run(network(0.0), X)
        with tape.recording():
            assert torch.equal(run(layers, X), expected)
        with tape.replaying():
            assert torch.equal(run(layers, X), expected)


def test_an_exception_leaves_the_tape_off() -> None:
    layers, tape = shared()
    for context in (tape.recording, tape.replaying):
        with pytest.raises(ZeroDivisionError), context():
            _ = 1 / 0
        assert tape.mode == "off"
    assert layers(X).shape == (4, 5)


def test_a_copy_has_a_tape_of_its_own() -> None:
    layers, tape = shared()
    with tape.recording():
        first = layers(X)
        other = copy.deepcopy(layers)
    tapes = {module.tape for module in other.modules() if isinstance(module, SharedDropout)}
    assert len(tapes) == 1
    (own,) = tapes
    assert own is not tape
    assert own.mode == "off"
    with own.recording():
        other(X)
    with tape.replaying():
        assert torch.equal(layers(X), first)
        assert not torch.equal(run(other, X), first)


def test_a_shared_map_is_computed_once() -> None:
    torch.manual_seed(0)
    plain, tape = nn.Linear(3, 2), DropoutTape()
    shared = SharedLinear(plain, tape)
    assert dict(shared.named_parameters()).keys() == {"weight", "bias"}
    assert shared.weight is plain.weight
    x = torch.randn(4, 5, 3)
    assert torch.equal(shared(x), plain(x))
    with tape.recording():
        first = shared(x)
    with tape.replaying():
        assert shared(x) is first
        with pytest.raises(
            RuntimeError, match=r"got a layer of \(4, 5, 2\) where None was recorded"
        ):
            shared(x)
    with tape.replaying(), pytest.raises(RuntimeError, match="expected the same batch"):
        shared(x[:2])
    # Both passes add to the gradient of the one computation.
    with tape.recording():
        first = shared(x)
    with tape.replaying():
        second = shared(x)
    (first.sum() + (second**2).sum()).backward()
    expected = torch.autograd.grad(plain(x).sum() + (plain(x) ** 2).sum(), plain.weight)
    assert plain.weight.grad is not None
    assert torch.allclose(plain.weight.grad, expected[0], rtol=1e-5)
    tape.clear()
    assert not tape._results
    bare = SharedLinear(nn.Linear(3, 2, bias=False), tape)
    assert [name for name, _ in bare.named_parameters()] == ["weight"]
