"""RanMASK: trains on masked texts, and predicts by votes over them (Zeng et al., 2023)."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from certify.smoothing.random_texts import MaskedWords
from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem, TrainingLoop
from lit_modules.shared.task_module import TaskModule
from text import Batch, PretrainedTokenizer, Tokenizer, check_range
from text.splitmix import GOLDEN, mixed, wrapped


class RanMASK(Adversary):
    """Masks most tokens of each text in training, and predicts the class of most masked texts.

    Zeng et al., "Certified Robustness to Text Adversarial Attacks by Randomized [MASK]", 2023,
    sections 3 and 4. A text has the same masks in each prediction: they depend on its tokens only.
    """

    tasks = ("classification",)

    def __init__(self, *, rate: float = 0.7, votes: int = 100) -> None:
        """Keep the settings; the defaults are those of the released code.

        Args:
            rate: share of the tokens of a text that are masked: 0.3 in the paper for SST-2, 0.9
                for AG News.
            votes: masked texts of a prediction; 0: the classifier predicts clean texts.
        """
        check_range({"rate": rate}, above=0, below=1)
        check_range({"votes": votes}, least=0)
        self.rate, self.votes = rate, votes

    def start(self, loop: TrainingLoop) -> None:
        """See `Adversary`.

        Raises:
            ValueError: the tokenizer has no token that masks others.
        """
        mask_token(loop.classifier.require_tokenizer())

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; one pass forward and back."""
        masked = self.masked(problem.classifier, problem.batch, problem.seeds)
        # Not by the classifier itself: the clean pass of a logged step would draw new dropout.
        logits = problem.classify(problem.classifier.embed(masked))
        return problem.result(problem.loss(logits), clean=None, adversarial=logits, values={})

    def predict(self, classifier: TaskModule, batch: Batch) -> Tensor:
        """See `Adversary`: `[B, C]` logarithms of the shares of the votes, C more votes evenly."""
        if not self.votes:
            return super().predict(classifier, batch)
        seeds = _text_seeds(batch)
        counts: Tensor | float = 0.0
        for vote in range(self.votes):
            drawn = mixed(seeds + wrapped(GOLDEN * (vote + 1)))
            logits = classifier.predict_logits(self.masked(classifier, batch, drawn))
            counts = counts + functional.one_hot(logits.argmax(dim=1), logits.shape[1])
        assert isinstance(counts, Tensor)  # there is a vote
        # Without the additional votes a class without votes would have an infinite score.
        return ((counts + 1) / (self.votes + counts.shape[1])).log()

    def masked(self, classifier: TaskModule, batch: Batch, seeds: Tensor) -> Batch:
        """Return a batch with random tokens masked.

        The masks of a text depend on its own of the seeds, `[B]` int64, only.
        """
        mask, special = mask_token(classifier.require_tokenizer())
        ids = batch.input_ids
        candidates = batch.mask & ~torch.isin(ids, torch.tensor(special, device=ids.device))
        position = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        # Shifted to be positive; other positions come last.
        keys = (mixed(seeds.unsqueeze(1) + GOLDEN * position) >> 2) & (2**62 - 1)
        ranks = keys.masked_fill(~candidates, 2**62).argsort(dim=1).argsort(dim=1)
        texts = MaskedWords(self.rate, "")
        visible = [texts.kept(count) if count else 0 for count in candidates.sum(dim=1).tolist()]
        hidden = candidates & (ranks >= torch.tensor(visible, device=ids.device).unsqueeze(1))
        return replace(batch, input_ids=ids.masked_fill(hidden, mask))


def mask_token(tokenizer: Tokenizer) -> tuple[int, list[int]]:
    """Return the id that masks a token, and the ids that are never masked.

    Raises:
        ValueError: a pretrained tokenizer without a mask.
    """
    inner = getattr(tokenizer, "inner", tokenizer)  # behind a front end or an encoding
    if not isinstance(inner, PretrainedTokenizer):
        return tokenizer.unk_id, [tokenizer.pad_id]
    if inner.mask_id is None:
        msg = (
            "got RanMASK for a tokenizer without [MASK] or <mask>, expected one that has it, such "
            "as BERT's"
        )
        raise ValueError(msg)
    # The unknown token is text like any other.
    return inner.mask_id, sorted(inner.special_ids - {inner.unk_id})


def _text_seeds(batch: Batch) -> Tensor:
    """`[B]` int64: a number for the tokens of each text, in their order."""
    position = torch.arange(1, batch.input_ids.shape[1] + 1, device=batch.input_ids.device)
    parts = mixed(batch.input_ids + GOLDEN * position)
    return mixed(parts.masked_fill(~batch.mask, 0).sum(dim=1))
