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
from lit_modules.shared.means import SampleMeans
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import batch_weight, process_sums
from lit_modules.shared.token_masking import TokenMasking, mask_tokens
from text import Batch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

METRICS = ("loss", "accuracy")


class Hidden(NamedTuple):
    """A batch with tokens to guess.

    Attributes:
        batch: whose `input_ids` have masks in them.
        chosen: `[B, N]` bool, the tokens to guess.
        words: `[M]`, their ids, in the order of the places.
    """

    batch: Batch
    chosen: Tensor
    words: Tensor


class MaskedLM(EncoderTraining, method=True):
    """Guesses hidden tokens of running text."""

    default_epochs = 5

    def __init__(
        self,
        *,
        token_masking: TokenMasking = TokenMasking(),
        optimisation: Optimisation = Optimisation(warmup=0.01, decay="linear"),
        **base: Any,
    ) -> None:
        """Keeps the settings; layers are built once the vocabulary is known.

        Args:
            token_masking: tokens that are hidden.
            optimisation: optimiser and learning rate.
            base: settings of `EncoderTraining`.
        """
        super().__init__(optimisation=optimisation, **base)
        self.token_masking = token_masking
        self.val_means = SampleMeans(METRICS)
        self.test_means = SampleMeans(METRICS)
        self._clock: tuple[float, int] | None = None
        self._tokens = 0
        self._guessed: Tensor | None = None
        """Tokens guessed since this epoch began; None if it began in a run that was interrupted."""

    # Steps

    def forward(self, batch: Batch, chosen: Tensor) -> Tensor:
        """Logits of the words in the chosen places.

        Args:
            batch: `input_ids` with masks in them.
            chosen: `[B, N]` bool.

        Returns:
            `[M, V]`, in the order of the places.
        """
        with only(self.model, chosen):
            out = self.model(input_ids=batch.input_ids, attention_mask=batch.mask.long())
        logits: Tensor = out.logits
        return logits

    def hide(self, batch: Batch, *, epoch: int) -> Hidden:
        """Hide tokens of a batch.

        Args:
            batch: of running text.
            epoch: of the choice of tokens; 0 for validation and test.
        """
        mask_id = self.pieces.mask_id
        assert mask_id is not None  # attach_tokenizer
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
        """Hide tokens of a batch and guess them; see `judged`."""
        hidden = self.hide(batch, epoch=epoch)
        return judged(self(hidden.batch, hidden.chosen), hidden.words)

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
        """Means over the guesses of all processes, which all have to call it once in a step.

        Args:
            values: `[M]` each, of this process's guesses.
            batch: where they were made.
            batch_idx: its number.

        Returns:
            This process's parts of the means, whose average over the processes, which DDP takes, is
            that over all guesses, 0 without any; and the means, NaN without any.
        """
        # A stand-in, for a process without samples of its own, counts nothing.
        counts = float(batch_weight(self.trainer, batch_idx) > 0)
        number = values[0].new_tensor(float(len(values[0])))
        sums = torch.stack([*(value.sum() for value in values), number])
        total = process_sums(self.trainer, counts * sums.detach())
        self._tokens += int(counts) * batch.input_ids.numel()
        if batch_idx == 0:
            self._guessed = torch.zeros_like(total[-1])
        if self._guessed is not None:
            self._guessed += total[-1]
        parts = counts * self.trainer.world_size * sums[:-1] / total[-1].clamp_min(1)
        # Without a single guess no number: 0 would be the loss of right ones only.
        return parts, total[:-1] / total[-1]

    def log_guesses(self, loss: Tensor, accuracy: Tensor) -> None:
        """Logs the metrics and the speed of a step."""
        self.log("train/loss", loss, prog_bar=True)
        if self.logs_this_step():
            self.log("train/accuracy", accuracy)
            self._log_speed()

    def on_train_epoch_end(self) -> None:
        # A batch of unknown words teaches nothing, and is let pass; an epoch of them is a mistake.
        guessed, self._guessed = self._guessed, None
        if guessed is not None and not guessed:
            raise ValueError(self._nothing_to_guess("this epoch of training"))

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        losses, right = self.guess(batch, epoch=0)
        self.accumulate(self.val_means, {"loss": losses, "accuracy": right}, batch_idx)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        losses, right = self.guess(batch, epoch=0)
        self.accumulate(self.test_means, {"loss": losses, "accuracy": right}, batch_idx)

    def on_validation_epoch_end(self) -> None:
        self._log_evaluation("val", self.val_means)

    def on_test_epoch_end(self) -> None:
        self._log_evaluation("test", self.test_means)

    def _log_evaluation(self, stage: str, means: SampleMeans) -> None:
        found = means.take(METRICS)
        # Of any guess, whatever the weights, it is known whether it is right.
        if found["accuracy"].isnan():
            msg = self._nothing_to_guess(f"the {stage} split")
            if not self.trainer.sanity_checking:
                raise ValueError(msg)
            log.warning("%s", msg)  # there was a look at a few batches only
        self.log_means(stage, found)

    def _nothing_to_guess(self, where: str) -> str:
        return (
            f"got no token to guess in {where}: its words are unknown to the tokenizer, or too few "
            f"for token_masking.share={self.token_masking.share}; expected text in words that it "
            "knows: take a backbone or tokenizer of its language, or an architecture without "
            "tokenizer, for which word pieces are learnt from the text"
        )

    def _log_speed(self) -> None:
        """Tokens per second of all processes since this was last called."""
        now = time.monotonic()
        if self._clock is not None:
            seconds, tokens = now - self._clock[0], self._tokens - self._clock[1]
            self.log("train/tokens_per_second", self.trainer.world_size * tokens / seconds)
        self._clock = now, self._tokens


def judged(logits: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Returns `[M]` cross-entropies and `[M]` correct guesses (0 or 1) of logits `[M, V]`."""
    losses = functional.cross_entropy(logits, words, reduction="none")
    return losses, (logits.argmax(dim=1) == words).to(losses.dtype)


@contextmanager
def only(model: "PreTrainedModel", chosen: Tensor) -> Iterator[None]:
    """Restricts the last layer, whose width is the vocabulary, to the chosen tokens."""

    def pick(_module: Any, inputs: tuple[Tensor, ...]) -> Any:
        return (inputs[0][chosen],)

    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call] # theirs
    handle = head.register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()
