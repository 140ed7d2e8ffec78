"""Pre-training of an encoder as a masked language model, with unitary weights or without.

Source: Devlin et al. 2019, section 3.1; Chang and Wang, "Unitary Multi-Margin BERT", sections 4.1
and appendix A. The settings of the latter's Table 6 are configs/unibert/pretrain.yaml.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor
from torch.nn import functional

from layers.architectures import architecture_of
from layers.pretrained_encoders import save_model
from layers.weight_names import unitary_weights as find_weights
from lit_modules.shared.encoder_source import EncoderSource
from lit_modules.shared.means import SampleMeans
from lit_modules.shared.process_means import batch_weight
from lit_modules.shared.schedule import Decay
from lit_modules.shared.text_module import TextModule
from lit_modules.shared.token_masking import mask_tokens
from lit_modules.shared.unitary_projection import Unitary, projection_of, unused_without
from text import (
    Batch,
    PretrainedTokenizer,
    Text,
    Tokenizer,
    check_choice,
    check_range,
    save_tokenizer,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

METRICS = ("loss", "accuracy")


class Hidden(NamedTuple):
    """A batch with tokens to guess.

    Attributes:
        batch: whose `input_ids` have masks in them.
        chosen: `[B, N]` bool, the tokens to guess.
        words: `[M]`, what they are, in the order of the places.
    """

    batch: Batch
    chosen: Tensor
    words: Tensor


class MaskedLM(TextModule, method=True):
    """Guesses hidden tokens of running text; the encoder is what is wanted.

    At the end of a fit, the command line writes it with its tokenizer as a folder that
    `transformers` and every method here load: runs/NAME/backbone.
    """

    model: "PreTrainedModel"
    _special: Tensor
    default_epochs = 5

    def __init__(
        self,
        *,
        backbone: str | None = None,
        architecture: dict[str, Any] | None = None,
        vocab_size: int = 8192,
        tokenizer: str | None = None,
        mask_share: float = 0.15,
        masking: Literal["dynamic", "fixed"] = "dynamic",
        mask_seed: int = 0,
        unitary: Unitary = "none",
        unitary_weights: list[str] | None = None,
        unitary_every: int = 1,
        unitary_gradual_steps: int = 0,
        max_length: int = 128,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        warmup: float = 0.01,
        decay: Decay = "linear",
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            backbone: folder or hub name of a pretrained encoder to go on with; null: random
                weights.
            architecture: of an encoder with random weights, in place of backbone: model_type (bert,
                roberta, albert, distilbert, deberta, ...) and settings of its configuration.
            vocab_size: word pieces learnt from the training files, for random weights without a
                tokenizer.
            tokenizer: folder or hub name of a tokenizer to use with random weights.
            mask_share: share of the tokens to guess; of these 80 % are hidden behind the mask, 10 %
                behind a random token, and 10 % are shown.
            masking: dynamic: other tokens in each epoch; fixed: the same in all.
            mask_seed: of the choice of tokens.
            unitary: keep weights unitary by QR factors after every step, as UniBERT; by the nearest
                unitary matrices (polar); or none.
            unitary_weights: regular expressions of names of weights to keep unitary; null: query,
                key, value and attention output of every layer.
            unitary_every: project after so many steps only.
            unitary_gradual_steps: close the distance to unitary weights over so many steps, in
                place of at once before the first (ours).
            max_length: longest sequence in tokens.
            optimizer: optimiser of all trainable parameters.
            lr_scheduler: scheduler stepped once an epoch, in place of warmup and decay.
            warmup: share of all steps over which the learning rate rises from zero, or, above 1,
                their number.
            decay: shape of its way back to zero after that.
        """
        super().__init__(optimizer=optimizer, lr_scheduler=lr_scheduler, warmup=warmup, decay=decay)
        if (backbone is None) == (architecture is None) or (backbone and tokenizer):
            msg = (
                f"got {backbone=}, {architecture=} and {tokenizer=}, expected either a pretrained "
                "encoder (folder or hub name), which has its tokenizer, or what to build with "
                "random weights"
            )
            raise ValueError(msg)
        check_range({"mask_share": mask_share}, above=0, below=1)
        check_choice("masking", masking, ("dynamic", "fixed"))
        check_range({"mask_seed": mask_seed}, least=0)
        check_range({"max_length": max_length}, least=1)
        self.save_hyperparameters(ignore=["optimizer", "lr_scheduler"])
        # Not read from hparams: a subclass built by the command line has its own arguments there.
        self.source = EncoderSource(
            backbone, architecture, vocab_size=vocab_size, tokenizer=tokenizer
        )
        self.max_length = max_length
        self.mask_share, self.token_masking, self.mask_seed = mask_share, masking, mask_seed
        self.projection = projection_of(
            unitary,
            unitary_weights,
            every_n_steps=unitary_every,
            gradual_steps=unitary_gradual_steps,
        )
        self.val_means = SampleMeans(METRICS)
        self.test_means = SampleMeans(METRICS)
        self._clock: tuple[float, int] | None = None
        self._tokens = 0
        self._guessed: Tensor | None = None
        """Tokens guessed since this epoch began; None if it began in a run that was interrupted."""

    def unused(self) -> dict[str, str]:
        return super().unused() | self.source.unused | unused_without(self.projection)

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        return self.source.build_tokenizer(texts, max_length=self.max_length)

    def attach_tokenizer(self, tokenizer: Tokenizer) -> None:
        """See `TextModule`; raises ValueError if the tokenizer has no mask."""
        if not isinstance(tokenizer, PretrainedTokenizer) or tokenizer.mask_id is None:
            msg = (
                f"got a {type(tokenizer).__name__} without mask token, expected the tokenizer of a "
                "masked language model: leave it out, and word pieces are learnt from the text"
            )
            raise ValueError(msg)
        super().attach_tokenizer(tokenizer)
        self.pieces = tokenizer
        self.register_buffer(
            "_special", torch.tensor(sorted(tokenizer.special_ids)), persistent=False
        )

    def configure_model(self) -> None:
        if hasattr(self, "model"):
            return
        self.model = self.source.masked_lm(self.require_tokenizer())
        if self.projection is not None:
            # A wrong pattern is found now, before there is a run with it among its settings.
            find_weights(self, self.projection.patterns)

    def configure_callbacks(self) -> list[pl.Callback]:
        """The projection belongs to the method: nobody has to remember it."""
        return [] if self.projection is None else [self.projection]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        self.source.save(checkpoint, architecture_of(self.model))

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.source.restore(checkpoint)

    def export(self, folder: Path) -> None:
        """Write config.json, model.safetensors and the tokenizer, as `transformers` reads them."""
        save_model(self.model, folder)
        save_tokenizer(self.pieces, folder)

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
            epoch: another choice for another one; that of validation and test is 0.
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
            share=self.mask_share,
            seed=self.mask_seed,
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
        return self.current_epoch + 1 if self.token_masking == "dynamic" else 1

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
        total = self._over_processes(counts * sums.detach())
        self._tokens += int(counts) * batch.input_ids.numel()
        if batch_idx == 0:
            self._guessed = torch.zeros_like(total[-1])
        if self._guessed is not None:
            self._guessed += total[-1]
        parts = counts * self.trainer.world_size * sums[:-1] / total[-1].clamp_min(1)
        # Without a single guess no number: 0 would be the loss of right ones only.
        return parts, total[:-1] / total[-1]

    def log_guesses(self, loss: Tensor, accuracy: Tensor) -> None:
        """Log what is known of a step, and how fast it goes."""
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
            f"for mask_share={self.mask_share}; expected text in words that it knows: take a "
            "backbone or tokenizer of its language, or an architecture without tokenizer, for "
            "which word pieces are learnt from the text"
        )

    def _over_processes(self, sums: Tensor) -> Tensor:
        if self.trainer.world_size == 1:
            return sums
        return torch.as_tensor(self.trainer.strategy.reduce(sums, reduce_op="sum"))

    def _log_speed(self) -> None:
        """Tokens per second of all processes since this was last called."""
        now = time.monotonic()
        if self._clock is not None:
            seconds, tokens = now - self._clock[0], self._tokens - self._clock[1]
            self.log("train/tokens_per_second", self.trainer.world_size * tokens / seconds)
        self._clock = now, self._tokens


def judged(logits: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """`[M]` cross-entropies and `[M]` whether the likeliest word was right, of guesses `[M, V]`."""
    losses = functional.cross_entropy(logits, words, reduction="none")
    return losses, (logits.argmax(dim=1) == words).to(losses.dtype)


@contextmanager
def only(model: "PreTrainedModel", chosen: Tensor) -> Iterator[None]:
    """Let the last layer, whose width is the vocabulary, see the chosen tokens only."""

    def pick(_module: Any, inputs: tuple[Tensor, ...]) -> Any:
        return (inputs[0][chosen],)

    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call] # theirs
    handle = head.register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()
