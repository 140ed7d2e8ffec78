"""Pre-training of an encoder as a masked language model, with unitary weights or without.

Source: Devlin et al. 2019, section 3.1; Chang and Wang, "Unitary Multi-Margin BERT", sections 4.1
and appendix A. The settings of the latter's Table 6 are configs/unibert/pretrain.yaml.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from lit_modules.shared.encoder_training import EncoderTraining
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import batch_weight, process_sums
from lit_modules.shared.token_masking import TokenMasking, mask_tokens
from text import Batch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lit_modules.shared.means import SampleMeans

log = logging.getLogger(__name__)


class Hidden(NamedTuple):
    """A batch with tokens to guess.

    Attributes:
        batch: its `input_ids` contain masks.
        chosen: `[B, N]` bool, the tokens to guess.
        words: `[M]`, their ids, in the order of the positions.
    """

    batch: Batch
    chosen: Tensor
    words: Tensor


class MaskedLM(EncoderTraining, method=True):
    """Guesses hidden tokens of running text."""

    metric_names = ("loss", "accuracy")
    default_epochs = 5

    def __init__(
        self,
        *,
        token_masking: TokenMasking = TokenMasking(),
        optimisation: Optimisation = Optimisation(warmup=0.01, decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            token_masking: tokens that are hidden.
            optimisation: optimiser and learning rate.
            base: settings of `EncoderTraining`.
        """
        super().__init__(optimisation=optimisation, **base)
        self.token_masking = token_masking
        self._clock: tuple[float, int] | None = None
        self._tokens = 0
        # Tokens guessed since this epoch began; None if it began in a run that was interrupted.
        self._guessed: Tensor | None = None

    # Steps

    def forward(self, batch: Batch, chosen: Tensor) -> Tensor:
        """Return logits `[M, V]` of the words at the chosen positions, `[B, N]` bool, in order."""
        with restrict_head(self.model, chosen):
            out = self.model(input_ids=batch.input_ids, attention_mask=batch.mask.long())
        logits: Tensor = out.logits
        return logits

    def hide(self, batch: Batch, *, epoch: int) -> Hidden:
        """Hide tokens of running text, other ones in each epoch (0 for validation and test)."""
        mask_id = self.pieces.mask_id
        assert mask_id is not None  # checked by `attach_tokenizer`
        # Separators and unknown words are never guessed.
        special = torch.isin(batch.input_ids, self._special)
        masked = mask_tokens(
            batch.input_ids,
            batch.mask & ~special,
            batch.sample_ids,
            mask_id=mask_id,
            vocab_size=self.pieces.vocab_size,
            share=self.token_masking.share,
            seed=self.token_masking.seed,
            epoch=epoch,
        )
        hidden = Batch(masked.input_ids, batch.mask, batch.sample_ids)
        return Hidden(hidden, masked.chosen, batch.input_ids[masked.chosen])

    def guess(self, batch: Batch, *, epoch: int) -> tuple[Tensor, Tensor]:
        """Hide tokens of a batch and guess them; see `score_guesses`."""
        hidden = self.hide(batch, epoch=epoch)
        return score_guesses(self(hidden.batch, hidden.chosen), hidden.words)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        losses, right = self.guess(batch, epoch=self.choice)
        parts, means = self.over_guesses([losses, right], batch, batch_idx)
        self.log_guesses(means[0], means[1])
        return parts[0]

    @property
    def choice(self) -> int:
        """The `epoch` whose tokens are hidden in this epoch of training."""
        return self.current_epoch + 1 if self.token_masking.kind == "dynamic" else 1

    def over_guesses(
        self, values: Sequence[Tensor], batch: Batch, batch_idx: int
    ) -> tuple[Tensor, Tensor]:
        """Return means over the guesses of all processes, which all have to call it once a step.

        `values` are `[M]` each, of this process's guesses. Its parts of the means, which DDP
        averages to the means (0 without guesses), come before the means (NaN without guesses).
        """
        # A process without samples repeats one of another process, with weight 0.
        counts = float(batch_weight(self.trainer, batch_idx) > 0)
        number = values[0].new_tensor(float(len(values[0])))
        sums = torch.stack([*(value.sum() for value in values), number])
        total = process_sums(self.trainer, counts * sums.detach())
        self._tokens += int(counts) * batch.input_ids.numel()
        # An epoch that begins within a resumed run has counted only a part.
        if batch_idx == 0:
            self._guessed = torch.zeros_like(total[-1])
        if self._guessed is not None:
            self._guessed += total[-1]
        # Processes average their gradients: times their number, it is the mean over all tokens.
        parts = counts * self.trainer.world_size * sums[:-1] / total[-1].clamp_min(1)
        # NaN without guesses: a loss of 0 would mean that all are right.
        return parts, total[:-1] / total[-1]

    def log_guesses(self, loss: Tensor, accuracy: Tensor) -> None:
        """Log the metrics and the speed of a step."""
        self.log("train/loss", loss, prog_bar=True)
        if self.logs_this_step():
            self.log("train/accuracy", accuracy)
            self._log_speed()

    def on_train_epoch_end(self) -> None:
        # A batch without a token to guess is allowed; a full epoch without one is a mistake.
        guessed, self._guessed = self._guessed, None
        if guessed is not None and not guessed:
            raise ValueError(self._nothing_to_guess("this epoch of training"))

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        losses, right = self.guess(batch, epoch=0)
        return {"loss": losses, "accuracy": right}

    def log_evaluation(self, stage: str, means: "SampleMeans") -> None:
        metrics = means.take(self.metric_names)
        # The accuracy of any guess is defined, unlike a loss of diverged weights.
        if metrics["accuracy"].isnan():
            msg = self._nothing_to_guess(f"the {stage} split")
            if not self.trainer.sanity_checking:
                raise ValueError(msg)
            log.warning("%s", msg)  # a sanity check reads a few batches only
        self.log_means(stage, metrics)

    def _nothing_to_guess(self, where: str) -> str:
        return (
            f"got no token to guess in {where}: its words are unknown to the tokenizer, or too few "
            f"for token_masking.share={self.token_masking.share}; expected text in words that it "
            "knows: take a backbone or tokenizer of its language, or an architecture without "
            "tokenizer, for which word pieces are learnt from the text"
        )

    def _log_speed(self) -> None:
        """Log the tokens per second of all processes since the last call."""
        now = time.monotonic()
        if self._clock is not None:
            seconds, tokens = now - self._clock[0], self._tokens - self._clock[1]
            self.log("train/tokens_per_second", self.trainer.world_size * tokens / seconds)
        self._clock = now, self._tokens


def score_guesses(logits: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Return `[M]` cross-entropies and `[M]` correct guesses (0 or 1) of logits `[M, V]`."""
    losses = functional.cross_entropy(logits, words, reduction="none")
    return losses, (logits.argmax(dim=1) == words).to(losses.dtype)


@contextmanager
def restrict_head(model: "PreTrainedModel", chosen: Tensor) -> Iterator[None]:
    """Restrict the last layer, whose width is the vocabulary, to the chosen tokens."""

    def pick(_module: Any, inputs: tuple[Tensor, ...]) -> Any:
        return (inputs[0][chosen],)

    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call] # theirs
    handle = head.register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()
