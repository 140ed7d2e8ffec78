"""The fast gradient sign method in the embedding space (Goodfellow et al., 2015)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.embeddings.pgd import Classify, Loss, Norm, objective, radii, steepest


@dataclass(frozen=True, kw_only=True, slots=True)
class FGSM:
    """One step of the whole radius along the gradient; the object only keeps settings.

    It is the strongest attack on a linear model; on others PGD is stronger. In the L2 ball the step
    follows the gradient (Miyato et al., 2017), in the Linf ball its signs. Each sample has one
    ball over all its real tokens; padding never moves.

    Attributes:
        epsilon: radius of the ball, in units of the embedding space.
        norm: `linf`: the method as published; `l2`: the norm of the certificates.
        loss: `margin`: largest other logit minus the label's, which does not saturate with the
            probability; `cross_entropy`: as published.
    """

    epsilon: float = 1.0
    norm: Norm = "linf"
    loss: Loss = "margin"

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 0 <= self.epsilon < math.inf:
            msg = f"got epsilon={self.epsilon}, expected a finite number of at least 0"
            raise ValueError(msg)

    def __call__(
        self,
        classify: Classify,
        x: Tensor,
        mask: Tensor,
        labels: Tensor,
        *,
        epsilon: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Take the step from each sample; arguments and results are those of `PGD`.

        It also runs under `inference_mode`; parameter gradients stay unchanged. Success is that
        of a forward pass at the point returned.
        """
        with torch.inference_mode(False), torch.enable_grad():
            # Tensors made under inference mode cannot be saved for backward; clones can.
            x, mask, labels = x.detach().clone(), mask.clone(), labels.clone()
            radius = radii(x, self.epsilon, epsilon)
            start = x.clone().requires_grad_()
            value = objective(classify(start, mask), labels, self.loss)
            (gradient,) = torch.autograd.grad(value.sum(), start)
            with torch.no_grad():
                step = steepest(gradient * mask.unsqueeze(-1), self.norm)
                points = x + radius[:, None, None] * step
                success = classify(points, mask).argmax(dim=-1) != labels
        return points, success
