"""Fine-tuning of an encoder of `transformers`, for any task: what robust methods are compared with.

Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", 2019, sections 3.2 and 4.
"""

import logging
from collections.abc import Iterable
from typing import Any, get_args

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from layers.backbones import POOLINGS, Backbone, BackboneClassifier, Pooling, Reading
from layers.pretrained_encoders import pooler_of
from lit_modules.shared.encoder_source import EncoderSource
from lit_modules.shared.schedule import Decay
from lit_modules.shared.task_module import TaskModule
from text import Batch, TaskName, Text, Tokenizer, check_choice, check_range

log = logging.getLogger(__name__)

_READING: dict[TaskName, Reading] = {"tagging": "token", "choice": "choice"}


class FineTuning(TaskModule, method=True):
    """An encoder of `transformers` under a head for the task; all weights are trained."""

    network: BackboneClassifier
    tasks = get_args(TaskName)
    default_epochs = 10

    def __init__(
        self,
        *,
        backbone: str | None = None,
        architecture: dict[str, Any] | None = None,
        vocab_size: int = 8192,
        pooling: Pooling = "first",
        pretrained_pooler: bool = True,
        dropout: float = 0.1,
        backbone_dropout: float | None = None,
        max_length: int = 128,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        warmup: float = 0.06,
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
            pooling: what of the last layer is judged: the first token, or the mean; tagging judges
                each token.
            pretrained_pooler: with pooling first, begin the dense layer of the head with the pooler
                that came with the backbone, as BERT is fine-tuned; at random where none came.
            dropout: in the head, while training.
            backbone_dropout: in the encoder, while training; null: as its configuration says.
            max_length: longest text in tokens; longer ones are cut, and counted.
            optimizer: optimiser of all trainable parameters.
            lr_scheduler: scheduler stepped once an epoch, in place of warmup and decay.
            warmup: share of all steps over which the learning rate rises from zero, or, above 1,
                their number.
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
        check_choice("pooling", pooling, POOLINGS)
        check_range({"dropout": dropout, "backbone_dropout": backbone_dropout}, least=0, below=1)
        self.save_hyperparameters(ignore=["optimizer", "lr_scheduler"])
        # Not read from hparams: a subclass built by the command line has its own arguments there.
        self.pooling: Pooling = pooling
        self.pretrained_pooler = pretrained_pooler
        self.dropout, self.backbone_dropout = dropout, backbone_dropout

    def unused(self) -> dict[str, str]:
        return super().unused() | self.source.unused

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        return self.source.build_tokenizer(texts, max_length=self.max_length)

    def configure_model(self) -> None:
        if hasattr(self, "network"):
            return
        tokenizer, class_names = self.require_text()
        reading = _READING.get(self.task.name, "text")
        encoder = self.source.encoder(tokenizer)
        pooled = self.pretrained_pooler and self.pooling == "first" and reading != "token"
        dense = pooler_of(encoder) if pooled else None
        if pooled and self.source.pretrained:
            found = "at random: it has no pooler" if dense is None else "with its pooler"
            log.info("%s: the head's dense layer begins %s", self.source.backbone, found)
        backbone = Backbone(encoder)
        if self.backbone_dropout is not None:
            backbone.set_dropout(self.backbone_dropout)
        self.network = BackboneClassifier(
            backbone,
            self.task.outputs(class_names),
            pooling=self.pooling,
            dropout=self.dropout,
            reading=reading,
            dense=dense,
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        self.source.save(checkpoint, self.network.backbone.architecture)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.source.restore(checkpoint)

    def embed(self, batch: Batch) -> Tensor:
        """`[R, N, e]`: word embeddings (and those of segments, for pairs)."""
        if not hasattr(self, "network"):
            msg = "got a model without layers, expected configure_model() before its first use"
            raise RuntimeError(msg)
        return self.network.backbone.embed(batch.input_ids, batch.segment_ids)

    def activations(self, batch: Batch) -> list[Tensor]:
        return self.network.backbone.hidden_states(self.embed(batch), batch.mask)
