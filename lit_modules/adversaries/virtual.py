"""Virtual adversarial training: smooth predictions around a text, without its label."""

from typing import get_args

import torch
from torch import Tensor

from attacks.embeddings.pgd import Norm, frobenius, steepest, without_overflow
from layers.noise import normal
from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem
from text import check_choice, check_range


class VirtualAdversary(Adversary):
    """Adds the divergence of the predictions in the direction of its largest increase.

    Miyato et al., "Virtual Adversarial Training", 2019, algorithm 1, among the embeddings as in
    Miyato et al., 2017: the loss is that of training plus weight * KL(p(x) || p(x + r)), where p(x)
    is held fixed and r is found by power iteration.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        norm: Norm = "l2",
        steps: int = 1,
        xi: float = 0.1,
        weight: float = 1.0,
    ) -> None:
        """Keep the settings.

        Args:
            epsilon: length of the perturbation, in units of the embedding space.
            norm: norm of the perturbation: l2, over all tokens of a text together, or linf.
            steps: power iterations.
            xi: length of the step of a power iteration.
            weight: weight of the divergence, next to the training loss.
        """
        check_range({"epsilon": epsilon, "xi": xi}, above=0)
        check_range({"weight": weight}, least=0)
        check_range({"steps": steps}, least=1)
        check_choice("norm", norm, get_args(Norm))
        self.epsilon, self.norm, self.steps, self.xi = epsilon, norm, steps, xi
        self.weight = weight

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; steps + 2 passes forward, as many back."""
        clean = problem.classify(problem.embed())
        fixed = clean.detach()
        with problem.searching():
            delta = self._perturbation(problem, fixed)
        adversarial = problem.classify(problem.embed() + delta)
        moved = problem.divergence(fixed, adversarial)
        loss = problem.loss(clean) + self.weight * moved
        values = {"divergence": moved}
        return problem.result(loss, clean=clean, adversarial=adversarial, values=values)

    def _perturbation(self, problem: InnerProblem, fixed: Tensor) -> Tensor:
        x = problem.embed().detach()
        real = problem.mask.unsqueeze(-1)
        direction = normal(problem.seeds, x) * real
        for _ in range(self.steps):
            length = frobenius(direction).clamp_min(torch.finfo(x.dtype).tiny)
            # One power iteration on the Hessian of the divergence, by its gradient near 0.
            trial = (self.xi * direction / length).requires_grad_()
            value = problem.divergence(fixed, problem.classify(x + trial))
            (gradient,) = torch.autograd.grad(problem.scale * value, trial)
            direction = without_overflow(gradient.to(x.dtype) * real)
        return (self.epsilon * steepest(direction, self.norm)).detach()
