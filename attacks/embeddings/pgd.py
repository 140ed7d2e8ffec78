"""Projected gradient descent in the embedding space (Madry et al., 2018), L2 or Linf ball."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from text import check_range

Classify = Callable[[Tensor, Tensor], Tensor]
"""From tokens `[B, N, d]` and mask `[B, N]` to logits `[B, C]`."""
Norm = Literal["l2", "linf"]
Loss = Literal["margin", "cross_entropy"]


@dataclass(frozen=True, kw_only=True)
class PGDSettings:
    """Settings that every PGD has.

    Attributes:
        epsilon: radius of the ball around each embedded text in which the attack looks for a
            misclassified point; `test` takes the l2 norm, and 0 for no attack.
        steps: gradient steps of each restart.
        step_size: length of a step; 2.5 epsilon / steps if not given (Madry et al., 2018).
        restarts: number of starts: the first at the text, the others uniformly inside the ball.
    """

    epsilon: float = 1.0
    steps: int = 20
    step_size: float | None = None
    restarts: int = 1

    def __post_init__(self) -> None:
        """Check the settings."""
        check_range({"epsilon": self.epsilon}, least=0)
        check_range({"steps": self.steps, "restarts": self.restarts}, least=1)
        check_range({"step_size": self.step_size}, above=0)


@dataclass(frozen=True, kw_only=True)
class PGD(PGDSettings):
    """Projected gradient descent; the object only keeps settings.

    The ball is one per sample, over all its real tokens together. Padding is never perturbed.

    Attributes:
        norm: norm of the ball. `l2`: ||X' - X||_F <= epsilon, the norm of the OLSA paper's
            certificates; `linf`: no coordinate of any token moves by more than epsilon. Steps have
            their length in it.
        loss: loss that the steps maximise. `margin`: largest other logit minus the label's, which
            does not saturate with the probability; `cross_entropy`: as in the papers.
    """

    norm: Norm = "l2"
    loss: Loss = "margin"

    def __call__(
        self,
        classify: Classify,
        x: Tensor,
        mask: Tensor,
        labels: Tensor,
        *,
        epsilon: Tensor | None = None,
        seeds: Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Look for a misclassified point of the ball around each sample.

        It also runs under `inference_mode`; parameter gradients stay unchanged. Success is judged
        by a fresh forward pass at the point returned, without gradients.

        Args:
            classify: the model from embedded tokens on; best in evaluation mode.
            x: `[B, N, d]` embedded tokens.
            mask: `[B, N]` bool, True at real tokens.
            labels: `[B]` the classes to leave.
            epsilon: `[B]` radius per sample, instead of the setting.
            seeds: B seeds of the random starts, so that a sample's result does not depend on its
                batch, its padding or the device; fresh ones if not given.

        Returns:
            The perturbed tokens `[B, N, d]` (the first found that is misclassified, else the one
            of largest loss) and `[B]` bool, True where the prediction differs from the label.
        """
        with torch.inference_mode(False), torch.enable_grad():
            # Tensors made under inference mode cannot be saved for backward; clones can.
            x, mask, labels = x.detach().clone(), mask.clone(), labels.clone()
            radius = radii(x, self.epsilon, epsilon)
            # [B, N, d] and [B]
            best, best_loss = x.clone(), x.new_full((x.shape[0],), -torch.inf)
            success = torch.zeros_like(labels, dtype=torch.bool)
            for restart in range(self.restarts):
                # The first start is the text itself, the others are random.
                delta = torch.zeros_like(x)
                if restart:
                    delta = self._random_in_ball(x, mask, radius, seeds, restart)
                delta, value = self._ascend(
                    classify, x, delta, mask=mask, labels=labels, radius=radius
                )
                with torch.no_grad():
                    wrong = classify(x + delta, mask).argmax(dim=-1) != labels
                    # A found point is kept: other samples decide how many restarts follow.
                    better = ~success & (wrong | (value > best_loss))
                    best = torch.where(better[:, None, None], x + delta, best)
                    best_loss = torch.where(better, value, best_loss)
                    success |= wrong
                if bool(success.all()):
                    break
        return best, success

    def _ascend(
        self,
        classify: Classify,
        x: Tensor,
        delta: Tensor,
        *,
        mask: Tensor,
        labels: Tensor,
        radius: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Run one restart; returns the perturbation of largest loss on the way, and that loss.

        Misclassified ones come first: with three classes the cross-entropy may be largest where
        the prediction is still the label.
        """
        step = 2.5 * radius / self.steps if self.step_size is None else self.step_size
        # [B]: a fixed step, or a share of each sample's radius.
        step = torch.as_tensor(step, dtype=x.dtype, device=x.device).expand_as(radius)
        best, best_loss = delta, torch.full_like(radius, -torch.inf)
        success = torch.zeros_like(labels, dtype=torch.bool)
        # One more pass than steps: the last point is judged as well.
        for _ in range(self.steps + 1):
            delta = delta.detach().requires_grad_()
            logits = classify(x + delta, mask)
            value = objective(logits, labels, self.loss)
            (gradient,) = torch.autograd.grad(value.sum(), delta)
            with torch.no_grad():
                wrong = logits.argmax(dim=-1) != labels
                # Lexicographic: misclassified first, then the larger loss.
                better = (wrong & ~success) | ((wrong == success) & (value > best_loss))
                best = torch.where(better[:, None, None], delta, best)
                best_loss = torch.where(better, value, best_loss)
                success |= wrong
                # Padding gets no gradient, so that it never moves.
                upwards = steepest(gradient * mask.unsqueeze(-1), self.norm)
                delta = into_ball(delta + step[:, None, None] * upwards, radius, self.norm)
        return best.detach(), best_loss.detach()

    def _random_in_ball(
        self, x: Tensor, mask: Tensor, radius: Tensor, seeds: Sequence[int] | None, restart: int
    ) -> Tensor:
        """Draw uniformly from the ball over the real tokens."""
        # One generator per sample: padding and the batch do not shift its numbers.
        noise, lengths = torch.zeros_like(x), mask.sum(dim=1).tolist()
        scale = torch.ones_like(radius)
        generator = torch.Generator()
        for row, length in enumerate(lengths):
            if seeds is None:
                generator.seed()
            else:
                generator.manual_seed((seeds[row] << 8) + restart)
            shape = (length, x.shape[2])
            if self.norm == "linf":
                draw = 2 * torch.rand(shape, dtype=torch.float64, generator=generator) - 1
            else:
                draw = torch.randn(shape, dtype=torch.float64, generator=generator)
                share = torch.rand((), dtype=torch.float64, generator=generator)
                scale[row] = share ** (1 / draw.numel())
            noise[row, mask[row]] = draw.to(x)
        if self.norm == "l2":
            noise = noise / frobenius(noise)
        return noise * (radius * scale)[:, None, None]


def radii(x: Tensor, setting: float, per_sample: Tensor | None) -> Tensor:
    """Return `[B]`, the given radius of each sample, else the setting, as `x.dtype`."""
    radius = x.new_full((x.shape[0],), setting)
    if per_sample is not None:
        # Certified radii are float64; the perturbation has the embeddings' precision.
        radius.copy_(per_sample)
    return radius


def objective(logits: Tensor, labels: Tensor, loss: Loss) -> Tensor:
    """Return `[B]`, the loss that an attack on `[B, C]` logits raises."""
    if loss == "cross_entropy":
        return functional.cross_entropy(logits, labels, reduction="none")
    chosen = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    other_logits = logits.scatter(1, labels.unsqueeze(1), -torch.inf)
    return other_logits.amax(dim=1) - chosen


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """Return the steepest step of length 1 in a norm, for each sample of `[B, N, d]` gradients.

    It is 0 at padding, where the gradient is 0, and where it has overflowed.
    """
    gradient = without_overflow(gradient)
    if norm == "linf":
        return gradient.sign()
    # A gradient of 0 stays 0, instead of NaN.
    tiny = torch.finfo(gradient.dtype).tiny
    # Squares of small numbers would be 0, and the step far too long. A power of two rounds nothing.
    largest = gradient.abs().amax(dim=(1, 2), keepdim=True).clamp_min(tiny)
    gradient = gradient * torch.exp2(-largest.log2().floor())
    return gradient / frobenius(gradient).clamp_min(tiny)


def without_overflow(gradient: Tensor) -> Tensor:
    """Return gradients `[B, N, d]`, 0 for each sample that has an infinite entry or NaN.

    In half precision the scale of losses grows until gradients overflow.
    """
    finite = gradient.isfinite().all(dim=(1, 2), keepdim=True)
    return torch.where(finite, gradient, 0.0)


def into_ball(delta: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """Project perturbations `[B, N, d]` into the ball of each sample, of radius `[B]`."""
    limit = radius[:, None, None]
    if norm == "linf":
        return delta.clamp(-limit, limit)
    # A perturbation of 0 stays 0, instead of NaN.
    length = frobenius(delta).clamp_min(torch.finfo(delta.dtype).tiny)
    return delta * (limit / length).clamp_max(1.0)


def frobenius(x: Tensor) -> Tensor:
    """Return the `[B, 1, 1]` norm of each sample."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
    return norm
