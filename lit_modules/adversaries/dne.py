"""DNE: random points of the hull of a word and its synonyms (Zhou et al., 2021)."""

from contextlib import nullcontext
from math import log
from typing import Any

import torch
from torch import Tensor

from attacks.embeddings.pgd import without_overflow
from layers.noise import log_gamma
from lit_modules.adversaries.adversary import AdversarialLoss, InnerProblem
from lit_modules.adversaries.hull import Corners, HullAdversary
from lit_modules.adversaries.prepared import Gradients
from text import check_range

# Added by the released code before it takes logarithms.
_LEAST_LOG = log(1e-6)


class DNE(HullAdversary):
    """Trains on points drawn from the hulls of all words, and on steps of ascent from there.

    Zhou, Zheng, Hsieh, Chang and Huang, "Defense against Synonym Substitution-based Adversarial
    Attacks via Dirichlet Neighborhood Ensemble", 2021, and its code: the weights of the
    corners of a word are from a Dirichlet distribution with concentration alpha for the word and
    its synonyms, and alpha * decay for their synonyms. The loss is that of the drawn points plus
    the mean over steps along the gradient of the logarithms of the weights, normalised for each
    word. Predictions read the text itself: the ensemble of the code is not built in.
    """

    second_order = True

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        decay: float = 0.5,
        steps: int = 3,
        step_size: float = 10.0,
        clean_weight: float = 0.0,
        candidates: int = 24,
        **base: Any,
    ) -> None:
        """Keep the settings; the first four defaults are those of the released code.

        Args:
            alpha: concentration of the word and its synonyms; the smaller, the nearer to a corner.
            decay: factor of the concentration of synonyms of synonyms; 0 leaves them out.
            steps: steps of ascent; 0 trains on the drawn points alone.
            step_size: length of a step for each word, in units of the logarithms of the weights.
            clean_weight: weight of the loss of the text itself, which the released code lacks.
            candidates: synonyms of a word at most, those of synonyms included.
            base: other settings of `HullAdversary`.

        Raises:
            ValueError: a setting that is out of its range.
        """
        super().__init__(candidates=candidates, **base)
        check_range({"alpha": alpha, "step_size": step_size}, above=0)
        check_range({"decay": decay}, least=0, most=1)
        check_range({"steps": steps, "clean_weight": clean_weight}, least=0)
        self.alpha, self.decay, self.steps, self.step_size = alpha, decay, steps, step_size
        self.clean_weight, self.second_order = clean_weight, decay > 0

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; steps + 1 passes forward and back, one more with a clean loss."""
        gradients = Gradients(problem.parameters(), scale=problem.scale)
        total = torch.zeros((), device=problem.labels.device)
        clean: Tensor | None = None
        if self.clean_weight > 0:
            clean = problem.classify(problem.embed())
            loss = self.clean_weight * problem.loss(clean)
            total = total + loss.detach()
            gradients.add(loss)
        z: Tensor | None = None
        logits = total
        for number in range(self.steps + 1):
            last = number == self.steps
            with nullcontext() if last else problem.searching(frozen=False):
                corners = self.corners(problem)
                z = self._draw(problem, corners) if z is None else z
                z = z.detach().requires_grad_(not last)
                logits = problem.classify(corners.point(corners.weigh(z)))
                loss = problem.loss(logits) / (self.steps if number else 1)
                gradient = gradients.add(loss, extra=None if last else z)
                total = total + loss.detach()
                if gradient is not None:
                    gradient = without_overflow(gradient)
                    length = gradient.norm(dim=-1, keepdim=True)
                    direction = gradient / length.clamp_min(torch.finfo(z.dtype).tiny)
                    z = z.detach() + self.step_size * direction
        result = gradients.loss(total)
        return problem.result(result, clean=clean, adversarial=logits, values={})

    def _draw(self, problem: InnerProblem, corners: Corners) -> Tensor:
        """`[B, N, S]` logarithms of weights."""
        shape = (*problem.mask.shape, self.width)
        size = corners.orders.shape[-1]
        concentration = torch.full(shape, self.alpha, device=problem.labels.device)
        concentration[..., :size][corners.orders == 2] = self.alpha * self.decay
        logs = log_gamma(problem.seeds, concentration, concentration)[..., :size]
        weights = corners.weigh(logs)
        return weights.clamp_min(torch.finfo(weights.dtype).tiny).log().clamp_min(_LEAST_LOG)
