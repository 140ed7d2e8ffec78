"""Linear maps with an orthogonal matrix, trained through an unconstrained one."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from text import check_choice

Method = Literal["cayley", "newton_schulz", "householder", "qr"]
METHODS: tuple[Method, ...] = ("cayley", "newton_schulz", "householder", "qr")


def cayley(raw: Tensor) -> Tensor:
    """(I + A)^-1 (I - A) with A = raw - raw^T `[..., n, n]`: a rotation without eigenvalue -1."""
    skew = raw - raw.mT
    eye = torch.eye(raw.shape[-1], dtype=raw.dtype, device=raw.device)
    rotation: Tensor = torch.linalg.solve(eye + skew, eye - skew)
    return rotation


def newton_schulz(raw: Tensor, iterations: int = 15) -> Tensor:
    """(V V^T)^(-1/2) V by the coupled iteration of Lin and Maji (2017), as the OLSA paper does it.

    raw is V `[..., n, n]`, invertible.
    """
    # Scaled by its Frobenius norm, the iteration converges for any invertible V, fast for an
    # orthogonal one (see `OrthogonalLinear`). Scaling V "to be small", as in the paper, does not
    # make 15 iterations enough.
    scaled = raw / torch.linalg.matrix_norm(raw, keepdim=True)
    identity = torch.eye(raw.shape[-1], dtype=raw.dtype, device=raw.device)
    y, z = scaled @ scaled.mT, identity.expand_as(raw)
    for _ in range(iterations):
        step = 0.5 * (3 * identity - z @ y)
        y, z = y @ step, step @ z
    result: Tensor = z @ scaled
    return result


def householder(raw: Tensor) -> Tensor:
    """Return the product of the reflections whose vectors are the columns of tril(raw).

    The diagonal of raw `[..., n, n]` is read as 1 (LAPACK's convention).
    """
    vectors = raw.tril(diagonal=-1)
    # The 1 is the diagonal, which `vectors` does not have yet.
    tau = 2.0 / (1.0 + vectors.square().sum(dim=-2))
    unit = vectors + torch.eye(raw.shape[-1], dtype=raw.dtype, device=raw.device)
    product: Tensor = torch.linalg.householder_product(unit, tau)
    return product


def qr(raw: Tensor) -> Tensor:
    """Return the orthogonal factor Q of raw = Q R, unique as the diagonal of R is positive.

    raw `[..., n, n]` has full rank; the gradient grows as 1 / min |R_ii|.
    """
    q, r = torch.linalg.qr(raw)
    sign = r.diagonal(dim1=-2, dim2=-1).sign()
    factor: Tensor = q * torch.where(sign == 0, torch.ones_like(sign), sign).unsqueeze(-2)
    return factor


def _identical(a: Tensor, b: Tensor) -> bool:
    return a.device == b.device and a.dtype == b.dtype and torch.equal(a, b)


class OrthogonalLinear(nn.Module):
    """`count` (semi-)orthogonal maps from `in_features` to `out_features`, side by side, no bias.

    Each matrix has orthonormal rows (`out_features <= in_features`) or columns; a rectangular one
    is cut from a square orthogonal one. While training, each forward pass computes all of them in
    one batched call; without gradients the result is cached until the parameter changes.

    Shapes: `[..., in_features]` to `[..., count * out_features]`.
    """

    def __init__(
        self, in_features: int, out_features: int, *, count: int = 1, method: Method = "cayley"
    ) -> None:
        """Draw random orthogonal matrices.

        Args:
            in_features: width of the input.
            out_features: width of each map's output.
            count: number of maps.
            method: map from the unconstrained parameter to orthogonal matrices.
        """
        super().__init__()
        check_choice("method", method, METHODS)
        self.in_features, self.out_features = in_features, out_features
        self.count, self.method = count, method
        size = max(in_features, out_features)
        self.raw = nn.Parameter(torch.empty(count, size, size))
        self._cache: tuple[Tensor, Tensor] | None = None
        self._fixed: Tensor | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start from random orthogonal matrices; for Cayley from random rotations."""
        size = self.raw.shape[-1]
        with torch.no_grad():
            if self.method in ("cayley", "householder"):
                self.raw.normal_(std=1 / math.sqrt(size))
            else:
                for matrix in self.raw:
                    nn.init.orthogonal_(matrix)

    def weight(self) -> Tensor:
        """`[count, out_features, in_features]`, each slice (semi-)orthogonal up to rounding."""
        if self._fixed is not None:
            return self._fixed
        if torch.is_grad_enabled() and self.raw.requires_grad:
            return self._orthogonalize()
        # The values are compared, not a version counter: fused optimisers write without counting.
        if self._cache is None or not _identical(self._cache[0], self.raw):
            # A tensor made under inference mode could never take part in training again.
            with torch.inference_mode(False), torch.no_grad():
                self._cache = (self.raw.detach().clone(), self._orthogonalize())
        return self._cache[1]

    def _orthogonalize(self) -> Tensor:
        # Factorisations have no reduced-precision kernels, and rounding W to 8 bits of mantissa
        # would make its norm exceed 1 by far more than the certificate's slack.
        with torch.autocast(device_type=self.raw.device.type, enabled=False):
            if self.method == "cayley":
                square = cayley(self.raw)
            elif self.method == "newton_schulz":
                square = newton_schulz(self.raw)
            elif self.method == "householder":
                square = householder(self.raw)
            else:
                square = qr(self.raw)
        return square[:, : self.out_features, : self.in_features]

    def fix(self, weight: Tensor) -> None:
        """Use these matrices, `[count, out_features, in_features]`, instead of the parameter's."""
        expected = (self.count, self.out_features, self.in_features)
        if tuple(weight.shape) != expected:
            msg = f"got matrices of shape {tuple(weight.shape)}, expected {expected}"
            raise ValueError(msg)
        self._fixed = weight

    def forward(self, x: Tensor) -> Tensor:
        """Apply the maps and concatenate their outputs."""
        return functional.linear(x, self.weight().flatten(0, 1))

    def __getstate__(self) -> dict[str, object]:
        """Leave the cache out of copies and pickles."""
        return {**self.__dict__, "_cache": None}

    def extra_repr(self) -> str:
        """Return the text that `print(module)` shows."""
        return f"{self.in_features}, {self.out_features}, count={self.count}, method={self.method}"
