"""Invertible residual maps g(x) = x + c f(x): their inverse and their log-determinant.

Sources: Behrmann et al., "Invertible Residual Networks", 2019 (fixed-point iteration, power
series); Chen et al., "Residual Flows for Invertible Generative Modeling", 2019 (Russian roulette);
Walker and Ni, "Anderson Acceleration for Fixed-Point Iterations", 2011; Kim et al., "The Lipschitz
Constant of Self-Attention", 2021, section 4.1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.norms import NORMS, Norm, operator_norm_bound
from text import check_choice, check_range

# A residual after a combined step may be larger than the least one by this factor.
_GROWTH = 2.0
# Relative error of an entry of a scaled weight, in units of eps, that its bound allows for.
_SPARE = 4


class NotInvertedError(RuntimeError):
    """The inverse of a map was not found within the tolerance."""


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """The settings of the iteration that inverts a residual map.

    Attributes:
        tolerance: largest norm of g(x) - y of a sample that counts as inverted.
        most: evaluations of f at most.
        memory: steps that Anderson acceleration combines; 0 for the plain iteration.
        norm: the p-norm of a sample, all its entries taken as one vector.
    """

    tolerance: float = 1e-6
    most: int = 1000
    memory: int = 0
    norm: Norm = "inf"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_range({"tolerance": self.tolerance}, above=0)
        check_range({"most": self.most}, least=1)
        check_range({"memory": self.memory}, least=0)
        check_choice("norm", self.norm, NORMS)


class Inverted(NamedTuple):
    """Preimages, and how far they are from being exact.

    Where c f has the Lipschitz constant q < 1 in the norm of the settings, the error of a preimage
    is at most residual / (1 - q).

    Attributes:
        x: `[B, ...]` the iterate of least residual.
        residual: `[B]` norm of g(x) - y, in the precision of x.
        converged: `[B]` bool, whether the residual is within the tolerance.
        evaluations: `[B]` int64, evaluations of f for the sample.
    """

    x: Tensor
    residual: Tensor
    converged: Tensor
    evaluations: Tensor


class LogDeterminant(NamedTuple):
    """Means `[B]` over the draws of log |det J| of g at each sample, and their estimated variances.

    `bias` bounds |E[value] - log |det J||; 0 for the unbiased estimator.
    """

    value: Tensor
    variance: Tensor
    bias: float


class InvertibleResidual(nn.Module):
    """The map g(x) = x + c f(x), invertible wherever c f is a contraction."""

    def __init__(self, branch: nn.Module, *, c: float = 0.9, lipschitz: float = 1.0) -> None:
        """Keep the branch.

        Args:
            branch: f, from `[B, ...]` to the same shape; samples do not depend on each other.
            c: factor of the branch, more than 0 and less than 1.
            lipschitz: proven Lipschitz constant of f in the norm of the inversion, 1 for
                contractive layers; infinite for a branch that has none, which may fail to invert.

        Raises:
            ValueError: a `c` of 1 or more, or c f is not a contraction.
        """
        super().__init__()
        if not 0 < c < 1:
            msg = (
                f"got c={c}, expected more than 0 and less than 1: x + c f(x) need not be "
                "invertible otherwise"
            )
            raise ValueError(msg)
        if lipschitz < math.inf and not 0 <= c * lipschitz < 1:
            msg = (
                f"got c={c} and lipschitz={lipschitz}, expected a product of less than 1: scale "
                "the branch, or pass lipschitz=math.inf to try without a proof"
            )
            raise ValueError(msg)
        self.branch, self.c, self.lipschitz = branch, c, lipschitz

    @property
    def contraction(self) -> float | None:
        """The Lipschitz constant of c f, below 1; None where nothing is proven."""
        return self.c * self.lipschitz if self.lipschitz < math.inf else None

    def forward(self, x: Tensor, *context: Tensor) -> Tensor:
        """`[B, ...]` to `[B, ...]`; the context are further arguments of the branch: masks."""
        branch: Tensor = self.branch(x, *context)
        return x + self.c * branch

    def inverse(
        self, y: Tensor, *context: Tensor, settings: Inversion = Inversion(), strict: bool = True
    ) -> Inverted:
        """Find x with g(x) = y, for each sample, with the context of the branch.

        Raises:
            NotInvertedError: `strict`, and a residual is above the tolerance.
        """
        inverted = invert(
            lambda x, *more: self.c * self.branch(x, *more), y, *context, settings=settings
        )
        if strict and not bool(inverted.converged.all()):
            missed = int((~inverted.converged).sum())
            worst = float(inverted.residual.max())
            reason = (
                "the branch has no proven Lipschitz constant below 1"
                if self.contraction is None
                else f"allow more steps (most={settings.most}), or a tolerance that the precision "
                f"{y.dtype} can reach"
            )
            msg = (
                f"got a residual of {worst:.3g} after {int(inverted.evaluations.max())} "
                f"evaluations for {missed} of {len(y)} samples, expected at most "
                f"{settings.tolerance:g}: {reason}"
            )
            raise NotInvertedError(msg)
        return inverted

    def log_determinant(
        self,
        x: Tensor,
        *context: Tensor,
        draws: int = 1,
        exact_terms: int = 4,
        roulette: bool = True,
        generator: torch.Generator | None = None,
    ) -> LogDeterminant:
        """Estimate log |det J| of g, J its Jacobian at x, by the power series of the logarithm.

        log det(I + A) = sum over k of (-1)^(k+1) tr(A^k) / k, A the Jacobian of c f. Traces are
        estimated by Hutchinson's v' A^k v with random signs v. After `exact_terms` terms the series
        is either cut, with a bias of at most d q^(n+1) / ((n+1)(1 - q)), or continued for a random
        number of terms, each divided by the probability of reaching it: unbiased. Each further term
        has the probability q, so that a term of the estimate is at most d / k, and the variance is
        finite. No gradient passes through the estimate.

        Args:
            x: `[B, ...]` with d entries in each sample.
            context: further arguments of the branch.
            draws: independent estimates, each with its own signs and number of terms; with one, the
                variance is NaN.
            exact_terms: n, terms that are always included.
            roulette: continue for a random number of terms.
            generator: of the random numbers, on the CPU.

        Raises:
            ValueError: the branch has no proven constant, or a number is out of its range.
        """
        check_range({"draws": draws}, least=1)
        check_range({"exact_terms": exact_terms}, least=0 if roulette else 1)
        q = self.contraction
        if q is None:
            msg = (
                "got a branch without a Lipschitz constant, expected c f to be a contraction: the "
                "series may diverge; pass lipschitz=... of a contractive layer"
            )
            raise ValueError(msg)
        size = x[0].numel()
        with torch.enable_grad():
            point = x.detach().requires_grad_()
            image = self.c * self.branch(point, *context)
        estimates = []
        for _ in range(draws):
            # Signs give a smaller variance than normal numbers. Drawn on the CPU: the same on every
            # device.
            signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
            factors = [1.0] * exact_terms
            if roulette:
                factors += _roulette(q, generator)
            estimates.append(power_series(point, image, signs.to(x), factors))
        stacked = torch.stack(estimates)
        bias = 0.0
        if not roulette:
            bias = size * q ** (exact_terms + 1) / ((exact_terms + 1) * (1 - q))
        spread = stacked.var(dim=0) if draws > 1 else torch.full_like(stacked[0], math.nan)
        return LogDeterminant(stacked.mean(dim=0), spread / draws, bias)


def power_series(point: Tensor, image: Tensor, probe: Tensor, factors: list[float]) -> Tensor:
    """Return one estimate `[B]` of the series: the sum of (-1)^(k+1) factor_k v' A^k v / k.

    A is the Jacobian at the point `[B, ...]`, which requires gradients; the image has its graph,
    and the probe is v.
    """
    total = torch.zeros(len(point), dtype=torch.float64, device=point.device)
    vector = probe
    for k, factor in enumerate(factors, start=1):
        [vector] = torch.autograd.grad(image, point, vector, retain_graph=True)
        term = (vector * probe).flatten(1).to(torch.float64).sum(dim=1)
        total = total + (-1) ** (k + 1) * factor * term / k
    return total


def _roulette(q: float, generator: torch.Generator | None) -> list[float]:
    """Return the factors 1 / q, 1 / q^2, ... of a random number of terms."""
    factors: list[float] = []
    while q > 0 and float(torch.rand((), generator=generator, dtype=torch.float64)) < q:
        factors.append((factors[-1] if factors else 1.0) / q)
    return factors


def invert(
    branch: Callable[..., Tensor], y: Tensor, *context: Tensor, settings: Inversion = Inversion()
) -> Inverted:
    """Find the fixed point of x = y - h(x) for each sample, where h is `branch`.

    With Anderson acceleration the next iterate combines the last ones by least squares of their
    residuals. The context are further arguments of the branch, with the same first dimension.
    """
    batch = len(y)
    best, least = y.clone(), torch.full((batch,), math.inf, dtype=y.dtype, device=y.device)
    counts = torch.zeros(batch, dtype=torch.int64, device=y.device)
    # Of the active samples: indices, iterates, and the plain steps from the best iterates.
    active = torch.arange(batch, device=y.device)
    x, rows, rest, plain = y.clone(), y, context, y.clone()
    accelerated = torch.zeros(batch, dtype=torch.bool, device=y.device)
    waited = torch.zeros_like(counts)
    past, order = _History(settings.memory, y), 2 if settings.norm == "2" else math.inf
    with torch.no_grad():
        for _ in range(settings.most):
            if not len(active):
                break
            image = rows - branch(x, *rest)
            step = image - x
            residual = torch.linalg.vector_norm(step.flatten(1), order, dim=1)
            counts[active] += 1
            better = residual < least[active]
            chosen = active[better]
            best[chosen], least[chosen] = x[better], residual[better]
            plain[better] = image[better]
            waited = torch.where(better, 0, waited + 1)
            # If the residual becomes much larger than the least one so far, or does not fall for
            # `memory` steps, return to the best iterate and take the plain step from there, with
            # which every contraction converges.
            back = accelerated & ((residual > _GROWTH * least[active]) | (waited > settings.memory))
            waited = torch.where(back, 0, waited)
            following, accelerated = past.next(image, step, back)
            x = torch.where(back.view(-1, *[1] * (x.dim() - 1)), plain, following)
            # Converged samples leave the iteration, and those with infinite iterates.
            going = (least[active] > settings.tolerance) & residual.isfinite()
            if not bool(going.all()):
                x, rows, plain, active = x[going], rows[going], plain[going], active[going]
                accelerated, waited = accelerated[going], waited[going]
                rest = tuple(part[going] for part in rest)
                past.keep(going)
    return Inverted(best, least, least <= settings.tolerance, counts)


class _History:
    """The last steps of Anderson acceleration, of the samples that are active."""

    def __init__(self, memory: int, like: Tensor) -> None:
        self.memory = memory
        empty = like.new_zeros(0, len(like), like[0].numel() if len(like) else 0)
        self.images, self.steps = empty, empty
        self.usable = torch.zeros(0, len(like), dtype=torch.bool, device=like.device)

    def next(self, image: Tensor, step: Tensor, forget: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next iterate of each sample, and whether it differs from the plain one.

        Args:
            image: `[A, ...]` the plain step from the iterates.
            step: `[A, ...]` its difference from these.
            forget: `[A]` bool, samples that restart.
        """
        if self.memory == 0:
            return image, torch.zeros_like(forget)
        flat, step = image.flatten(1), step.flatten(1)
        following = flat
        # [m, A]: a forgotten step has the weight 0.
        self.usable = self.usable & ~forget
        if len(self.steps):
            use = self.usable.mT.unsqueeze(-1)
            steps = ((step - self.steps).transpose(0, 1) * use).to(torch.float64)
            images = ((flat - self.images).transpose(0, 1) * use).to(torch.float64)
            gram = steps @ steps.mT
            eye = torch.eye(gram.shape[1]).to(gram)
            # Steps that are nearly parallel make a matrix that cannot be solved.
            shift = 1e-10 * gram.diagonal(dim1=1, dim2=2).sum(dim=1) + torch.finfo(gram.dtype).tiny
            gram = gram + shift[:, None, None] * eye
            right = steps @ step.to(torch.float64).unsqueeze(-1)
            # A failed sample with infinite numbers must not stop the solver for the others.
            sound = gram.isfinite().all(dim=2).all(dim=1)[:, None, None]
            weights = torch.linalg.solve(torch.where(sound, gram, eye), right)
            following = (flat - (weights * images).sum(dim=1)).to(flat.dtype)
        self.images = torch.cat([self.images, flat.unsqueeze(0)])[-self.memory :]
        self.steps = torch.cat([self.steps, step.unsqueeze(0)])[-self.memory :]
        accelerated = self.usable.any(dim=0)
        self.usable = torch.cat([self.usable, ~forget.unsqueeze(0)])[-self.memory :]
        return following.reshape(image.shape), accelerated

    def keep(self, going: Tensor) -> None:
        """Remove the samples that have left the iteration."""
        self.images, self.steps = self.images[:, going], self.steps[:, going]
        self.usable = self.usable[:, going]


class ContractiveLinear(nn.Linear):
    """A linear map whose weight is divided by its norm where that is above 1: 1-Lipschitz.

    On tokens `[..., n]` the map is also 1-Lipschitz for all of them as one vector. The norm is a
    proven upper bound (`operator_norm_bound`); a power iteration (Kim et al., appendix B) would
    approach it from below. No gradient passes through it.
    """

    def __init__(self, inputs: int, outputs: int, *, norm: Norm = "2") -> None:
        """Args: inputs: width n. outputs: width of the result. norm: the p-norm of vectors."""
        check_choice("norm", norm, NORMS)
        super().__init__(inputs, outputs)
        self.norm = norm

    def contracted(self) -> Tensor:
        """`[m, n]`, the weight that is applied."""
        # Division and product round each entry; the Frobenius norm of all these errors is at most
        # so much of the spectral norm.
        rank = min(self.weight.shape)
        spare = 1 + _SPARE * torch.finfo(self.weight.dtype).eps * rank**0.5
        bound = operator_norm_bound(self.weight, self.norm) * spare
        # Smaller weights are not enlarged.
        weight: Tensor = self.weight * (1 / bound.clamp_min(1.0)).to(self.weight.dtype)
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """`[..., n]` to `[..., m]`."""
        return functional.linear(x, self.contracted(), self.bias)
