"""Distils a public encoder into one with unitary weights. Ours.

The paper pre-trains its unitary encoder from scratch. Projecting pretrained weights destroys what
they have learnt (docs/methods/unitary_projection.md); here a copy is projected, at once or little
by little, and learns meanwhile to give the hidden states of the original.
"""

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.pretrained_encoders import load_encoder
from lit_modules.shared.encoder_training import EncoderTraining
from lit_modules.shared.means import SampleMeans
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import batch_weight
from lit_modules.shared.unitary_projection import Unitary
from text import Batch, check_choice, check_range

if TYPE_CHECKING:
    from transformers import PreTrainedModel

METRICS = ("loss", "cosine", "cosine_of_means")


class UnitaryDistillation(EncoderTraining, method=True):
    """Trains a copy with unitary attention weights to give the hidden states of its original.

    Trained on running text without labels. Logs `cosine`, between last hidden states of original
    and copy, mean over tokens, and `cosine_of_means`, between their means over a sequence.
    """

    headline = "cosine"
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
        """Keeps the settings.

        Args:
            unitary: weights that become unitary, and how; polar keeps more of what the weights have
                learnt than qr; none trains the copy as it is.
            match: distance to make small. mse: squared distance of hidden states, in parts of the
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
        self.val_means, self.test_means = SampleMeans(METRICS), SampleMeans(METRICS)
        # In a list, so that it is no part of the module: not saved, not trained, not projected.
        self._original: list[PreTrainedModel] = []

    def configure_model(self) -> None:
        if hasattr(self, "model"):
            return
        super().configure_model()
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = self.dropout
        # What gives no hidden state stays as it is: the head, but for the words' embeddings, which
        # it may share, and a pooler.
        encoder = set(self.model.base_model.parameters())
        for name, parameter in self.model.named_parameters():
            if parameter not in encoder or ".pooler." in name:
                parameter.requires_grad = False

    def original(self) -> "PreTrainedModel":
        """The original encoder, loaded on first use, on the device of the module."""
        if not self._original:
            encoder = load_encoder(self.original_name)
            for parameter in encoder.parameters():
                parameter.requires_grad = False
            encoder.train(mode=False)
            self._original.append(encoder)
        words = next(self.model.parameters())
        module: nn.Module = self._original[0]  # whose types say what theirs do not
        module.to(device=words.device, dtype=words.dtype)
        return self._original[0]

    def compare(self, batch: Batch) -> dict[str, Tensor]:
        """Compares original and copy on a batch.

        Returns:
            `loss` `[T]` and `cosine` `[T]` of each real token, `cosine_of_means` `[B]`.
        """
        inputs: dict[str, Any] = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.mask.long(),
            "output_hidden_states": True,
        }
        with torch.no_grad():
            wanted = self.original()(**inputs).hidden_states
        found = self.model.base_model(**inputs).hidden_states
        first = 1 if self.match_layers == "all" else len(wanted) - 1
        losses = []
        for mine, true in zip(found[first:], wanted[first:], strict=True):
            a, b = mine[batch.mask], true[batch.mask]
            if self.match == "cosine":
                losses.append(1 - functional.cosine_similarity(a, b, dim=-1))
            else:
                losses.append((a - b).square().sum(dim=-1) / b.square().sum(dim=-1))
        last, true = found[-1].detach(), wanted[-1]
        real = batch.mask.unsqueeze(-1)
        mean, mean_true = (last * real).sum(dim=1), (true * real).sum(dim=1)
        return {
            "loss": torch.stack(losses).mean(dim=0),
            "cosine": functional.cosine_similarity(last[batch.mask], true[batch.mask], dim=-1),
            "cosine_of_means": functional.cosine_similarity(mean, mean_true, dim=-1),
        }

    # Steps

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        values = {name: value.mean() for name, value in self.compare(batch).items()}
        shown = {f"train/{name}": value.detach() for name, value in values.items()}
        weight = batch_weight(self.trainer, batch_idx)
        self.log_step(shown, weight, size=len(batch))
        return weight * values["loss"]

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.accumulate(self.val_means, self.compare(batch), batch_idx)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self.accumulate(self.test_means, self.compare(batch), batch_idx)

    def on_validation_epoch_end(self) -> None:
        self.log_means("val", self.val_means.take(METRICS))

    def on_test_epoch_end(self) -> None:
        self.log_means("test", self.test_means.take(METRICS))
