"""Fine-tuning of an encoder of `transformers`, for any task: the baseline of robust methods.

Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", 2019, sections 3.2 and 4.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, get_args

from torch import Tensor, nn

from certify.encoding import EncodedCertifier, SynonymEncoding
from certify.threats import TextCertifier, Threat, ThreatName
from layers.backbones import POOLINGS, Backbone, BackboneClassifier, Pooling, Reading
from layers.lora import Lora, add_adapters, merge_adapters
from layers.pretrained_encoders import pooler_of
from layers.sequence_classifiers import SequenceHead, find_head
from lit_modules.shared.encoder_source import EncoderSettings, EncoderSource
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.settings import within
from lit_modules.shared.sharding import shard
from lit_modules.shared.task_module import TaskModule, require_layers
from text import (
    Batch,
    EncodedWords,
    FrontEndSettings,
    TaskName,
    Text,
    Tokenizer,
    check_choice,
    check_range,
)
from text.front_end_tokenizer import FrontEndTokenizer, build_with_front_end

log = logging.getLogger(__name__)

_READING: dict[TaskName, Reading] = {"tagging": "token", "choice": "choice"}


class FineTuning(TaskModule, method=True):
    """An encoder of `transformers` with a head for the task; all weights or adapters train."""

    network: BackboneClassifier
    tasks = get_args(TaskName)
    threats: Sequence[ThreatName] = ("synonyms",)
    default_epochs = 10

    def __init__(
        self,
        *,
        backbone: EncoderSettings = EncoderSettings(),
        pooling: Pooling = "architecture",
        pretrained_pooler: bool = True,
        dropout: float = 0.1,
        backbone_dropout: float | None = None,
        words: FrontEndSettings = FrontEndSettings(),
        min_count: int = 1,
        encoding: str | None = None,
        lora: Lora = Lora(),
        optimisation: Optimisation = Optimisation(warmup=0.06, decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            backbone: the encoder.
            pooling: input of the head: architecture, as the classifier that transformers has for
                this encoder, so that `export` writes one; first, the first token of the last layer
                under BERT's head; the mean; or last, the last token, which decoders always use with
                architecture; tagging uses each token.
            pretrained_pooler: begin the dense layer of the head with the pooler of the backbone, as
                BERT is fine-tuned; at random if it has none. Not with the mean, nor with an
                architecture whose head is not BERT's.
            dropout: dropout in the head, while training.
            backbone_dropout: dropout in the encoder, while training; null: that of its
                configuration.
            words: the front end, before the tokenizer (docs/robust_words.md); not for tagging.
            min_count: words rarer than this in the training split are unknown to the corrector.
            encoding: JSON of `resources encode-words`: words are replaced before the tokenizer, so
                that most synonyms become equal; `certify --threat synonyms` lists the possible
                results for a text. The tokenizer then gets the words alone, in lower case; with {}
                nothing is replaced.
            lora: adapters that are trained instead of the weights of the encoder.
            optimisation: optimiser and learning rate.
            base: settings of `TaskModule`.
        """
        super().__init__(optimisation=optimisation, **base)
        self.source = EncoderSource(backbone)
        check_choice("pooling", pooling, POOLINGS)
        check_range({"dropout": dropout, "backbone_dropout": backbone_dropout}, least=0, below=1)
        self.pooling: Pooling = pooling
        self.pretrained_pooler = pretrained_pooler
        self.dropout, self.backbone_dropout = dropout, backbone_dropout
        self.encoding, self.words, self.min_count = encoding, words, min_count
        self.lora = lora
        # Methods around it, and those that mask or project, need whole weights.
        self.shards = type(self) is FineTuning and not lora.rank
        self._sharded = False
        check_range({"min_count": min_count}, least=1)

    def unused(self) -> dict[str, str]:
        reasons = super().unused() | self.source.unused | within("words", self.words.unused)
        reasons |= within("lora", self.lora.unused)
        if self.words.front_end != "spelling":
            reasons["min_count"] = f"words.front_end={self.words.front_end}"
        return reasons

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        build = partial(self.source.build_tokenizer, max_length=self.max_length)
        tokenizer = build_with_front_end(texts, self.words, self.min_count, build)
        if self.encoding is None:
            return tokenizer
        representatives = SynonymEncoding.read(self.encoding).representatives
        inner = tokenizer.inner if isinstance(tokenizer, FrontEndTokenizer) else tokenizer
        return EncodedWords(inner, representatives, tokenizer.front_end)

    def configure_model(self) -> None:
        # Lightning calls this in every stage: built layers must stay.
        if not hasattr(self, "network"):
            self._build()
        if self.device_mesh is not None and not self._sharded:
            shard(self.network, self.device_mesh)
            self._sharded = True

    def _build(self) -> None:
        tokenizer, class_names = self.require_text()
        reading = _READING.get(self.task.name, "text")
        encoder = self.source.encoder(tokenizer, decoders=True)
        # BERT's pooler reads the first token; tagging has no dense layer.
        head = find_head(encoder.config) if self.pooling == "architecture" else None
        as_bert = self.pooling == "first" or head == SequenceHead()
        pooled = self.pretrained_pooler and self.pooling != "mean" and reading != "token"
        dense = pooler_of(encoder) if pooled and as_bert else None
        backbone = Backbone(encoder)
        if pooled and self.source.pretrained and not backbone.causal:
            origin = "at random: it has no pooler" if dense is None else "with its pooler"
            log.info("%s: the head's dense layer begins %s", self.source.backbone, origin)
        if self.backbone_dropout is not None:
            backbone.set_dropout(self.backbone_dropout)
        if self.lora.rank:
            add_adapters(encoder, self.lora)
        self.network = BackboneClassifier(
            backbone,
            self.task.outputs(class_names),
            pooling=self.pooling,
            dropout=self.dropout,
            reading=reading,
            dense=dense,
        )

    def merge_adapters(self) -> None:
        """Add the adapters to the weights, as of a module without adapters."""
        merge_adapters(self.network)
        self.lora = Lora()
        self._set_settings({**self.hparams, "lora": Lora()})

    def exact_copy(self) -> TaskModule:
        if self.lora.rank:
            msg = (
                f"got a model with adapters (lora.rank={self.lora.rank}), whose layers no theorem "
                "covers, expected merged ones: `export` writes a folder with them, for --ckpt_path"
            )
            raise ValueError(msg)
        return super().exact_copy()

    @property
    def output_layer(self) -> nn.Module | None:
        return self.network.projection if hasattr(self, "network") else None

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        self.source.save(checkpoint, self.network.backbone.architecture)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.source.restore(checkpoint)

    def embed(self, batch: Batch) -> Tensor:
        """`[R, N, e]`: word embeddings (and those of segments, for pairs)."""
        network: BackboneClassifier = require_layers(getattr(self, "network", None))
        return network.embed(batch.input_ids, batch.segment_ids)

    def activations(self, batch: Batch) -> list[Tensor]:
        return self.network.backbone.hidden_states(self.embed(batch), batch.mask)

    def text_certifier(self, threat: Threat) -> TextCertifier:
        if threat.name in self.threats and not isinstance(self.tokenizer, EncodedWords):
            reason = f"encoding=null, which has no certificate for {threat.name}, a file has one"
            raise ValueError(self.no_certifier(threat, reason))
        return super().text_certifier(threat)

    def own_certifier(self, threat: Threat) -> TextCertifier:
        tokenizer = self.tokenizer
        assert isinstance(tokenizer, EncodedWords)  # checked by `text_certifier`
        if threat.words != tokenizer.splitter.settings:
            msg = (
                f"got a threat about {threat.words} for an encoding of "
                f"{tokenizer.splitter.settings}, expected the same words"
            )
            raise ValueError(msg)
        return EncodedCertifier(self.exact_answer(), tokenizer.form, threat)
