"""FreeLB: gradients of the weights at every step of the perturbation (Zhu et al., 2020)."""

from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from attacks.embeddings.pgd import Norm, into_ball, steepest, without_overflow
from layers.noise import uniform
from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem
from lit_modules.adversaries.prepared import Gradients
from text import check_choice, check_range


class FreeLBPass(NamedTuple):
    """The results of a pass forward and back.

    Attributes:
        logits: of the perturbed texts.
        loss: its loss, detached.
        gradient: of the perturbation, up to a factor of each text; None in the last pass, after
            which the perturbation takes no further step.
        values: further scalars to log, detached.
    """

    logits: Tensor
    loss: Tensor
    gradient: Tensor | None
    values: Mapping[str, Tensor] = MappingProxyType({})


class FreeLB(Adversary):
    """Trains on the mean loss over the steps of a perturbation, without extra passes.

    Zhu et al., "FreeLB: Enhanced Adversarial Training for Natural Language Understanding", 2020,
    algorithm 1: each of the K passes gives a K-th of the weights' gradient, and the next step of
    the perturbation. Dropout masks are those of the first pass in all of them (section 3.3).
    """

    def __init__(
        self,
        *,
        steps: int = 2,
        step_size: float = 0.1,
        initial_size: float = 0.6,
        epsilon: float | None = None,
        norm: Norm = "l2",
    ) -> None:
        """Keep the settings; the defaults are those published for SST-2 with ALBERT.

        Args:
            steps: number of passes forward and back, K in the paper.
            step_size: length of a step of the perturbation, in units of the embedding space.
            initial_size: size of the initial random perturbation: uniform numbers up to it (linf),
                or to it divided by sqrt(n d) for n tokens of width d (l2).
            epsilon: largest norm of a text's perturbation; no limit if null, as published.
            norm: norm of the perturbation: l2, over all tokens of a text together, or linf.
        """
        check_range({"steps": steps}, least=1)
        check_range({"step_size": step_size, "initial_size": initial_size}, least=0)
        check_range({"epsilon": epsilon}, above=0)
        check_choice("norm", norm, get_args(Norm))
        self.steps, self.step_size, self.initial_size = steps, step_size, initial_size
        self.epsilon, self.norm = epsilon, norm

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; K passes forward and back."""
        gradients = Gradients(problem.parameters(), scale=problem.scale)
        total = torch.zeros((), device=problem.labels.device)
        values: dict[str, Tensor] = {}
        clean: Tensor | None = None
        x = problem.embed()
        # `logits` gets a value for the type checker: there is at least one pass.
        logits = delta = self._start(problem, x)
        for number in range(self.steps):
            last = number == self.steps - 1
            # The search includes all passes except the last, which plain training needs as well.
            with nullcontext() if last else problem.searching(frozen=False):
                # The tokens are embedded again: the graph of the previous pass has been freed.
                x = problem.embed() if number else x
                logits, loss, gradient, more = self.run_pass(
                    problem, gradients, x, delta.detach(), last=last
                )
                total = total + loss / self.steps
                for name, value in more.items():
                    values[name] = values.get(name, 0.0) + value / self.steps
                if gradient is not None:
                    delta = self._step(problem, delta.detach(), gradient)
            # Without an initial perturbation, the first pass is the clean one.
            if number == 0 and self.initial_size == 0:
                clean = logits
        loss = gradients.loss(total)
        return problem.result(loss, clean=clean, adversarial=logits, values=values)

    def run_pass(
        self, problem: InnerProblem, gradients: Gradients, x: Tensor, delta: Tensor, *, last: bool
    ) -> FreeLBPass:
        """Run one pass forward and back; `gradients` takes its share of those of the weights.

        `x` `[B, N, d]` are embedded texts, `delta` is their perturbation, without a graph.
        """
        # The last pass needs no further step of the perturbation.
        delta.requires_grad_(not last)
        logits = problem.classify(x + delta)
        loss = problem.loss(logits)
        gradient = gradients.add(loss / self.steps, extra=None if last else delta)
        return FreeLBPass(logits, loss.detach(), gradient)

    def _start(self, problem: InnerProblem, x: Tensor) -> Tensor:
        noise = uniform(problem.seeds, x.detach()) * problem.mask.unsqueeze(-1)
        if self.norm == "linf":
            return noise * self.initial_size
        # By the number of coordinates of a text, so that long texts are not perturbed more.
        width = x.shape[2]
        return noise * self.initial_size / (problem.mask.sum(dim=1) * width).sqrt()[:, None, None]

    def _step(self, problem: InnerProblem, delta: Tensor, gradient: Tensor) -> Tensor:
        """Take one step of ascent; for linf, the gradient is divided by its largest entry."""
        gradient = without_overflow(gradient.to(delta.dtype) * problem.mask.unsqueeze(-1))
        if self.norm == "linf":
            largest = gradient.abs().amax(dim=(1, 2), keepdim=True)
            direction = gradient / largest.clamp_min(torch.finfo(delta.dtype).tiny)
        else:
            direction = steepest(gradient, "l2")
        delta = delta + self.step_size * direction
        if self.epsilon is None:
            return delta
        return into_ball(delta, delta.new_full((len(delta),), self.epsilon), self.norm)
