"""ASCC: the worst sparse combination of a word and its synonyms (Dong et al., 2021)."""

from typing import Any

import torch
from torch import Tensor

from attacks.embeddings.pgd import without_overflow
from layers.noise import normal
from lit_modules.adversaries.adversary import AdversarialLoss, InnerProblem
from lit_modules.adversaries.hull import Corners, HullAdversary
from text import check_range

# Of Adam, as torch has them.
_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


class ASCC(HullAdversary):
    """Adds the divergence of the predictions at the worst point of the hulls of all words.

    Dong, Luu, Ji and Liu, "Towards Robustness Against Natural Language Word Substitutions", 2021,
    and its code: the weights of the corners maximise KL(clean || perturbed) - sparsity * the mean
    entropy of the weights of a word, by steps of Adam on their logits; the loss is clean_weight *
    that of the text + divergence_weight * KL(clean || perturbed) + adversarial_weight * that of the
    point.
    """

    def __init__(
        self,
        *,
        steps: int = 10,
        step_size: float = 10.0,
        sparsity: float = 0.25,
        clean_weight: float = 1.0,
        divergence_weight: float = 4.0,
        adversarial_weight: float = 0.0,
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            steps: steps of Adam.
            step_size: step size of Adam, on the logits of the weights.
            sparsity: weight of the entropy for each text: a mean over its words. The released code
                has 15, divided by the texts of a batch (docs/methods/defences.md).
            clean_weight: weight of the loss of the clean text.
            divergence_weight: weight of the divergence.
            adversarial_weight: weight of the loss at the worst point.
            base: settings of `HullAdversary`.

        Raises:
            ValueError: a setting that is out of its range, or no weight above 0.
        """
        super().__init__(**base)
        check_range({"steps": steps}, least=1)
        check_range({"step_size": step_size}, above=0)
        weights = {
            "clean_weight": clean_weight,
            "divergence_weight": divergence_weight,
            "adversarial_weight": adversarial_weight,
        }
        check_range({"sparsity": sparsity, **weights}, least=0)
        if clean_weight + adversarial_weight == 0:
            msg = (
                f"got {clean_weight=} and {adversarial_weight=}, expected one of them above 0: no "
                "other part of the loss knows the labels"
            )
            raise ValueError(msg)
        self.steps, self.step_size, self.sparsity = steps, step_size, sparsity
        self.clean_weight, self.divergence_weight = clean_weight, divergence_weight
        self.adversarial_weight = adversarial_weight

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; steps + 2 passes forward and back."""
        clean = problem.classify(problem.embed())
        with problem.searching():
            weights = self._weights(problem, clean.detach())
        adversarial = problem.classify(self.corners(problem).point(weights))
        moved = problem.divergence(clean, adversarial)
        loss = self.clean_weight * problem.loss(clean) + self.divergence_weight * moved
        if self.adversarial_weight:
            loss = loss + self.adversarial_weight * problem.loss(adversarial)
        values = {"divergence": moved}
        return problem.result(loss, clean=clean, adversarial=adversarial, values=values)

    def _weights(self, problem: InnerProblem, clean: Tensor) -> Tensor:
        """`[B, N, S]` weights of the corners."""
        with torch.no_grad():
            corners = self.corners(problem)
        shape = (*problem.mask.shape, self.width)
        kind = torch.promote_types(clean.dtype, torch.float32)
        logits = 0.1 * normal(problem.seeds, torch.empty(shape, dtype=kind, device=clean.device))
        logits = logits[..., : corners.orders.shape[-1]]
        mean = square = torch.zeros_like(logits)
        for number in range(1, self.steps + 1):
            trial = logits.detach().requires_grad_()
            value = self._objective(problem, corners, trial, clean)
            (gradient,) = torch.autograd.grad(problem.scale * value, trial)
            gradient = without_overflow(gradient) / problem.scale
            mean = _FIRST * mean + (1 - _FIRST) * gradient
            square = _SECOND * square + (1 - _SECOND) * gradient.square()
            size = (square / (1 - _SECOND**number)).sqrt() + _EPSILON
            logits = logits + self.step_size * mean / (1 - _FIRST**number) / size
        return corners.weigh(logits)

    def _objective(
        self, problem: InnerProblem, corners: Corners, logits: Tensor, clean: Tensor
    ) -> Tensor:
        """Return what the weights maximise: a sum over texts, so that no text depends on others."""
        weights = corners.weigh(logits)
        perturbed = problem.classify(corners.point(weights))
        task = problem.classifier.task
        divergences = task.divergences(clean, perturbed, problem.labels)
        # 0 log 0 = 0, also for its gradient.
        logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
        entropy = -(weights * logs).sum(dim=-1)
        lengths = problem.mask.sum(dim=1)
        return (divergences - self.sparsity * entropy.sum(dim=1) / lengths).sum()
