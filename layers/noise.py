"""Noise of a sample: the same in any batch, at any padding, on any device.

Random numbers are a function of a seed and a position, computed on the device of the tensor: a run
on two processes draws the numbers of a run on one, and nothing is copied to a GPU.
"""

import torch
from torch import Tensor

from text.splitmix import GOLDEN, mix_, mixed, wrapped

_BITS = 24


def sample_seeds(sample_ids: Tensor, *, seed: int, epoch: int) -> Tensor:
    """`[B]` int64 seeds of samples `[B]` in an epoch of a run: each has its own."""
    return mixed(sample_ids + mixed(torch.full_like(sample_ids, (seed << 24) + epoch)))


def row_seeds(seeds: Tensor, rows: int) -> Tensor:
    """`[B * rows]`: one for each row of samples that have several; with one row, the same."""
    if rows == 1:
        return seeds
    number = torch.arange(rows, device=seeds.device).repeat(len(seeds))
    return mixed(seeds.repeat_interleave(rows) + GOLDEN * (number + 1))


def uniform(seeds: Tensor, x: Tensor, *, draw: int = 0) -> Tensor:
    """Draw independent numbers, uniform in (-1, 1), like x `[B, N, d]`, from seeds `[B]` int64.

    `draw` selects one of several draws of a seed.
    """
    return 2 * _between_0_and_1(seeds, x, draw).to(x.dtype) - 1


def normal(seeds: Tensor, x: Tensor, *, draw: int = 0) -> Tensor:
    """Draw independent numbers of a standard normal distribution; see `uniform`."""
    return (2**0.5 * torch.erfinv(2 * _between_0_and_1(seeds, x, draw) - 1)).to(x.dtype)


def log_gamma(seeds: Tensor, x: Tensor, concentration: Tensor | float) -> Tensor:
    """Draw logarithms of independent gamma numbers, float32, like x `[B, N, d]`; see `uniform`.

    Their softmax over a dimension has a Dirichlet distribution. Of logarithms, small concentrations
    lose nothing. Source: Marsaglia and Tsang, "A simple method for generating gamma variables",
    2000.

    Args:
        seeds: `[B]`.
        x: gives shape and device.
        concentration: above 0; a number or a tensor that is broadcast to x.
    """
    a = torch.as_tensor(concentration, dtype=torch.float32, device=x.device).expand(x.shape)
    # Of a + 1, and then to a by the power of a uniform number (their remark on a < 1).
    d = a + 2 / 3
    cube, accepted = torch.ones_like(d), torch.zeros_like(d, dtype=torch.bool)
    # Each draw is accepted with probability 0.95 or more: after 12 next to none are left.
    for attempt in range(12):
        z = normal(seeds, x, draw=2 * attempt + 1).float()
        v = (1 + z / (9 * d).sqrt()).pow(3)
        level = z.square() / 2 + d - d * v + d * v.clamp_min(1e-30).log()
        fits = (v > 0) & (_between_0_and_1(seeds, x, 2 * attempt + 2).log() < level)
        cube = torch.where(fits & ~accepted, v, cube)
        accepted |= fits
        if bool(accepted.all()):
            break
    return (d * cube).log() + _between_0_and_1(seeds, x, 0).log() / a


def logistic_pairs(seeds: Tensor, length: int, *, heads: int = 1, draw: int = 0) -> Tensor:
    """Draw `[B, H, N, N]` float32 of a standard logistic distribution: one for each pair of tokens.

    N is at most 65,536; `draw` selects one of several draws of a seed `[B]` int64.
    """
    tokens = torch.arange(length, device=seeds.device)
    # The counter of a number depends neither on the padding nor on the number of heads.
    counter = (tokens.view(-1, 1) << 16) + tokens + 1
    head = torch.arange(heads, device=seeds.device).view(1, -1, 1, 1)
    start = mixed(seeds + wrapped(GOLDEN * (draw + 1))).view(-1, 1, 1, 1)
    return _uniform(start + (head << 33), counter).logit_()


def _between_0_and_1(seeds: Tensor, x: Tensor, draw: int) -> Tensor:
    """`[B, N, d]` float32, neither 0 nor 1."""
    _, length, width = x.shape
    # The counter of a number does not depend on the padding.
    counter = torch.arange(1, length * width + 1, device=x.device).view(1, length, width)
    start = mixed(seeds.to(x.device) + wrapped(GOLDEN * (draw + 1))).view(-1, 1, 1)
    return _uniform(start, counter)


def _uniform(start: Tensor, counter: Tensor) -> Tensor:
    """Return float32 numbers in (0, 1), so that no quantile is infinite."""
    # In place from here on: on a CPU a new array costs more than the arithmetic.
    state = start + GOLDEN * counter
    high = mix_(state).bitwise_right_shift_(64 - _BITS).bitwise_and_((1 << _BITS) - 1)
    fraction = high.to(torch.float32).add_(0.5).mul_(2.0**-_BITS)
    # Above one half, float32 rounds the added half away: 1 itself is excluded.
    return fraction.clamp_max_(1 - 2.0**-_BITS)
