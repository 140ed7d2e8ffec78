"""TAVAT: perturbations that belong to words of the vocabulary (Li and Qiu, 2021)."""

from contextlib import nullcontext

import torch
from torch import Tensor, distributed, nn

from attacks.embeddings.pgd import frobenius, into_ball, steepest, without_overflow
from layers.noise import uniform
from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem
from lit_modules.adversaries.gathering import rank_and_world
from lit_modules.adversaries.prepared import Gradients
from text import check_range

_TABLE = "words"


class TAVAT(Adversary):
    """Trains on the mean loss over the steps of a perturbation of words and of texts.

    Li and Qiu, "TAVAT: Token-Aware Virtual Adversarial Training for Language Understanding", 2021,
    algorithm 1. The perturbation of a text is the sum of delta, as in FreeLB, and of eta, whose
    row for a word is that of the last batch with this word. The row of a word moves along its own
    gradient; then it is scaled by its norm relative to the largest row of the text.
    """

    remembers = True

    def __init__(
        self,
        *,
        steps: int = 2,
        step_size: float = 0.05,
        initial_size: float = 0.2,
        epsilon: float | None = 0.5,
    ) -> None:
        """Keep the settings; the defaults are those of the benchmark of Li et al. (2021).

        Args:
            steps: number of passes forward and back, K in the paper.
            step_size: length of a step, of the text and of each word, in units of the embedding
                space (alpha).
            initial_size: size of the initial perturbations (sigma): uniform numbers up to it,
                divided by sqrt(d) for a word of width d, and by sqrt(n d) for a text of n tokens.
            epsilon: largest norm of a text's perturbation; no limit if null.
        """
        check_range({"steps": steps}, least=1)
        check_range({"step_size": step_size, "initial_size": initial_size}, least=0)
        check_range({"epsilon": epsilon}, above=0)
        self.steps, self.step_size = steps, step_size
        self.initial_size, self.epsilon = initial_size, epsilon

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; K passes forward and back."""
        gradients = Gradients(problem.parameters(), scale=problem.scale)
        total = torch.zeros((), device=problem.labels.device)
        x = problem.embed()
        table = self._table(problem, x)
        ids, real = problem.batch.input_ids, problem.mask.unsqueeze(-1)
        words = table[ids].to(x.dtype) * real
        size = (problem.mask.sum(dim=1) * x.shape[2]).sqrt()[:, None, None]
        text = uniform(problem.seeds, x.detach()) * real * self.initial_size / size
        words, text = self._limit(words, text)
        logits = x
        for number in range(self.steps):
            last = number == self.steps - 1
            # As in FreeLB: plain training needs the last pass as well.
            with nullcontext() if last else problem.searching(frozen=False):
                x = problem.embed() if number else x
                # One gradient serves both: the loss depends on their sum.
                delta = (words + text).detach().requires_grad_(not last)
                logits = problem.classify(x + delta)
                loss = problem.loss(logits)
                gradient = gradients.add(loss / self.steps, extra=None if last else delta)
                total = total + loss.detach() / self.steps
                if gradient is not None:
                    gradient = without_overflow(gradient.to(x.dtype) * real)
                    text = text + self.step_size * steepest(gradient, "l2")
                    words = scaled_rows(words + self.step_size * _unit_rows(gradient))
                    words, text = self._limit(words, text)
        _remember(table, ids[problem.mask], words[problem.mask])
        return problem.result(gradients.loss(total), clean=None, adversarial=logits, values={})

    def _table(self, problem: InnerProblem, x: Tensor) -> nn.Parameter:
        """`[V, d]`: the perturbation of each word, made in the first step of a run."""
        if _TABLE not in problem.memory:
            size = problem.classifier.require_tokenizer().vocab_size
            generator = torch.Generator().manual_seed(problem.seed)
            table = 2 * torch.rand(size, x.shape[2], generator=generator) - 1
            table *= self.initial_size / x.shape[2] ** 0.5
            problem.memory[_TABLE] = nn.Parameter(table.to(x.device), requires_grad=False)
        stored: nn.Parameter = problem.memory[_TABLE]
        return stored

    def _limit(self, words: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """Shrink both parts by one factor, so that their sum is in the ball."""
        if self.epsilon is None:
            return words, text
        delta = words + text
        inside = into_ball(delta, delta.new_full((len(delta),), self.epsilon), "l2")
        factor = frobenius(inside) / frobenius(delta).clamp_min(torch.finfo(delta.dtype).tiny)
        return words * factor, text * factor


def scaled_rows(words: Tensor) -> Tensor:
    """Multiply each row of `[B, N, d]` by its norm relative to the largest one of its text."""
    norms: Tensor = torch.linalg.vector_norm(words, dim=2, keepdim=True)
    largest = norms.amax(dim=1, keepdim=True)
    return words * norms / largest.clamp_min(torch.finfo(words.dtype).tiny)


def _unit_rows(gradient: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(gradient, dim=2, keepdim=True)
    return gradient / norms.clamp_min(torch.finfo(gradient.dtype).tiny)


@torch.no_grad()
def _remember(table: Tensor, ids: Tensor, words: Tensor) -> None:
    """Replace the rows of the words of all processes by their mean over the batch, if finite."""
    sums, counts = torch.zeros_like(table), table.new_zeros(len(table))
    sums.index_add_(0, ids, words.to(table.dtype))
    counts.index_add_(0, ids, torch.ones_like(ids, dtype=table.dtype))
    if rank_and_world()[1] > 1:
        distributed.all_reduce(sums)
        distributed.all_reduce(counts)
    present = (counts > 0) & sums.isfinite().all(dim=1)
    table[present] = sums[present] / counts[present].unsqueeze(1)
