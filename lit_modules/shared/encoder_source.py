"""Loads or builds the encoder of a method, and stores its architecture in checkpoints."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from layers.architectures import build_encoder, build_masked_lm, check_settings
from layers.pretrained_encoders import (
    check_backbone,
    check_fits,
    checkpoint_gradients,
    drop_pooler,
    load_encoder,
    load_masked_lm,
)
from lit_modules.shared.text_module import checkpoint_content
from text import PretrainedTokenizer, Text, Tokenizer, check_range, train_word_piece
from text.torch_archive import CHECKPOINT_KEY

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)


class TokenIds(Protocol):
    """Sizes that an encoder needs room for: a tokenizer has these attributes."""

    @property
    def vocab_size(self) -> int:
        """Ids are below it."""

    @property
    def pad_id(self) -> int:
        """Id of the padding."""

    @property
    def max_length(self) -> int:
        """Ids of the longest text."""


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """The encoder of `transformers` that a method trains: pretrained, or with random weights.

    Attributes:
        pretrained: folder or hub name of a pretrained encoder, such as runs/NAME/backbone, which
            pre-training writes; null begins with random weights.
        architecture: architecture of an encoder with random weights, instead of pretrained:
            model_type (bert, roberta, albert, distilbert, deberta, qwen3, ...) and settings of its
            configuration.
        tokenizer: folder or hub name of a tokenizer to use with random weights.
        vocab_size: word pieces learnt from the training split, for random weights without a
            tokenizer.
        gradient_checkpointing: compute each layer again for its gradient, instead of keeping its
            activations: less memory, a third more time, the same gradients.
    """

    pretrained: str | None = None
    architecture: dict[str, Any] | None = None
    tokenizer: str | None = None
    vocab_size: int = 8192
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_range({"backbone.vocab_size": self.vocab_size}, least=1)


class EncoderSource:
    """Makes the encoder of a method: from a checkpoint, a folder or the hub, or at random.

    A method builds its tokenizer, then the encoder, and calls `save` and `restore` for each
    checkpoint. After `restore`, only the architecture in the checkpoint is used: no folder is read
    and no model is fetched.

    Args:
        settings: of the encoder.

    Raises:
        ValueError: both an encoder and an architecture, or neither; or a tokenizer in addition to a
            pretrained encoder, which has its own.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        pretrained, architecture = settings.pretrained, settings.architecture
        tokenizer = settings.tokenizer
        if (pretrained is None) == (architecture is None) or (pretrained and tokenizer):
            msg = (
                f"got backbone.{pretrained=}, backbone.{architecture=} and backbone.{tokenizer=}, "
                "expected either a pretrained encoder (folder or hub name), which has its "
                "tokenizer, or an architecture to build with random weights"
            )
            raise ValueError(msg)
        self.backbone, self.architecture = pretrained, architecture or {}
        self.vocab_size, self.tokenizer = settings.vocab_size, tokenizer
        self.gradient_checkpointing = settings.gradient_checkpointing
        self.restored: dict[str, Any] | None = None
        """The architecture in the checkpoint, after `restore`."""

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        ready = "a backbone" if self.backbone else "a tokenizer" if self.tokenizer else None
        return {"backbone.vocab_size": ready} if ready else {}

    def build_tokenizer(self, texts: Iterable[Text], *, max_length: int) -> PretrainedTokenizer:
        """Return the tokenizer: pretrained, named in the settings, or learnt from the texts.

        The texts are not read if there is a tokenizer already; `max_length` is in tokens.

        Raises:
            ValueError: the tokenizer cannot be loaded, or the texts have no words.
        """
        name = self.backbone or self.tokenizer
        if name is not None:
            check_backbone(name)
            return PretrainedTokenizer.from_pretrained(name, max_length=max_length)
        return train_word_piece(texts, self.vocab_size, max_length=max_length)

    def encoder(self, tokenizer: TokenIds, *, decoders: bool = False) -> "PreTrainedModel":
        """Return the encoder, with its pooler only if that is pretrained, see `pretrained`.

        It has the ids and positions of the tokenizer; see `check_reads_text` for `decoders`.

        Raises:
            ValueError: it cannot be loaded or built, or does not fit the tokenizer.
        """
        build = partial(build_encoder, decoders=decoders)
        load = partial(load_encoder, random_pooler=False, decoders=decoders)
        model = self._make(tokenizer, build, load)
        # Its pooler has random weights: the head makes a layer of its own.
        if not self.pretrained:
            drop_pooler(model)
        return model

    @property
    def pretrained(self) -> bool:
        """True if weights come from a folder or the hub: not from a checkpoint, not random."""
        return self.restored is None and self.backbone is not None

    def masked_lm(self, tokenizer: Tokenizer) -> "PreTrainedModel":
        """Return the encoder with a head that predicts words; see `encoder`."""
        return self._make(tokenizer, build_masked_lm, _load_masked_lm)

    def _make(
        self,
        tokenizer: TokenIds,
        build: Callable[[dict[str, Any]], "PreTrainedModel"],
        load: Callable[[str], "PreTrainedModel"],
    ) -> "PreTrainedModel":
        if self.restored is not None:
            model = build(self.restored)
        elif self.backbone is not None:
            # It is loaded in evaluation mode, which a fit would not change: no dropout.
            model = load(self.backbone).train()
        else:
            check_settings(self.architecture)
            # The settings may ask for a larger vocabulary than the tokenizer's.
            of_tokenizer = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
            model = build({**of_tokenizer, **self.architecture})
        encoder = cast("PreTrainedModel", model.base_model)
        check_fits(encoder, tokenizer.vocab_size, tokenizer.max_length)
        if self.gradient_checkpointing:
            checkpoint_gradients(model)
        return model

    def save(self, checkpoint: dict[str, Any], architecture: dict[str, Any]) -> None:
        """Store `architecture_of` the model in a checkpoint, for `restore`.

        `TextModule.on_save_checkpoint` comes before, and stores the tokenizer.
        """
        checkpoint[CHECKPOINT_KEY]["backbone"] = architecture

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Read the architecture from a checkpoint; raises ValueError if it has none."""
        # A checkpoint must not be able to make the program read a folder or fetch a model.
        self.restored = checkpoint_content(checkpoint).get("backbone")
        if self.restored is None:
            msg = "got a checkpoint without the architecture of its encoder, expected one"
            raise ValueError(msg)


def _load_masked_lm(name_or_path: str) -> "PreTrainedModel":
    model, complete = load_masked_lm(name_or_path)
    if not complete:
        log.info("%s has no head for masked words: it begins at random", name_or_path)
    return model
