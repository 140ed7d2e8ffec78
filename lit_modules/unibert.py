"""UniBERT: a BERT whose attention weights stay unitary, trained with the multi-margin loss.

Source: Chang and Wang, "Unitary Multi-Margin BERT for Robust Natural Language Processing". Where we
deviate, and what the method is worth, is in docs/methods/unibert.md.
"""

from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from layers.backbones import Pooling
from layers.weight_names import unitary_weights as find_weights
from lit_modules.fine_tuning import FineTuning
from lit_modules.shared.multi_margin import FORMS, MarginForm, logit_gaps, multi_margin_losses
from lit_modules.shared.schedule import Decay
from lit_modules.shared.unitary_projection import Unitary, projection_of, unused_without
from text import check_choice, check_range


class UniBERT(FineTuning, method=True):
    """Fine-tunes an encoder of `transformers`; plain BERT with `unitary` none and cross-entropy."""

    tasks = ("classification",)

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
        pretrained_pooler: bool = False,
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
            pretrained_pooler: with pooling first, begin the dense layer of the head with the pooler
                that came with the backbone; the paper begins at random.
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
            backbone=backbone,
            architecture=architecture,
            vocab_size=vocab_size,
            pooling=pooling,
            pretrained_pooler=pretrained_pooler,
            dropout=dropout,
            backbone_dropout=backbone_dropout,
            max_length=max_length,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            warmup=warmup,
            decay=decay,
        )
        check_choice("loss", loss, ("multi_margin", "cross_entropy"))
        check_choice("margin_form", margin_form, FORMS)
        check_range({"margin": margin}, above=0)
        self.save_hyperparameters(ignore=["optimizer", "lr_scheduler"])
        # Not read from hparams: a subclass built by the command line has its own arguments there.
        self.objective, self.margin, self.margin_form = loss, margin, margin_form
        self.projection = projection_of(
            unitary,
            unitary_weights,
            every_n_steps=unitary_every,
            gradual_steps=unitary_gradual_steps,
        )

    def unused(self) -> dict[str, str]:
        loss = ("margin", "margin_form") if self.objective == "cross_entropy" else ()
        found = dict.fromkeys(loss, "loss=cross_entropy") | unused_without(self.projection)
        return super().unused() | found

    def configure_model(self) -> None:
        built = hasattr(self, "network")
        super().configure_model()
        if self.projection is not None and not built:
            # A wrong pattern is found now, before there is a run with it among its settings.
            find_weights(self, self.projection.patterns)

    def configure_callbacks(self) -> list[pl.Callback]:
        """The projection belongs to the method: nobody has to remember it."""
        return [] if self.projection is None else [self.projection]

    @property
    def own_objective(self) -> bool:
        return self.objective != "cross_entropy"

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        return ("logit_gap", "margin_met") if self.own_objective else ()

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        if not self.own_objective:
            return super().losses(logits, labels)
        return multi_margin_losses(logits, labels, margin=self.margin, form=self.margin_form)

    def extra_values(self, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """How near the margin is: the gap between logits, and whether it is as large as that."""
        if not self.own_objective:
            return {}
        gap = logit_gaps(logits, labels)
        return {"logit_gap": gap, "margin_met": (gap >= self.margin).float()}
