"""Where the encoder of a method comes from, and what a checkpoint keeps of it."""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from layers.architectures import build_encoder, build_masked_lm, check_settings
from layers.pretrained_encoders import (
    check_backbone,
    check_fits,
    drop_pooler,
    load_encoder,
    load_masked_lm,
)
from lit_modules.shared.text_module import CHECKPOINT_KEY, checkpoint_content
from text import PretrainedTokenizer, Text, Tokenizer, check_range, train_word_piece

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)


class EncoderSource:
    """One of three places: a checkpoint, a pretrained encoder, or random weights.

    A method has one of these beside its settings. It asks for a tokenizer, then for the encoder; it
    hands every checkpoint over to be noted in, and every checkpoint that it is restored from. From
    then on the architecture in the checkpoint is all that counts: neither is a folder read, nor a
    model fetched.

    Args:
        backbone: folder or hub name of a pretrained encoder; None for random weights.
        architecture: of an encoder with random weights, in place of `backbone`.
        vocab_size: word pieces learnt from the texts, where no tokenizer comes with the encoder.
        tokenizer: folder or hub name of a tokenizer to use with random weights.

    Raises:
        ValueError: both an encoder and an architecture, or neither.
    """

    def __init__(
        self,
        backbone: str | None,
        architecture: dict[str, Any] | None,
        *,
        vocab_size: int,
        tokenizer: str | None = None,
    ) -> None:
        if (backbone is None) == (architecture is None):
            msg = (
                f"got {backbone=} and {architecture=}, expected one of them: a pretrained encoder "
                "(folder or hub name), or what to build with random weights"
            )
            raise ValueError(msg)
        check_range({"vocab_size": vocab_size}, least=1)
        self.backbone, self.architecture = backbone, architecture or {}
        self.vocab_size, self.tokenizer = vocab_size, tokenizer
        self.restored: dict[str, Any] | None = None
        """The architecture in the checkpoint, after `restore`."""

    @property
    def unused(self) -> dict[str, str]:
        """Settings that have no effect as the others are: by name, and beside what."""
        ready = "a backbone" if self.backbone else "a tokenizer" if self.tokenizer else None
        return {"vocab_size": ready} if ready else {}

    def build_tokenizer(self, texts: Iterable[Text], *, max_length: int) -> Tokenizer:
        """That of the pretrained encoder, the one that was named, or word pieces of the texts.

        Args:
            texts: of the corpus; not read if there is a tokenizer already.
            max_length: longest text in tokens.

        Raises:
            ValueError: there is none where it should be, or no words in the texts.
        """
        name = self.backbone or self.tokenizer
        if name is not None:
            check_backbone(name)
            return PretrainedTokenizer.from_pretrained(name, max_length=max_length)
        return train_word_piece(texts, self.vocab_size, max_length=max_length)

    def encoder(self, tokenizer: Tokenizer) -> "PreTrainedModel":
        """The encoder alone. It has a pooler only if that is pretrained, see `pretrained`.

        Args:
            tokenizer: whose ids and positions it must have.

        Raises:
            ValueError: it cannot be loaded or built, or does not fit the tokenizer.
        """
        model = self._make(tokenizer, build_encoder, partial(load_encoder, random_pooler=False))
        if not self.pretrained:
            drop_pooler(model)
        return model

    @property
    def pretrained(self) -> bool:
        """Whether weights come from a folder or the hub, and not from a checkpoint or chance."""
        return self.restored is None and self.backbone is not None

    def masked_lm(self, tokenizer: Tokenizer) -> "PreTrainedModel":
        """The encoder under a head that proposes words; see `encoder`."""
        return self._make(tokenizer, build_masked_lm, _load_masked_lm)

    def _make(
        self,
        tokenizer: Tokenizer,
        build: Callable[[dict[str, Any]], "PreTrainedModel"],
        load: Callable[[str], "PreTrainedModel"],
    ) -> "PreTrainedModel":
        if self.restored is not None:
            model = build(self.restored)
        elif self.backbone is not None:
            model = load(self.backbone)
        else:
            check_settings(self.architecture)
            of_tokenizer = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
            model = build({**of_tokenizer, **self.architecture})
        encoder = cast("PreTrainedModel", model.base_model)
        check_fits(encoder, tokenizer.vocab_size, tokenizer.max_length)
        return model

    def save(self, checkpoint: dict[str, Any], architecture: dict[str, Any]) -> None:
        """Note in a checkpoint what `restore` will look for.

        Args:
            checkpoint: after `TextModule.on_save_checkpoint`, which notes the tokenizer.
            architecture: `architecture_of` the model.
        """
        checkpoint[CHECKPOINT_KEY]["backbone"] = architecture

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Take the architecture from a checkpoint; raises ValueError if it has none."""
        # By its architecture alone: a checkpoint must not have a folder read, or a model fetched.
        self.restored = checkpoint_content(checkpoint).get("backbone")
        if self.restored is None:
            msg = "got a checkpoint without the architecture of its encoder, expected one"
            raise ValueError(msg)


def _load_masked_lm(name_or_path: str) -> "PreTrainedModel":
    model, complete = load_masked_lm(name_or_path)
    if not complete:
        log.info("%s has no head for masked words: it begins at random", name_or_path)
    return model
