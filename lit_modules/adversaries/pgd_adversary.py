"""Training on the worst point of a ball around each text: PGD and FGSM."""

from typing import Literal, get_args

import torch
from torch import Tensor

from attacks.embeddings.pgd import Norm, frobenius, into_ball, objective, steepest
from layers.noise import uniform
from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem
from lit_modules.adversaries.prepared import Gradients
from text import TaskName, check_choice, check_range

InnerLoss = Literal["training", "margin"]


class PGDAdversary(Adversary):
    """Trains on points found by projected gradient descent among the embeddings.

    min over weights of the largest loss in a ball (Madry et al., 2018, eq. 2.1; thesis, eq. 2.19),
    or, with `clean_weight`, its mean with the clean loss (Goodfellow et al., 2015; thesis, eq.
    2.18). The ball is one per sample, over all its real tokens together.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        norm: Norm = "l2",
        steps: int = 3,
        step_size: float | None = None,
        random_start: bool = False,
        inner_loss: InnerLoss = "training",
        clean_weight: float = 0.0,
    ) -> None:
        """Keep the settings.

        Args:
            epsilon: radius of the ball, in units of the embedding space.
            norm: norm of the perturbation: l2, over all tokens of a text together, or linf.
            steps: gradient steps.
            step_size: length of a step in that norm; 2.5 epsilon / steps if null.
            random_start: begin at a random point of the ball, not at its centre.
            inner_loss: loss that the steps maximise: the training loss, or the margin between
                logits, which does not saturate with the probability.
            clean_weight: weight of the clean loss, alpha in alpha * clean loss + (1 - alpha) *
                adversarial loss.
        """
        check_ball(epsilon, steps, norm, step_size)
        check_weight(clean_weight)
        check_choice("inner_loss", inner_loss, get_args(InnerLoss))
        self.epsilon, self.norm, self.steps, self.step_size = epsilon, norm, steps, step_size
        self.random_start, self.inner_loss = random_start, inner_loss
        self.clean_weight = clean_weight
        if inner_loss == "margin":  # a margin needs classes
            self.tasks: tuple[TaskName, ...] = ("classification", "choice")

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; steps + 1 passes forward and back, one more with a clean loss."""
        gradients = Gradients(problem.parameters(), scale=problem.scale)
        total = torch.zeros((), device=problem.labels.device)
        clean: Tensor | None = None
        first: Tensor | None = None
        if self.clean_weight > 0:
            x = problem.embed()
            delta = torch.zeros_like(x).requires_grad_()
            clean = problem.classify(x + delta)
            loss = problem.loss(clean)
            # Detached: the gradients are added up pass by pass, so that no two graphs are in
            # memory.
            total = total + self.clean_weight * loss.detach()
            # With a start at the centre, the clean pass has the gradient of the first step.
            reuse = not self.random_start and self.inner_loss == "training"
            first = gradients.add(self.clean_weight * loss, extra=delta if reuse else None)
        with problem.searching():
            delta = self._perturbation(problem, first)
        logits = problem.classify(problem.embed() + delta)
        loss = problem.loss(logits)
        if self.clean_weight == 0:
            return problem.result(loss, clean=None, adversarial=logits, values={})
        total = total + (1 - self.clean_weight) * loss.detach()
        gradients.add((1 - self.clean_weight) * loss)
        return problem.result(gradients.loss(total), clean=clean, adversarial=logits, values={})

    def _perturbation(self, problem: InnerProblem, first: Tensor | None) -> Tensor:
        """`[B, N, d]`; `first` is the gradient of the loss at the centre, or None."""
        x = problem.embed().detach()
        delta = torch.zeros_like(x)
        radius = x.new_full((len(x),), self.epsilon)
        if self.random_start:
            noise = uniform(problem.seeds, x) * problem.mask.unsqueeze(-1)
            if self.norm == "l2":
                # A random direction on the sphere of radius epsilon.
                noise = noise / frobenius(noise).clamp_min(torch.finfo(x.dtype).tiny)
            delta = noise * self.epsilon
        step = 2.5 * self.epsilon / self.steps if self.step_size is None else self.step_size
        for number in range(self.steps):
            gradient = first
            if number > 0 or gradient is None:
                gradient = self._gradient(problem, x, delta)
            # Padding does not move: else it would use up a part of the L2 ball.
            gradient = gradient.to(x.dtype) * problem.mask.unsqueeze(-1)
            delta = into_ball(delta + step * steepest(gradient, self.norm), radius, self.norm)
        return delta.detach()

    def _gradient(self, problem: InnerProblem, x: Tensor, delta: Tensor) -> Tensor:
        delta = delta.detach().requires_grad_()
        logits = problem.classify(x + delta)
        if self.inner_loss == "margin":
            value = objective(logits, problem.labels, "margin").mean()
        else:
            value = problem.loss(logits)
        (gradient,) = torch.autograd.grad(problem.scale * value, delta)
        return gradient


class FGSMAdversary(PGDAdversary):
    """Trains on clean texts and on one step along the gradient's signs: thesis, eq. 2.18."""

    def __init__(
        self, *, epsilon: float = 0.05, norm: Norm = "linf", clean_weight: float = 0.5
    ) -> None:
        """Keep the settings.

        Args:
            epsilon: length of the step, in units of the embedding space.
            norm: norm of the step: linf, along the signs of the gradient (Goodfellow et al., 2015);
                l2, along the gradient itself (Miyato et al., 2017).
            clean_weight: weight of the clean loss, alpha in alpha * clean loss + (1 - alpha) *
                adversarial loss.
        """
        super().__init__(
            epsilon=epsilon,
            norm=norm,
            steps=1,
            step_size=epsilon or None,
            clean_weight=clean_weight,
        )


def check_ball(epsilon: float, steps: int, norm: str, step_size: float | None) -> None:
    """Raise ValueError for the first setting that is out of its range."""
    check_range({"epsilon": epsilon}, least=0)
    check_range({"steps": steps}, least=1)
    check_range({"step_size": step_size}, above=0)
    check_choice("norm", norm, get_args(Norm))


def check_weight(clean_weight: float) -> None:
    """Raise ValueError unless the weight is at least 0 and below 1."""
    check_range({"clean_weight": clean_weight}, least=0, below=1)  # 1 is plain training
