"""The orthogonal ("unitary") factor of many matrices at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from layers.weight_names import check_projectable
from text import check_choice

UnitaryMethod = Literal["qr", "polar"]
METHODS: tuple[UnitaryMethod, ...] = ("qr", "polar")

# Bytes of one stack of matrices, of which three are alive at most; on a CPU, for its cache.
_SCRATCH, _SCRATCH_ON_CPU = 2**28, 2**24
# Columns that are made orthonormal at a time: as few as keep matrix products at full speed.
_PANEL = 96
# ‖R - I‖_F below which the condition number is at most 3, and no digits are lost.
_NEAR = 0.5
# The same for a second round: the first has lost no more than a second one restores.
_ROUND = 1e-3
# Steps of Newton-Schulz: five lead from `_NEAR` to rounding.
_STEPS = 8


def unitary_factor(stack: Tensor, method: UnitaryMethod = "qr") -> tuple[Tensor, Tensor]:
    """Return the orthogonal factor of each matrix of a stack, and how orthogonal it is.

    `qr`: Q diag(sign diag R) of W = Q R (Chang and Wang, "Unitary Multi-Margin BERT", eqs. 3-6),
    which is the Q whose R has a positive diagonal. It is found by Cholesky factorisations, panel by
    panel of columns, in one round where W is nearly orthogonal and in two where it is less so;
    otherwise by Householder reflections in float64. A zero on the diagonal of R counts as positive.
    This is not the nearest orthogonal matrix.

    `polar`: the nearest one, W (WᵀW)^(-1/2), by Newton-Schulz iteration or singular vectors.

    Args:
        stack: `[M, m, n]`, m >= n, float32 or float64, any values; not changed.
        method: `qr` or `polar`.

    Returns:
        The factors `[M, m, n]`, whose columns are orthonormal, and the largest entry of |QᵀQ - I|
        of each, `[M]`.

    Raises:
        ValueError: see `project_`.
    """
    factor = stack.detach().clone()
    project_(list(factor), method)
    return factor, unitary_residual(factor)


@torch.no_grad()
def project_(
    weights: Sequence[Tensor], method: UnitaryMethod = "qr", *, share: float = 1.0
) -> None:
    """Replace matrices by their orthogonal factors, in place.

    Args:
        weights: `[m, n]` each, m >= n, float32 or float64; sizes may differ.
        method: see `unitary_factor`.
        share: weight of the factor in the mean of the matrix (0) and its factor (1).

    Raises:
        ValueError: a matrix that is wider than high, in reduced precision or not finite; another
            method.
    """
    check_choice("method", method, METHODS)
    check_projectable(weights)
    for rows in _chunks(weights):
        chunk = [weights[i] for i in rows]
        with exact_products(chunk[0]):
            factors = _qr(chunk) if method == "qr" else _polar(chunk)
        for weight, factor in zip(chunk, factors, strict=True):
            weight.copy_(factor if share == 1 else torch.lerp(weight, factor, share))


@torch.no_grad()
def unitary_residual(weights: Sequence[Tensor] | Tensor) -> Tensor:
    """Return the largest entry of |WᵀW - I| of each matrix, `[M]`."""
    residuals: dict[int, Tensor] = {}
    for rows in _chunks(weights):
        with exact_products(weights[rows[0]]):
            deviation = _deviation(torch.stack([weights[i] for i in rows]))
        residuals.update(zip(rows, deviation.abs().amax(dim=(1, 2)).float(), strict=True))
    return torch.stack([residuals[i] for i in range(len(weights))])


@contextmanager
def exact_products(like: Tensor) -> Iterator[None]:
    """Compute products of float32 in float32, even where TF32, with its three digits, is on."""
    # By device: torch refuses to read the global setting once a device has its own.
    cpu: Any = torch.backends.mkldnn  # its `matmul` exists at run time only
    devices: list[Any] = [torch.backends.cuda.matmul, cpu.matmul]
    before = [device.fp32_precision for device in devices]
    try:
        for device in devices:
            device.fp32_precision = "ieee"
        with torch.autocast(like.device.type, enabled=False):
            yield
    finally:
        for device, precision in zip(devices, before, strict=True):
            device.fp32_precision = precision


def _chunks(weights: Sequence[Tensor] | Tensor) -> Iterator[list[int]]:
    """Yield the indices of matrices of one kind, one stack at a time."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for i, weight in enumerate(weights):
        kinds.setdefault((weight.shape, weight.dtype, weight.device), []).append(i)
    for same in kinds.values():
        first = weights[same[0]]
        scratch = _SCRATCH_ON_CPU if first.device.type == "cpu" else _SCRATCH
        count = max(1, scratch // max(1, first.nbytes))
        for start in range(0, len(same), count):
            yield same[start : start + count]


def _deviation(stack: Tensor) -> Tensor:
    gram: Tensor = stack.mT @ stack
    gram.diagonal(dim1=1, dim2=2).sub_(1)
    return gram


def _qr(matrices: Sequence[Tensor]) -> Tensor:
    factor = torch.stack(list(matrices))
    far = (~(_panels(factor) < _NEAR)).nonzero().flatten()  # negated, so that NaN is far as well
    if len(far):
        _check_finite(matrices)
        # A second round restores the digits that the first has lost, unless it was too far.
        again = factor[far]
        rounding = _panels(again)
        factor[far] = again
        for i in far[~(rounding < _ROUND)].tolist():
            factor[i] = _householder(matrices[i])
    return factor


def _panels(stack: Tensor) -> Tensor:
    """Make the columns of each matrix orthonormal, in place; return ‖R - I‖_F, `[M]`."""
    # Block Gram-Schmidt with a Cholesky factorisation in each panel. In exact arithmetic this is
    # the Cholesky factorisation of WᵀW, in half the time: most of it is products of matrices, and
    # the lower half of WᵀW is not computed.
    size = stack.shape[-1]
    eye = torch.eye(min(size, _PANEL), dtype=stack.dtype, device=stack.device)
    squares = stack.new_zeros(len(stack))
    for start in range(0, size, _PANEL):
        panel, rest = stack[:, :, start : start + _PANEL], stack[:, :, start + _PANEL :]
        width = panel.shape[-1]
        rows = panel.mT @ stack[:, :, start:]
        lower, failed = torch.linalg.cholesky_ex(rows[:, :, :width])
        inverse = torch.linalg.solve_triangular(lower, eye[:width, :width], upper=False)
        right = inverse @ rows
        panel.copy_(panel @ inverse.mT)
        rest.baddbmm_(panel, right[:, :, width:], alpha=-1)
        right.diagonal(dim1=1, dim2=2).sub_(1)
        squares += right.square().sum(dim=(1, 2)).masked_fill_(failed != 0, torch.inf)
    return squares.sqrt()


def _householder(matrix: Tensor) -> Tensor:
    # In float64, as the factor of an ill-conditioned matrix amplifies rounding.
    q, r = torch.linalg.qr(matrix.double())
    factor: Tensor = q * torch.where(r.diagonal() < 0, -1.0, 1.0)
    return factor.to(matrix.dtype)


def _check_finite(matrices: Sequence[Tensor]) -> None:
    # Called on the slow paths only, where such matrices end: the fast path never waits for it.
    if not all(bool(torch.isfinite(matrix).all()) for matrix in matrices):
        msg = (
            "got weights that are infinite or not numbers, expected finite ones: the step before "
            "has spoilt them; lower the learning rate or clip gradients"
        )
        raise ValueError(msg)


def _polar(matrices: Sequence[Tensor]) -> Tensor:
    factor = torch.stack(list(matrices))
    for i, matrix in enumerate(matrices):
        x = factor[i : i + 1]
        for _ in range(_STEPS):
            deviation = _deviation(x)
            size = float(torch.linalg.matrix_norm(deviation))
            if not size < _NEAR:  # the iteration would be slow, or would not converge
                _check_finite([matrix])
                u, _, vh = torch.linalg.svd(matrix.double(), full_matrices=False)
                x.copy_(u @ vh)
                break
            # A copy: the product reads what it adds to.
            x.baddbmm_(x.clone(), deviation, alpha=-0.5)
            if size < torch.finfo(x.dtype).eps ** 0.5:  # squared by this step
                break
    return factor
