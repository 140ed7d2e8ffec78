"""Residual maps of attention: the contractive one is inverted, the dot product is not."""

import math

import pytest
import torch
from torch import Tensor, nn

from layers.attention.headed import HeadedAttention
from layers.attention.l2 import ContractiveL2Attention, TiedL2Attention
from layers.attention.scaled_dot_product import SelfAttention
from layers.invertible import Inversion, InvertibleResidual, NotInvertedError
from layers.norms import NORMS, Norm

N = D = 64
F64 = torch.float64


def drawn(attention: HeadedAttention, gain: float = 1.0) -> HeadedAttention:
    """With Glorot weights, and biases of 0."""
    torch.manual_seed(0)
    for name, parameter in attention.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            for matrix in torch.split(parameter.data, attention.output.out_features):
                nn.init.xavier_uniform_(matrix, gain=gain)
    return attention.eval()


def inputs(scale: float, count: int = 4) -> tuple[Tensor, Tensor]:
    """The paper's: the first token is 0, and the others are uniform, in +- scale."""
    x = torch.rand(count, N, D, generator=torch.Generator().manual_seed(1), dtype=F64) * 2 - 1
    x[:, 0] = 0
    return scale * x, torch.ones(count, N, dtype=torch.bool)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("dtype", "scale"), [(torch.float32, 1.0), (F64, 10.0)])
def test_contractive_attention_is_inverted(norm: Norm, dtype: torch.dtype, scale: float) -> None:
    x, mask = inputs(scale)
    attention = drawn(ContractiveL2Attention(D, 8, length=N, norm=norm), gain=3.0).to(dtype)
    g = InvertibleResidual(attention, c=0.9)
    with torch.no_grad():
        inverse = g.inverse(g(x.to(dtype), mask), mask, settings=Inversion(tolerance=2e-6))
    assert float((inverse.x - x).abs().max()) < 1e-5


@pytest.mark.long
@pytest.mark.parametrize("memory", [0, 3])
def test_dot_product_attention_is_not(memory: int) -> None:
    x, mask = inputs(10.0)
    settings = Inversion(tolerance=1e-5, most=60, memory=memory)
    made: list[type[HeadedAttention]] = [TiedL2Attention, SelfAttention]
    for kind in made:
        g = InvertibleResidual(drawn(kind(D, 8)).double(), c=0.5, lipschitz=math.inf)
        with torch.no_grad():
            y = g(x, mask)
            if kind is TiedL2Attention:
                inverse = g.inverse(y, mask, settings=settings)
                assert float((inverse.x - x).abs().max()) < 1e-4
                continue
            with pytest.raises(NotInvertedError, match="for 4 of 4 samples"):
                g.inverse(y, mask, settings=settings)
            inverse = g.inverse(y, mask, settings=settings, strict=False)
            assert float(inverse.residual.min()) > 1
            assert float((inverse.x - x).abs().amax(dim=(1, 2)).min()) > 1


def test_padding_is_no_part_of_the_inverse() -> None:
    attention = drawn(ContractiveL2Attention(8, 2, length=5), gain=3.0).double()
    g = InvertibleResidual(attention, c=0.9)
    x = torch.randn(2, 5, 8, dtype=F64)
    mask = torch.arange(5) < torch.tensor([5, 3])[:, None]
    with torch.no_grad():
        inverse = g.inverse(g(x, mask), mask, settings=Inversion(tolerance=1e-12))
        alone = g.inverse(
            g(x[1:, :3], mask[1:, :3]), mask[1:, :3], settings=Inversion(tolerance=1e-12)
        )
    torch.testing.assert_close(inverse.x, x, rtol=0, atol=1e-10)
    torch.testing.assert_close(inverse.x[1:, :3], alone.x, rtol=0, atol=1e-10)


@pytest.mark.long
def test_the_log_determinant_of_attention_is_that_of_the_jacobian() -> None:
    attention = drawn(ContractiveL2Attention(4, 2, length=3), gain=3.0).double()
    g = InvertibleResidual(attention, c=0.9)
    x, mask = torch.randn(1, 3, 4, dtype=F64) * 0.3, torch.ones(1, 3, dtype=torch.bool)
    jacobian: Tensor = torch.autograd.functional.jacobian(lambda x: g(x, mask), x)  # type: ignore[no-untyped-call] # torch's
    exact = torch.linalg.slogdet(jacobian.reshape(12, 12)).logabsdet
    generator = torch.Generator().manual_seed(0)
    estimate = g.log_determinant(x, mask, draws=200, generator=generator)
    error = estimate.variance.sqrt()
    assert (error < 0.2 * exact.abs()).all()
    assert ((estimate.value - exact).abs() < 4 * error).all()
