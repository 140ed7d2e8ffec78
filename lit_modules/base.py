"""What every classifying LightningModule shares: texts in, logits out, the same metrics."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from attacks import PGD
from lit_modules.means import SampleMeans
from lit_modules.processes import batch_weight, global_means
from lit_modules.schedule import Decay, learning_rate_factor
from text import (
    Batch,
    Text,
    Tokenizer,
    WordTokenizer,
    collate,
    length_batches,
    tokenizer_from_state,
)

CHECKPOINT_KEY = "steadfast"
CHECKPOINT_FORMAT = 1


class Classifier(pl.LightningModule):
    """A text classifier: `embed` a batch, `classify` the embedded tokens.

    Perturbations and certificates live between the two. A module knows neither its vocabulary nor
    its classes until `attach` is called with those of a corpus, or `restore_text` with those of a
    checkpoint; `configure_model` then builds the layers. The checkpoint carries both, so it alone
    is enough to predict.
    """

    network: nn.Module
    """From tokens `[B, N, d]` and mask `[B, N]` to logits `[B, C]`; built by `configure_model`."""

    def __init__(
        self,
        *,
        max_length: int = 128,
        min_count: int = 1,
        max_vocab_size: int | None = None,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        warmup: float = 0.0,
        decay: Decay = "none",
        extra_metrics: Sequence[str] = (),
    ) -> None:
        """Keep the settings.

        Args:
            max_length: longest text in tokens; longer ones are cut, and counted.
            min_count: words rarer than this in the training split become unknown.
            max_vocab_size: keep only so many of the most frequent words.
            optimizer: optimiser of all trainable parameters.
            lr_scheduler: scheduler stepped once an epoch, in place of `warmup` and `decay`.
            warmup: share of all steps over which the learning rate rises from zero.
            decay: shape of its way back to zero after that.
            extra_metrics: keys that `evaluate` returns beside `loss` and `accuracy`.
        """
        super().__init__()
        self.tokenizer: Tokenizer | None = None
        self.class_names: list[str] | None = None
        self.pairs = False
        self.max_length, self.min_count, self.max_vocab_size = max_length, min_count, max_vocab_size
        self.optimizer, self.lr_scheduler = optimizer, lr_scheduler
        self.warmup, self.decay = warmup, decay
        learning_rate_factor(0, warmup=warmup, decay=decay)  # a wrong setting is found now
        self.test_attack: PGD | None = None
        """Run by every test step if set; the strength of an attack is no property of the model."""
        self.metric_names = ("loss", "accuracy", *extra_metrics)
        names = (*self.metric_names, "pgd_accuracy")
        self.val_means, self.test_means = SampleMeans(names), SampleMeans(names)

    # Texts and classes

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        """The tokenizer that this method wants for a corpus: word level unless overridden."""
        return WordTokenizer.build(
            texts,
            max_length=self.max_length,
            min_count=self.min_count,
            max_size=self.max_vocab_size,
        )

    def attach(
        self, tokenizer: Tokenizer, class_names: Sequence[str], *, pairs: bool = False
    ) -> None:
        """Fix the vocabulary and the classes; before `configure_model`, once.

        Args:
            tokenizer: turns texts into ids.
            class_names: name of each class, in label order; at least two.
            pairs: whether inputs are pairs of texts.

        Raises:
            ValueError: fewer than two classes, or another vocabulary or other classes than those
                attached before.
        """
        names = list(class_names)
        if len(names) < 2:
            msg = f"got classes {names}, expected at least two"
            raise ValueError(msg)
        if self.class_names is not None and (self.class_names, self.pairs) != (names, pairs):
            msg = (
                f"got a corpus with classes {names} (pairs: {pairs}), expected the model's "
                f"{self.class_names} (pairs: {self.pairs}): use a corpus of the same task"
            )
            raise ValueError(msg)
        if self.tokenizer is None:
            self.tokenizer = tokenizer
        elif tokenizer is not self.tokenizer and tokenizer.state() != self.tokenizer.state():
            msg = (
                f"got another vocabulary ({tokenizer.vocab_size} ids) than the model has "
                f"({self.tokenizer.vocab_size} ids), expected the same: its weights belong to it"
            )
            raise ValueError(msg)
        self.class_names, self.pairs = names, pairs

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        """Attach what a checkpoint (as `read_checkpoint` returns it) was trained with.

        Raises:
            ValueError: it has no such content, or other than the model has already.
        """
        content = checkpoint.get(CHECKPOINT_KEY)
        if content is None:
            msg = "got a checkpoint without vocabulary and classes, expected one of this project"
            raise ValueError(msg)
        self.attach(
            tokenizer_from_state(content["tokenizer"]),
            content["class_names"],
            pairs=content["pairs"],
        )

    def require_text(self) -> tuple[Tokenizer, list[str]]:
        """The tokenizer and the class names; raises RuntimeError if there are none yet."""
        if self.tokenizer is None or self.class_names is None:
            msg = (
                "got a model without vocabulary and classes, expected attach(tokenizer, "
                "class_names) before it is used, or lit_modules.load(checkpoint)"
            )
            raise RuntimeError(msg)
        return self.tokenizer, self.class_names

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        tokenizer, class_names = self.require_text()
        checkpoint[CHECKPOINT_KEY] = {
            "format": CHECKPOINT_FORMAT,
            "method": type(self).__name__,
            "tokenizer": tokenizer.state(),
            "class_names": class_names,
            "pairs": self.pairs,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.restore_text(checkpoint)

    # The classifier contract

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: the space in which perturbations and certificates live."""
        # Part of the contract that only a method can fill in; the base class is never built.
        msg = f"got {type(self).__name__} without embed(), expected every method to define it"
        raise NotImplementedError(msg)

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` embedded tokens and mask `[B, N]` to logits `[B, C]`."""
        logits: Tensor = self.network(x, mask)
        return logits

    def encode_texts(self, texts: Sequence[Text]) -> Batch:
        """Raw strings or pairs as one padded batch on the model's device."""
        tokenizer, _ = self.require_text()
        encodings = tokenizer.encode(texts)
        return collate(encodings, pad_id=tokenizer.pad_id, pairs=self.pairs).to(self.device)

    @torch.no_grad()
    def predict_texts(self, texts: Sequence[Text], *, batch_size: int = 256) -> Tensor:
        """Logits `[len(texts), C]` of raw strings or pairs, in evaluation mode.

        Args:
            texts: any number of inputs.
            batch_size: texts per forward pass; texts of like length go together.
        """
        tokenizer, class_names = self.require_text()
        if not texts:
            return torch.empty(0, len(class_names), device=self.device)
        encodings = tokenizer.encode(texts)
        batches = length_batches([len(encoding.input_ids) for encoding in encodings], batch_size)
        parts = []
        training = self.training
        self.eval()
        try:
            for rows in batches:
                chunk = [encodings[i] for i in rows]
                batch = collate(chunk, pad_id=tokenizer.pad_id, pairs=self.pairs)
                parts.append(self(batch.to(self.device)))
        finally:
            self.train(training)
        logits = torch.cat(parts)
        order = torch.tensor([i for rows in batches for i in rows], device=logits.device)
        return logits[order.argsort()]

    # Steps

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.optimizer([p for p in self.parameters() if p.requires_grad])
        if self.lr_scheduler is not None:
            scheduler = self.lr_scheduler(optimizer)
            if isinstance(scheduler, ReduceLROnPlateau):
                # LightningCLI's own class names what it watches; torch's does not.
                monitor = getattr(scheduler, "monitor", "val/loss")
                return {
                    "optimizer": optimizer,
                    "lr_scheduler": {"scheduler": scheduler, "monitor": monitor},
                }
            return [optimizer], [scheduler]
        if self.warmup == 0 and self.decay == "none":
            return optimizer
        factor = learning_rate_factor(self.total_steps(), warmup=self.warmup, decay=self.decay)
        schedule = LambdaLR(optimizer, factor)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def total_steps(self) -> int:
        """Optimiser steps of the whole run, 0 where the run has no end."""
        steps = self.trainer.estimated_stepping_batches
        return int(steps) if steps != float("inf") else 0

    def forward(self, batch: Batch) -> Tensor:
        """Logits `[B, C]` of a batch."""
        return self.classify(self.embed(batch), batch.mask)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The training objective, a scalar; cross-entropy unless overridden."""
        return functional.cross_entropy(logits, labels)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        logits, labels = self(batch), labels_of(batch)
        loss, weight = self.loss(logits, labels), batch_weight(self.trainer, batch_idx)
        shown = {"train/loss": loss.detach()}
        if self.logs_this_step():
            shown["train/accuracy"] = (logits.argmax(dim=1) == labels).to(loss.dtype).mean()
            shown = global_means(self.trainer, shown, weight)
        # At other steps the loss is this process's own: asking the others would slow them all down.
        for name, value in shown.items():
            self.log(name, value, batch_size=len(batch), prog_bar=name == "train/loss")
        return weight * loss

    def logs_this_step(self) -> bool:
        """Whether the trainer writes metrics at this step; others need not be computed."""
        # 0 turns logging off.
        every: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined] # set by a connector
        return every > 0 and (self.trainer.global_step + 1) % every == 0

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._accumulate(self.val_means, self.evaluate(batch), batch_idx)

    def test_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor] | None:
        values = self.evaluate(batch)
        attacked = self.attack(self.test_attack, batch) if self.test_attack is not None else None
        if attacked is not None:
            values["pgd_accuracy"] = attacked["survived"].float()
        self._accumulate(self.test_means, values, batch_idx)
        return attacked

    def attack(self, attack: PGD, batch: Batch) -> dict[str, Tensor]:
        """What an attack makes of each sample.

        Returns:
            `[B]` each: `sample_ids`, `labels`, `prediction`, `pgd_prediction` (at the point that
            the attack found) and `survived`: the prediction is right, and the attack finds no way
            to change it.
        """
        x, labels = self.embed(batch).detach(), labels_of(batch)
        prediction = self.classify(x, batch.mask).argmax(dim=1)
        with self.frozen():
            found, flipped = attack(
                self.classify, x, batch.mask, labels, seeds=batch.sample_ids.tolist()
            )
        return {
            "sample_ids": batch.sample_ids,
            "labels": labels,
            "prediction": prediction,
            "pgd_prediction": self.classify(found, batch.mask).argmax(dim=1),
            "survived": (prediction == labels) & ~flipped,
        }

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        logits = self(batch)
        return {
            "sample_ids": batch.sample_ids,
            "logits": logits,
            "prediction": logits.argmax(dim=1),
        }

    # Evaluation

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Values `[B]` of each sample, whose means over a split become its metrics."""
        logits, labels = self(batch), labels_of(batch)
        return {
            "loss": functional.cross_entropy(logits, labels, reduction="none"),
            "accuracy": (logits.argmax(dim=1) == labels).float(),
            **self.extra_values(logits, labels),
        }

    def extra_values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Values `[B]` for the extra metrics; none unless overridden."""
        del logits, labels
        return {}

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Gradients for inputs only: saves what parameters' gradients would keep in memory."""
        trainable = [p for p in self.parameters() if p.requires_grad]
        try:
            for parameter in trainable:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trainable:
                parameter.requires_grad_(True)

    def _accumulate(self, means: SampleMeans, values: dict[str, Tensor], batch_idx: int) -> None:
        if batch_weight(self.trainer, batch_idx) > 0:
            means.update(values)

    def on_validation_epoch_end(self) -> None:
        self._log_means("val", self.val_means.take(self.metric_names))

    def on_test_epoch_end(self) -> None:
        attacked = () if self.test_attack is None else ("pgd_accuracy",)
        self._log_means("test", self.test_means.take((*self.metric_names, *attacked)))

    def _log_means(self, stage: str, means: dict[str, Tensor]) -> None:
        for name, mean in means.items():
            self.log(f"{stage}/{name}", mean, prog_bar=name == "accuracy")


def labels_of(batch: Batch) -> Tensor:
    """The labels of a batch; raises ValueError if it has none."""
    if batch.labels is None:
        msg = "got a batch without labels, expected labelled data; `predict` needs none"
        raise ValueError(msg)
    return batch.labels
