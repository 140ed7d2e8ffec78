"""Training of an encoder on running text, from which classifiers begin."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from layers.architectures import architecture_of
from layers.pretrained_encoders import save_model
from layers.weight_names import unitary_weights
from lit_modules.shared.encoder_source import EncoderSettings, EncoderSource
from lit_modules.shared.settings import within
from lit_modules.shared.text_module import TextModule
from lit_modules.shared.unitary import Unitary, UnitaryWeights
from text import PretrainedTokenizer, Text, Tokenizer, save_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class EncoderTraining(UnitaryWeights, TextModule):
    """Trains an encoder of `transformers` with a head that guesses words.

    At the end of a fit, the command line writes encoder and tokenizer to runs/NAME/backbone, which
    `transformers` and every method here can load.
    """

    model: "PreTrainedModel"
    _special: Tensor

    def __init__(
        self,
        *,
        backbone: EncoderSettings = EncoderSettings(),
        unitary: Unitary = Unitary(method="none"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            backbone: encoder to continue, or to begin.
            unitary: weights that are kept unitary, and the method.
            base: settings of `TextModule`.
        """
        super().__init__(**base)
        self.source, self.unitary = EncoderSource(backbone), unitary

    def unused(self) -> dict[str, str]:
        return super().unused() | self.source.unused | within("unitary", self.unitary.unused)

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
        special = torch.tensor(sorted(tokenizer.special_ids))
        # Not in checkpoints, which have the tokenizer.
        self.register_buffer("_special", special, persistent=False)

    def configure_model(self) -> None:
        if hasattr(self, "model"):
            return
        self.model = self.source.masked_lm(self.require_tokenizer())
        if self.unitary.method != "none":
            # A wrong pattern is an error now, before the run stores its settings.
            unitary_weights(self, self.unitary.weights)

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
