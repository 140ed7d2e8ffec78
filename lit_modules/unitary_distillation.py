"""Distils a public encoder into one with unitary weights. Ours.

The paper pre-trains its unitary encoder from scratch. Projecting pretrained weights destroys the
model (docs/methods/unitary_projection.md); here a copy is projected, at once or gradually, and
trained at the same time to give the hidden states of the original.
"""

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.backbones import set_dropout
from layers.pretrained_encoders import load_encoder
from lit_modules.shared.encoder_training import EncoderTraining
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import batch_weight
from lit_modules.shared.unitary import Unitary
from text import Batch, check_choice, check_range

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class UnitaryDistillation(EncoderTraining, method=True):
    """Trains a copy with unitary attention weights to give the hidden states of its original.

    Trained on running text without labels. Logs `cosine`, between last hidden states of original
    and copy, mean over tokens, and `cosine_of_means`, between their means over a sequence.
    """

    headline = "cosine"
    metric_names = ("loss", "cosine", "cosine_of_means")
    default_epochs = 5

    def __init__(
        self,
        *,
        unitary: Unitary = Unitary(method="polar"),
        match: Literal["mse", "cosine"] = "mse",
        match_layers: Literal["all", "last"] = "all",
        dropout: float = 0.0,
        optimisation: Optimisation = Optimisation(warmup=0.05, decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            unitary: weights that become unitary, and the method; polar changes pretrained weights
                less than qr; none trains the copy without projection.
            match: distance to minimise. mse: squared distance of hidden states, relative to the
                original's square; cosine: 1 - their cosine.
            match_layers: hidden states of all layers, or of the last.
            dropout: dropout in the copy, while training.
            optimisation: optimiser and learning rate.
            base: settings of `EncoderTraining`; backbone.pretrained is the original.
        """
        super().__init__(unitary=unitary, optimisation=optimisation, **base)
        if self.source.backbone is None:
            msg = (
                "got an architecture, expected a pretrained encoder to imitate: give "
                "--model.backbone.pretrained, its folder or hub name"
            )
            raise ValueError(msg)
        check_choice("match", match, ("mse", "cosine"))
        check_choice("match_layers", match_layers, ("all", "last"))
        check_range({"dropout": dropout}, least=0, below=1)
        self.match, self.match_layers, self.dropout = match, match_layers, dropout
        self.original_name = self.source.backbone
        # In a list, so that it is not a submodule: not saved, not trained, not projected.
        self._original: list[PreTrainedModel] = []

    def configure_model(self) -> None:
        if hasattr(self, "model"):
            return
        super().configure_model()
        set_dropout(self.model, self.dropout)
        # Frozen, as no hidden state depends on them: a pooler, and the head, except for word
        # embeddings that it shares with the encoder.
        encoder = set(self.model.base_model.parameters())
        for name, parameter in self.model.named_parameters():
            if parameter not in encoder or ".pooler." in name:
                parameter.requires_grad = False

    def original(self) -> "PreTrainedModel":
        """Return the original encoder, loaded on first use, on the device of the module."""
        if not self._original:
            encoder = load_encoder(self.original_name)
            for parameter in encoder.parameters():
                parameter.requires_grad = False
            encoder.train(mode=False)
            self._original.append(encoder)
        words = next(self.model.parameters())
        module: nn.Module = self._original[0]  # `to` of transformers has no annotations
        module.to(device=words.device, dtype=words.dtype)
        return self._original[0]

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Compare both encoders: `loss`, `cosine` `[T]` of real tokens, `cosine_of_means` `[B]`."""
        inputs: dict[str, Any] = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.mask.long(),
            "output_hidden_states": True,
        }
        with torch.no_grad():
            target = self.original()(**inputs).hidden_states
        hidden = self.model.base_model(**inputs).hidden_states
        first = 1 if self.match_layers == "all" else len(target) - 1
        losses = []
        for mine, true in zip(hidden[first:], target[first:], strict=True):
            a, b = mine[batch.mask], true[batch.mask]
            if self.match == "cosine":
                losses.append(1 - functional.cosine_similarity(a, b, dim=-1))
            else:
                losses.append((a - b).square().sum(dim=-1) / b.square().sum(dim=-1))
        last, true = hidden[-1].detach(), target[-1]
        real = batch.mask.unsqueeze(-1)
        mean, mean_true = (last * real).sum(dim=1), (true * real).sum(dim=1)
        return {
            "loss": torch.stack(losses).mean(dim=0),
            "cosine": functional.cosine_similarity(last[batch.mask], true[batch.mask], dim=-1),
            "cosine_of_means": functional.cosine_similarity(mean, mean_true, dim=-1),
        }

    # Steps

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        values = {name: value.mean() for name, value in self.evaluate(batch).items()}
        metrics = {f"train/{name}": value.detach() for name, value in values.items()}
        weight = batch_weight(self.trainer, batch_idx)
        self.log_step(metrics, weight, size=len(batch))
        return weight * values["loss"]
