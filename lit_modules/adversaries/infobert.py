"""InfoBERT: two bounds on mutual information beside FreeLB (Wang et al., 2021)."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lit_modules.adversaries.adversary import InnerProblem
from lit_modules.adversaries.freelb import FreeLB, FreeLBPass
from lit_modules.adversaries.prepared import Gradients
from lit_modules.adversaries.representations import changed_sentences, find_head
from lit_modules.shared.task_module import TaskModule
from text import Batch, check_range
from text.splitmix import GOLDEN, mixed


class Critic(nn.Module):
    """The score of a word and a text, large where they belong together: two layers, softplus.

    Args:
        word: width of a word.
        sentence: width of the vector that the head reads.
        hidden: features between both layers.
    """

    def __init__(self, word: int, sentence: int, hidden: int = 300) -> None:
        super().__init__()
        # One layer on both together, in two parts: the scores of all pairs cost no more features.
        self.word, self.sentence = nn.Linear(word, hidden), nn.Linear(sentence, hidden, bias=False)
        self.score = nn.Linear(hidden, 1)

    def forward(self, words: Tensor, sentences: Tensor) -> Tensor:
        """Return `[m, m]` scores: those of word j and sentence i in row i, column j."""
        features = self.sentence(sentences).unsqueeze(1) + self.word(words).unsqueeze(0)
        scores: Tensor = functional.softplus(self.score(features.relu()).squeeze(-1))
        return scores


class InfoBERT(FreeLB):
    """FreeLB with a bottleneck of words and with anchors, words of middling gradients.

    Wang et al., "InfoBERT: Improving Robustness of Language Models from An Information Theoretic
    Perspective", 2021, and its code: each pass adds bottleneck * half the mean squared distance of
    two words of the batch (the bound of Gaussians around embedded words), and subtracts anchoring *
    InfoNCE between the anchors and the vectors that the head reads. Anchors of a text are the words
    whose gradients of the loss have ranks from low to high, as shares of its words.
    """

    tasks = ("classification",)
    critic = True

    def __init__(
        self,
        *,
        bottleneck: float = 5e-3,
        anchoring: float = 5e-3,
        low: float = 0.5,
        high: float = 0.9,
        steps: int = 3,
        step_size: float = 0.04,
        initial_size: float = 0.08,
        **base: Any,
    ) -> None:
        """Keep the settings; the defaults are those published for ANLI with RoBERTa.

        Args:
            bottleneck: weight of the upper bound, beta in the paper.
            anchoring: weight of the lower bound, alpha in the paper.
            low: rank of the first anchor by the norm of its gradient, as a share of the words.
            high: rank after the last anchor, as a share of the words.
            steps: number of passes forward and back.
            step_size: length of a step of the perturbation, as in `FreeLB`.
            initial_size: size of the initial random perturbation, as in `FreeLB`.
            base: other settings of `FreeLB`.

        Raises:
            ValueError: a setting that is out of its range.
        """
        super().__init__(steps=steps, step_size=step_size, initial_size=initial_size, **base)
        check_range({"bottleneck": bottleneck, "anchoring": anchoring}, least=0)
        check_range({"low": low, "high": high}, least=0, most=1)
        if low >= high:
            msg = f"got {low=} and {high=}, expected a lower rank below a higher one"
            raise ValueError(msg)
        self.bottleneck, self.anchoring, self.low, self.high = bottleneck, anchoring, low, high

    def build_critic(self, classifier: TaskModule) -> nn.Module:
        """See `Adversary`."""
        # On the device of the weights: a checkpoint is first tried out without memory for them.
        ids = torch.zeros(1, 1, dtype=torch.int64, device=next(classifier.parameters()).device)
        batch = Batch(ids, ids == 0, ids[0], segment_ids=ids if classifier.pairs else None)
        with torch.no_grad():
            width = classifier.embed(batch).shape[-1]
        return Critic(width, find_head(classifier).in_features)

    def run_pass(
        self, problem: InnerProblem, gradients: Gradients, x: Tensor, delta: Tensor, *, last: bool
    ) -> FreeLBPass:
        """See `FreeLB`; two passes back, as anchors are words by their gradients of the loss."""
        # In the last pass as well: it has anchors, but no further step.
        words = x + delta.requires_grad_()
        with _sentences(problem.classifier) as sentences:
            logits = problem.classify(words)
        loss = problem.loss(logits)
        (gradient,) = torch.autograd.grad(problem.scale * loss, delta, retain_graph=True)
        upper = word_spread(words, problem.mask)
        lower = self._anchoring(problem, words, sentences[0], gradient)
        loss = loss + self.bottleneck * upper - self.anchoring * lower
        gradients.add(loss / self.steps)
        values = {"bottleneck": upper.detach(), "anchoring": lower.detach()}
        return FreeLBPass(logits, loss.detach(), None if last else gradient, values)

    def _anchoring(
        self, problem: InnerProblem, words: Tensor, sentences: Tensor, gradient: Tensor
    ) -> Tensor:
        """Return the lower bound on the information between anchors and texts, a mean of chunks."""
        critic = problem.critic
        assert critic is not None  # `AdversarialTraining` builds it
        rows, columns = anchors(gradient, problem.mask, self.low, self.high)
        if not len(rows):  # texts of one word: but other processes wait for gradients
            zero: Tensor = sum(((0 * p).sum() for p in critic.parameters()), words.new_zeros(()))
            return zero
        # Shuffled, so that a chunk has anchors of many texts: independent of the padding.
        order = mixed(problem.seeds[rows] + GOLDEN * (columns + 1)).argsort()
        bounds = [
            info_nce(critic(words[rows[part], columns[part]], sentences[rows[part]]))
            for part in torch.split(order, len(problem.batch))
        ]
        return torch.stack(bounds).mean()


@contextmanager
def _sentences(classifier: TaskModule) -> Iterator[list[Tensor]]:
    """Collect the vectors `[B, d]` that the head reads."""
    seen: list[Tensor] = []

    def collect(sentences: Tensor) -> Tensor:
        seen.append(sentences)
        return sentences

    with changed_sentences(classifier, collect):
        yield seen


def word_spread(words: Tensor, mask: Tensor) -> Tensor:
    """Return half the mean squared distance of two words `[B, N, d]` of a batch, mask `[B, N]`."""
    # The mean over all pairs, in closed form; the released code draws one partner for each word.
    real = words[mask].float()
    return (real - real.mean(dim=0)).square().sum(dim=1).mean()


def anchors(gradient: Tensor, mask: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the words whose gradients have the ranks low to high.

    `gradient` is `[B, N, d]`, `mask` `[B, N]`. Of the words of a text, at least the share `low` has
    smaller gradients, and less than `high`.
    """
    norms = gradient.float().norm(dim=-1).masked_fill(~mask, torch.inf)
    # The order of an order is the rank of each word.
    ranks = norms.argsort(dim=1, stable=True).argsort(dim=1)
    lengths = mask.sum(dim=1).tolist()
    bounds = [[ceil(length * low), ceil(length * high)] for length in lengths]
    first, after = torch.tensor(bounds, device=ranks.device).unbind(dim=1)
    chosen = (ranks >= first.unsqueeze(1)) & (ranks < after.unsqueeze(1)) & mask
    rows, columns = chosen.nonzero(as_tuple=True)
    return rows, columns


def info_nce(scores: Tensor) -> Tensor:
    """Return the lower bound on mutual information of m pairs with scores `[m, m]`, in nats."""
    scores = scores.float()
    # The diagonal has the pairs; all words are compared for each text.
    return scores.diagonal().mean() - scores.logsumexp(dim=1).mean() + log(len(scores))
