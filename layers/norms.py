"""Norms of matrices that are upper bounds, not estimates.

Power iteration and singular-value routines approach the norm from below or without a proven error;
a certificate needs a number that is certainly not too small. Everything here runs in float64. The
rounding errors are bounded in docs/certificates.md, "Measured weights and rounding".
"""

import math
from typing import Literal

import torch
from torch import Tensor

Norm = Literal["2", "inf"]
"""The p-norm of vectors: Euclidean, or the largest absolute entry."""
NORMS: tuple[Norm, ...] = ("2", "inf")

GRAM_STEPS = 8
"""Squarings of the Gram matrix: without rounding, within a factor n^(1/1024) of the norm."""


def spectral_norm_bound(weight: Tensor) -> Tensor:
    """Return an upper bound on the spectral norm of a matrix, tight for near-orthogonal ones.

    The smaller of two bounds, W being the matrix or its transpose so that W W^T is the smaller
    Gram matrix:

    - ||W||^2 = ||W W^T|| <= 1 + ||W W^T - I||_F, within a rounding error of 1 if W is orthogonal;
    - ||W||^(2^(k+1)) = ||(W W^T)^(2^k)|| <= ||(W W^T)^(2^k)||_F, rescaled at each squaring.

    Each is enlarged by a bound on its rounding error.

    Args:
        weight: `[n, m]`, any floating dtype; converted to float64 exactly.

    Returns:
        A float64 scalar; NaN or infinite if an entry is.
    """
    matrix = weight.detach().to(torch.float64)
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.mT
    # A power of two, so the scaling is exact; without it the Gram matrix of very small or very
    # large entries would underflow or overflow. Its inverse is finite as well.
    _, exponent = math.frexp(float(matrix.abs().amax()))
    power = 2.0 ** min(max(exponent, -1000), 1000)
    scaled = matrix / power
    gram_bound = _gram_iteration(_symmetric(scaled @ scaled.mT), _slack(scaled)) * power
    gram = matrix @ matrix.mT
    eye = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    defect = _frobenius_bound(gram - eye) + _slack(matrix)
    near_orthogonal = (1 + defect).sqrt() * (1 + 1e-15)
    return torch.minimum(near_orthogonal, gram_bound)


def operator_norm_bound(weight: Tensor, norm: Norm) -> Tensor:
    """Return an upper bound on the norm of x -> W x, with a p-norm of its input and output.

    `2`: `spectral_norm_bound`. `inf`: the largest sum of absolute entries of a row, enlarged by the
    largest error of summing it. A float64 scalar; NaN or infinite if an entry is.
    """
    if norm == "2":
        return spectral_norm_bound(weight)
    matrix = weight.detach().to(torch.float64)
    enlarged = 1 + (matrix.shape[1] + 4) * torch.finfo(matrix.dtype).eps
    return matrix.abs().sum(dim=1).amax() * enlarged


def _slack(matrix: Tensor) -> Tensor:
    """Bound the rounding error of `matrix @ matrix.mT`, in Frobenius norm."""
    # |fl(A B) - A B| <= m u |A| |B| entrywise for inner products of m terms (Higham 2002, section
    # 3.5), so in Frobenius norm at most m u ||A||_F^2. Four times as much with eps = 2 u leaves
    # seven eighths for the few roundings of later steps.
    size = float(max(matrix.shape))
    return 4 * size * torch.finfo(matrix.dtype).eps * matrix.square().sum()


def _frobenius_bound(matrix: Tensor) -> Tensor:
    """Return the Frobenius norm, enlarged by the largest error of summing its n^2 squares."""
    norm: Tensor = torch.linalg.matrix_norm(matrix)
    return norm * (1 + (matrix.numel() + 4) * torch.finfo(matrix.dtype).eps)


def _symmetric(matrix: Tensor) -> Tensor:
    """Make a matrix symmetric; products of symmetric ones are so only up to rounding."""
    return (matrix + matrix.mT) / 2


def _gram_iteration(gram: Tensor, slack: Tensor) -> Tensor:
    """Bound sqrt(||gram||) by repeated squaring (Delattre et al., 2023)."""
    # With G = s P and ||P||_F <= 1: ||G|| <= s; P^2 = f P' with ||P'||_F <= 1 gives
    # ||G||^2 <= s^2 f, and so on. Every stage is a valid bound, so the smallest is used. `error`
    # bounds the distance of the computed P from the exact one, in Frobenius norm.
    scale = _frobenius_bound(gram) + slack
    if bool(scale == 0):
        return torch.zeros_like(scale)
    product_error = 4 * gram.shape[0] * torch.finfo(gram.dtype).eps
    log_bound = scale.log()
    best = log_bound
    power, error = gram / scale, slack / scale
    exponent = 1.0
    for _ in range(GRAM_STEPS):
        square = _symmetric(power @ power)
        frobenius = _frobenius_bound(square)
        # ||A^2 - B^2||_F <= ||A - B||_F (||A|| + ||B||), and ||A||^2 = ||A^2|| for symmetric A.
        # With the cruder ||A|| <= 1, the error of a flat spectrum would grow n^(1/4) times faster.
        error = error * (2 * (frobenius + product_error).sqrt() + error) + product_error
        exponent *= 2
        log_bound = log_bound + (frobenius + error).log() / exponent
        best = torch.minimum(best, log_bound)
        # Rescaled by the enlarged norm, so that the exact iterate has norm at most 1 too.
        power, error = square / (frobenius + error), error / frobenius
    norm: Tensor = (best / 2).exp() * (1 + 1e-12)
    return norm
