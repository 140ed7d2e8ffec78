"""The orthogonal ("unitary") factor of many square matrices at once, and whose they are."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

UnitaryMethod = Literal["qr", "polar"]
METHODS: tuple[UnitaryMethod, ...] = ("qr", "polar")

ATTENTION_WEIGHTS = (
    r"(^|\.)attention\.self\.(query|key|value)(_proj)?\.weight$",  # BERT, RoBERTa, DeBERTa v2
    r"(^|\.)attention\.output\.dense\.weight$",
    r"(^|\.)attention\.(query|key|value|dense)\.weight$",  # ALBERT
    r"(^|\.)attention\.(q|k|v|out)_lin\.weight$",  # DistilBERT
)
"""Names of the query, key, value and attention-output weights of `transformers`' encoders.

DeBERTa's first version keeps query, key and value in one matrix of 3 d x d, which is not square;
of its weights only those of the attention output are here.
"""

_SCRATCH = 2**26
"""Bytes of one temporary stack of matrices; about four are alive at once."""
_NEAR = 0.5
"""‖WᵀW - I‖_F below which squaring the condition number (at most 3, then) loses no digits."""


def unitary_factor(stack: Tensor, method: UnitaryMethod = "qr") -> tuple[Tensor, Tensor]:
    """The orthogonal factor of each matrix of a stack, and how orthogonal it is.

    `qr`: Q diag(sign diag R) of W = Q R (Chang and Wang, "Unitary Multi-Margin BERT", eqs. 3-6),
    which is the Q whose R has a positive diagonal. Where W is nearly orthogonal, it is found by
    Cholesky factorisation of WᵀW = RᵀR, otherwise by Householder reflections in float64. A zero on
    the diagonal of R counts as positive. This is not the nearest orthogonal matrix.

    `polar`: the nearest one, W (WᵀW)^(-1/2), by Newton-Schulz iteration or singular vectors.

    Args:
        stack: `[M, d, d]`, float32 or float64, any values; left as it is.
        method: which factor.

    Returns:
        The factors `[M, d, d]` and the largest entry of |QᵀQ - I| of each, `[M]`.

    Raises:
        ValueError: another type of numbers, shape or method.
    """
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2]:
        msg = f"got matrices of shape {tuple(stack.shape)}, expected [M, d, d]"
        raise ValueError(msg)
    factor = stack.detach().clone()
    project_(list(factor), method)
    return factor, unitary_residual(factor)


@torch.no_grad()
def project_(
    weights: Sequence[Tensor], method: UnitaryMethod = "qr", *, share: float = 1.0
) -> None:
    """Replace square matrices by their orthogonal factors, in place.

    Args:
        weights: `[d, d]` each, float32 or float64; sizes may differ.
        method: see `unitary_factor`.
        share: how far to go from the matrix (0) to the factor (1), on the straight line.

    Raises:
        ValueError: another type of numbers, shape or method.
    """
    if method not in METHODS:
        msg = f"got method={method!r}, expected one of {', '.join(METHODS)}"
        raise ValueError(msg)
    check_precision(weights)
    for chunk in _chunks(weights):
        with exact_products(chunk[0]):
            stack = torch.stack(list(chunk))
            factors = _qr(stack) if method == "qr" else _polar(stack)
            if share < 1:
                factors = torch.lerp(stack, factors, share)
        for weight, factor in zip(chunk, factors, strict=True):
            weight.copy_(factor)


@torch.no_grad()
def unitary_residual(weights: Sequence[Tensor] | Tensor) -> Tensor:
    """The largest entry of |WᵀW - I| of each square matrix, `[M]`."""
    parts = []
    for chunk in _chunks(list(weights)):
        with exact_products(chunk[0]):
            parts.append(_deviation(torch.stack(list(chunk))).abs().amax(dim=(1, 2)))
    return torch.cat(parts)


def check_precision(weights: Sequence[Tensor]) -> None:
    """Raise ValueError unless all are float32 or float64."""
    wrong = {str(w.dtype) for w in weights if w.dtype not in (torch.float32, torch.float64)}
    if wrong:
        msg = (
            f"got weights in {', '.join(sorted(wrong))}, expected float32 or float64: fewer digits "
            "cannot hold a unitary matrix; train with --trainer.precision bf16-mixed or 16-mixed, "
            "which keep the weights themselves in float32"
        )
        raise ValueError(msg)


def unitary_weights(
    module: nn.Module, patterns: Sequence[str] | None = None
) -> dict[str, nn.Parameter]:
    """The trainable parameters that are to be unitary, by name.

    Args:
        module: looked through with all that is in it.
        patterns: regular expressions, found anywhere in a parameter's name; None for the query,
            key, value and attention-output weights of the encoders of `transformers`.

    Raises:
        ValueError: a pattern that fits no parameter, or one that is no square matrix.
    """
    trainable = {n: p for n, p in module.named_parameters() if p.requires_grad}
    square = [n for n, p in trainable.items() if p.ndim == 2 and p.shape[0] == p.shape[1]]
    listing = ", ".join(square) or "none"
    found: set[str] = set()
    for pattern in ATTENTION_WEIGHTS if patterns is None else patterns:
        names = {name for name in trainable if re.search(pattern, name)}
        if patterns is not None and not names:
            msg = (
                f"got pattern {pattern!r}, which fits no trainable weight, expected one that fits "
                f"some of the square ones: {listing}"
            )
            raise ValueError(msg)
        found |= names
    if not found:
        msg = (
            f"got {type(module).__name__} without attention weights of known names, expected "
            f"patterns for some of its square weights: {listing}"
        )
        raise ValueError(msg)
    for name, parameter in trainable.items():
        if name in found and name not in square:
            msg = (
                f"got {name} of shape {tuple(parameter.shape)} among the weights to be "
                f"unitary, expected square matrices: choose among {listing}"
            )
            raise ValueError(msg)
    return {name: parameter for name, parameter in trainable.items() if name in found}


@contextmanager
def exact_products(like: Tensor) -> Iterator[None]:
    """Products of float32 in float32, whatever is allowed elsewhere: TF32 keeps three digits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(like.device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _chunks(weights: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    kinds: dict[tuple[object, ...], list[Tensor]] = {}
    for weight in weights:
        kinds.setdefault((weight.shape, weight.dtype, weight.device), []).append(weight)
    for same in kinds.values():
        count = max(1, _SCRATCH // max(1, same[0].nbytes))
        for start in range(0, len(same), count):
            yield same[start : start + count]


def _deviation(stack: Tensor) -> Tensor:
    gram: Tensor = stack.mT @ stack
    gram.diagonal(dim1=1, dim2=2).sub_(1)
    return gram


def _qr(stack: Tensor) -> Tensor:
    gram = stack.mT @ stack
    eye = torch.eye(stack.shape[-1], dtype=stack.dtype, device=stack.device)
    near = torch.linalg.matrix_norm(gram - eye) < _NEAR
    right, info = torch.linalg.cholesky_ex(gram, upper=True)
    factor: Tensor = torch.linalg.solve_triangular(right, stack, upper=True, left=False)
    rest = (~near | (info != 0)).nonzero().flatten()
    for i in rest.tolist():
        factor[i] = _householder(stack[i])
    return factor


def _householder(matrix: Tensor) -> Tensor:
    # In float64, because the factor of an ill-conditioned matrix magnifies rounding.
    q, r = torch.linalg.qr(matrix.double())
    factor: Tensor = q * torch.where(r.diagonal() < 0, -1.0, 1.0)
    return factor.to(matrix.dtype)


def _polar(stack: Tensor) -> Tensor:
    factor = stack.clone()
    for i, matrix in enumerate(stack):
        x = matrix
        while True:
            deviation = _deviation(x.unsqueeze(0))[0]
            size = float(torch.linalg.matrix_norm(deviation))
            if not size < _NEAR:
                left, _, right = torch.linalg.svd(matrix.double())
                x = (left @ right).to(matrix.dtype)
                break
            x = x - 0.5 * (x @ deviation)
            if size < 1e-4:
                break
        factor[i] = x
    return factor
