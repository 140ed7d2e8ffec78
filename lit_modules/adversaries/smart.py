"""SMART: smooth predictions around each text, and small steps (Jiang et al., 2020)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from attacks.embeddings.pgd import Norm, frobenius, into_ball, without_overflow
from layers.noise import normal
from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem
from lit_modules.adversaries.pgd_adversary import check_ball
from text import TaskName, check_range

# Added by the released code to the largest entry before it divides by it.
_RELEASED_EPSILON = 1e-6


class SMART(Adversary):
    """Adds a smoothness-inducing regulariser and a Bregman proximal term to the training loss.

    Jiang et al., "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models
    through Principled Regularized Optimization", 2020: loss + weight * max over a ball of
    KL(p || q) + KL(q || p) between the predictions at a text and around it (section 3.1), + bregman
    times the same between the weights and their moving average (section 3.2).

    The released code leaves the ball: it divides noise plus gradient by the largest entry of each
    token, so that this entry becomes 1 for any epsilon and step size (`released`). The paper's
    epsilon, 1e-5, is too small for single precision (docs/methods/adversarial.md): give a larger
    one.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1e-5,
        norm: Norm = "linf",
        steps: int = 1,
        step_size: float = 1e-3,
        noise: float = 1e-5,
        weight: float = 1.0,
        bregman: float = 1.0,
        average_decay: Sequence[float] = (0.99, 0.999),
        released: bool = False,
    ) -> None:
        """Keep the settings; the defaults are the published ones.

        Args:
            epsilon: radius of the ball, in units of the embedding space.
            norm: norm of the ball: linf, or l2 over all tokens of a text together.
            steps: steps of projected gradient ascent, each along the gradient divided by its norm.
            step_size: length of a step in that norm.
            noise: standard deviation of the initial perturbation.
            weight: weight of the regulariser, lambda in the paper.
            bregman: weight of the proximal term, mu in the paper; 0 saves its forward pass.
            average_decay: decay (beta) of the moving average, in the first tenth and after it.
            released: use the steps of the released code: no ball, and no proximal term.
        """
        check_ball(epsilon, steps, norm, step_size)
        check_range({"weight": weight, "bregman": bregman}, least=0)
        check_range({"noise": noise}, above=0)
        self.average_decay = decay = [float(beta) for beta in average_decay]
        if len(decay) != 2 or not all(0 <= beta < 1 for beta in decay):
            msg = f"got average_decay={decay}, expected two numbers of at least 0 and below 1"
            raise ValueError(msg)
        if released and norm != "linf":
            msg = f"got {released=} with {norm=}, expected linf: the released code has no other"
            raise ValueError(msg)
        self.epsilon, self.norm, self.steps, self.step_size = epsilon, norm, steps, step_size
        self.noise, self.weight, self.bregman, self.released = noise, weight, bregman, released
        if released:  # the formula of its inner step needs classes
            self.tasks: tuple[TaskName, ...] = ("classification", "choice")

    @property
    def averages(self) -> bool:
        return self.bregman > 0 and not self.released

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; steps + 2 passes forward and back, one more forward for the average."""
        clean = problem.classify(problem.embed())
        with problem.searching():
            delta = self.perturbation(problem, clean.detach())
        adversarial = problem.classify(problem.embed() + delta)
        if self.released:
            smooth = _both_detached(clean, adversarial).mean()
        else:
            smooth = problem.divergence(clean, adversarial, symmetric=True)
        loss = problem.loss(clean) + self.weight * smooth
        values = {"smoothness": smooth}
        averaged = problem.averaged_logits()
        if averaged is not None:
            proximal = problem.divergence(clean, averaged, symmetric=True)
            loss = loss + self.bregman * proximal
            values["proximal"] = proximal
        return problem.result(loss, clean=clean, adversarial=adversarial, values=values)

    def perturbation(self, problem: InnerProblem, clean: Tensor) -> Tensor:
        """`[B, N, d]`, in the ball unless `released`, 0 at padding; from clean logits `[B, C]`."""
        x = problem.embed().detach()
        real = problem.mask.unsqueeze(-1)
        delta = normal(problem.seeds, x) * self.noise * real
        radius = x.new_full((len(x),), self.epsilon)
        if not self.released:
            delta = into_ball(delta, radius, self.norm)
        for _ in range(self.steps):
            trial = delta.detach().requires_grad_()
            logits = problem.classify(x + trial)
            if self.released:
                value = _released_divergence(logits, clean).sum()
            else:
                value = problem.divergence(clean, logits, symmetric=True)
            # The scale cancels in the division by the norm, except in the released formula.
            (gradient,) = torch.autograd.grad(problem.scale * value, trial)
            gradient = without_overflow(gradient.to(x.dtype) * real)
            if self.released:
                moved = delta + self.step_size * gradient / problem.scale
                largest = moved.abs().amax(dim=-1, keepdim=True)
                delta = moved / (largest + _RELEASED_EPSILON)
            else:
                moved = delta + self.step_size * gradient / _length(gradient, self.norm)
                delta = into_ball(moved, radius, self.norm)
        return delta.detach()


def _length(gradient: Tensor, norm: Norm) -> Tensor:
    """`[B, 1, 1]` norm of each sample's gradient, never 0."""
    tiny = torch.finfo(gradient.dtype).tiny
    if norm == "linf":
        return gradient.abs().amax(dim=(1, 2), keepdim=True).clamp_min(tiny)
    return frobenius(gradient).clamp_min(tiny)


def _released_divergence(logits: Tensor, target: Tensor) -> Tensor:
    """`[B]`: sum over classes of 2 p (log-odds of p - log-odds of q), the odds held fixed."""
    # The objective of the released inner step, instead of a divergence.
    p, q = functional.softmax(logits, dim=1), functional.softmax(target, dim=1)
    eps = 1e-6
    distance = torch.logit(p.detach(), eps=eps) - torch.logit(q, eps=eps)
    return 2 * (p * distance).sum(dim=1)


def _both_detached(first: Tensor, second: Tensor) -> Tensor:
    """`[B]`: KL(q || p) + KL(p || q), where each is the fixed target of the other."""
    p, q = functional.log_softmax(first, dim=1), functional.log_softmax(second, dim=1)
    fixed_p, fixed_q = p.detach(), q.detach()
    reverse = (fixed_q.exp() * (fixed_q - p)).sum(dim=1)
    return reverse + (fixed_p.exp() * (fixed_p - q)).sum(dim=1)
