"""UniBERT: a BERT whose attention weights stay unitary, trained with the multi-margin loss.

Source: Chang and Wang, "Unitary Multi-Margin BERT for Robust Natural Language Processing". Where we
deviate, and what the method is worth, is in docs/methods/unibert.md.
"""

from collections.abc import Iterable
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor
from torch.nn import functional

from layers.backbones import POOLINGS, Backbone, BackboneClassifier, Pooling
from layers.weight_names import unitary_weights as find_weights
from lit_modules.base import Classifier
from lit_modules.encoder_source import EncoderSource
from lit_modules.multi_margin import FORMS, MarginForm, multi_margin_loss
from lit_modules.schedule import Decay
from lit_modules.unitary_projection import Unitary, projection_of
from text import Batch, Text, Tokenizer


class UniBERT(Classifier):
    """Fine-tunes an encoder of `transformers`; plain BERT with `unitary` none and cross-entropy."""

    network: BackboneClassifier

    def __init__(
        self,
        *,
        backbone: str | None = None,
        architecture: dict[str, Any] | None = None,
        vocab_size: int = 8192,
        loss: Literal["multi_margin", "cross_entropy"] = "multi_margin",
        margin: float = 100.0,
        margin_form: MarginForm = "sum",
        unitary: Unitary = "qr",
        unitary_weights: list[str] | None = None,
        unitary_every: int = 1,
        unitary_gradual_steps: int = 0,
        pooling: Pooling = "first",
        dropout: float = 0.1,
        backbone_dropout: float | None = None,
        max_length: int = 128,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        warmup: float = 0.1,
        decay: Decay = "linear",
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            backbone: folder or hub name of a pretrained encoder, such as runs/NAME/backbone, which
                pre-training writes; null begins with random weights.
            architecture: of an encoder with random weights, in place of backbone: model_type (bert,
                roberta, albert, distilbert, deberta, ...) and settings of its configuration.
            vocab_size: word pieces learnt from the training split, for an encoder with random
                weights.
            loss: multi_margin, or cross_entropy.
            margin: the margin epsilon between right and wrong logits.
            margin_form: sum over the wrong classes, as the paper; mean over all, as its code.
            unitary: keep weights unitary by QR factors after every step, as the paper; by the
                nearest unitary matrices (polar, ours); or none.
            unitary_weights: regular expressions of names of weights to keep unitary; null: query,
                key, value and attention output of every layer.
            unitary_every: project after so many steps only.
            unitary_gradual_steps: close the distance to unitary weights over so many steps, in
                place of at once before the first (ours).
            pooling: what of the last layer is classified: the first token, or the mean.
            dropout: in the head, while training.
            backbone_dropout: in the encoder, while training; null: as its configuration says.
            max_length: longest text in tokens; longer ones are cut, and counted.
            optimizer: optimiser of all trainable parameters.
            lr_scheduler: scheduler stepped once an epoch, in place of warmup and decay.
            warmup: share of all steps over which the learning rate rises from zero.
            decay: shape of its way back to zero after that.
        """
        super().__init__(
            max_length=max_length,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            warmup=warmup,
            decay=decay,
        )
        self.source = EncoderSource(backbone, architecture, vocab_size=vocab_size)
        choices = [loss in ("multi_margin", "cross_entropy"), margin_form in FORMS]
        choices += [pooling in POOLINGS, margin > 0]
        if not all(choices):
            msg = (
                f"got {loss=}, {margin=}, {margin_form=}, {pooling=}, expected multi_margin or "
                "cross_entropy, a positive margin, sum or mean, first or mean"
            )
            raise ValueError(msg)
        if not 0 <= dropout < 1 or not 0 <= (backbone_dropout or 0.0) < 1:
            msg = f"got {dropout=}, {backbone_dropout=}, expected rates of 0 to below 1"
            raise ValueError(msg)
        self.save_hyperparameters(ignore=["optimizer", "lr_scheduler"])
        # Not read from hparams: a subclass built by the command line has its own arguments there.
        self.objective, self.margin, self.margin_form = loss, margin, margin_form
        self.pooling: Pooling = pooling
        self.dropout, self.backbone_dropout = dropout, backbone_dropout
        self.projection = projection_of(
            unitary,
            unitary_weights,
            every_n_steps=unitary_every,
            gradual_steps=unitary_gradual_steps,
        )

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        return self.source.build_tokenizer(texts, max_length=self.max_length)

    def configure_model(self) -> None:
        if hasattr(self, "network"):
            return
        tokenizer, class_names = self.require_text()
        backbone = Backbone(self.source.encoder(tokenizer))
        if self.backbone_dropout is not None:
            backbone.set_dropout(self.backbone_dropout)
        self.network = BackboneClassifier(
            backbone, len(class_names), pooling=self.pooling, dropout=self.dropout
        )
        if self.projection is not None:
            # A wrong pattern is found now, before there is a run with it among its settings.
            find_weights(self, self.projection.patterns)

    def configure_callbacks(self) -> list[pl.Callback]:
        """The projection belongs to the method: nobody has to remember it."""
        return [] if self.projection is None else [self.projection]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        self.source.save(checkpoint, self.network.backbone.architecture)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.source.restore(checkpoint)

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, e]`: word embeddings (and those of segments, for pairs)."""
        if not hasattr(self, "network"):
            msg = "got a model without layers, expected configure_model() before its first use"
            raise RuntimeError(msg)
        return self.network.backbone.embed(batch.input_ids, batch.segment_ids)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.objective == "cross_entropy":
            return functional.cross_entropy(logits, labels)
        return multi_margin_loss(logits, labels, margin=self.margin, form=self.margin_form)

    def activations(self, batch: Batch) -> list[Tensor]:
        return self.network.backbone.hidden_states(self.embed(batch), batch.mask)
