"""The LSTM: torch's own, the state that is read, padding, gradients, activations."""

import pytest
import torch
from torch import Tensor, nn

from layers import LSTMClassifier

WIDTH, HIDDEN = 5, 4


def build(depth: int = 2, **settings: float) -> LSTMClassifier:
    torch.manual_seed(0)
    return LSTMClassifier(WIDTH, 3, depth=depth, hidden=HIDDEN, **settings).double().eval()  # type: ignore[arg-type] # of any kind


def tokens(size: int, *, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, size, WIDTH, generator=generator, dtype=torch.float64)


def all_real(x: Tensor) -> Tensor:
    return torch.ones(x.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize("depth", [1, 3])
def test_it_is_the_lstm_of_torch_read_at_both_ends(depth: int) -> None:
    module, x = build(depth), tokens(6)
    reference = nn.LSTM(WIDTH, HIDDEN, depth, batch_first=True, bidirectional=True).double()
    reference.load_state_dict(
        {
            name.replace("_l0", f"_l{number}"): value
            for number, layer in enumerate(module.layers)
            for name, value in layer.state_dict().items()
        }
    )
    out, _ = reference(x)
    ends = torch.cat([out[:, -1, :HIDDEN], out[:, 0, HIDDEN:]], dim=-1)
    torch.testing.assert_close(module(x, all_real(x)), module.get_submodule("head")(ends))
    torch.testing.assert_close(module.hidden_states(x, all_real(x))[-1], out)


def test_both_directions_have_read_the_whole_text() -> None:
    module = build(1)
    x = tokens(4).requires_grad_()
    for part in (slice(0, HIDDEN), slice(HIDDEN, None)):
        head = module.get_parameter("head.weight")
        with torch.no_grad():
            head.zero_()[:, part] = 1.0
        (gradient,) = torch.autograd.grad(module(x, all_real(x)).sum(), x)
        assert bool((gradient.norm(dim=-1) > 1e-6).all())


@pytest.mark.parametrize("garbage", [1e3, float("nan"), float("inf")])
@pytest.mark.parametrize("left", [0, 2])
def test_padding_plays_no_part_wherever_it_stands(left: int, garbage: float) -> None:
    module, x = build(), tokens(3)
    batch = torch.full((2, 7, WIDTH), garbage, dtype=torch.float64)
    mask = torch.zeros(2, 7, dtype=torch.bool)
    batch[0, left : left + 3], mask[0, left : left + 3] = x[0], True
    batch[1], mask[1] = tokens(7, seed=2)[0], True
    torch.testing.assert_close(module(batch, mask)[:1], module(x, all_real(x)))
    alone, padded = module.hidden_states(x, all_real(x)), module.hidden_states(batch, mask)
    for one, other in zip(alone[1:], padded[1:], strict=True):
        torch.testing.assert_close(other[:1, left : left + 3], one)
        assert bool((other[~mask] == 0).all())


@pytest.mark.long
def test_gradients() -> None:
    module, x = build(), torch.cat([tokens(4), tokens(4, seed=2)])
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    assert torch.autograd.gradcheck(lambda one: module(one, mask), x.requires_grad_())
    (gradient,) = torch.autograd.grad(module(x, mask).sum(), x)
    assert bool((gradient[~mask] == 0).all())
    assert bool((gradient[mask] != 0).any(dim=-1).all())


def test_dropout_is_between_layers_and_before_the_head() -> None:
    module, x = build(2, dropout=0.5), tokens(5)
    assert torch.equal(module(x, all_real(x)), module(x, all_real(x)))
    module.train()
    assert not torch.equal(module(x, all_real(x)), module(x, all_real(x)))


def test_no_layer() -> None:
    with pytest.raises(ValueError, match="got depth=0 for an LSTM, expected at least 1"):
        build(0)
