"""The base class of classifiers on embedded tokens."""

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from certify.bound_propagation import RelaxedCertifier, RelaxedModel, ReplacedWords
from certify.parts import check_holder, check_plain
from certify.threats import TextCertifier, Threat, ThreatName
from layers import NormalizedEmbedding, PlainEmbedding
from lit_modules.shared.certified import CertifiedClassifier
from text import Batch, WordTokenizer, check_range


class EmbeddedClassifier(CertifiedClassifier):
    """A classifier with a network on embedded tokens; `configure_model` sets `embedding`."""

    threats: Sequence[ThreatName] = ("synonyms",)

    def __init__(
        self, *, heads: int = 8, width: int = 256, embedding_norm: float = 2.0, **base: Any
    ) -> None:
        """Keeps the settings.

        Args:
            heads: number of attention heads of a layer.
            width: token width; a pretrained encoder has its own.
            embedding_norm: norm of word and of position embeddings, or of a frozen encoder's
                output; not used by embedding.kind plain.
            base: settings of `CertifiedClassifier`.
        """
        super().__init__(**base)
        check_range({"heads": heads, "width": width}, least=1)
        check_range({"embedding_norm": embedding_norm}, above=0)
        self.heads, self.width, self.embedding_norm = heads, width, embedding_norm
        self.embedding: nn.Module | None = None

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: embedded words and positions."""
        if self.embedding is None:
            msg = "got a model without layers, expected configure_model() before its first use"
            raise RuntimeError(msg)
        tokens: Tensor = self.embedding(batch.input_ids, batch.segment_ids)
        return tokens

    @property
    def no_relaxation(self) -> str | None:
        """The setting without which words could be certified by relaxation; None if they can be."""
        return "pairs of texts (single texts have one)" if self.pairs else None

    def text_certifier(self, threat: Threat) -> TextCertifier:
        if threat.name not in self.threats:
            return super().text_certifier(threat)
        if (reason := self.no_relaxation) is not None:
            without = f"{reason}, without a certificate for {threat.name}"
            raise ValueError(self.no_certifier(threat, without))
        tokenizer, _ = self.require_text()
        embedding = self.embedding
        if not isinstance(embedding, NormalizedEmbedding | PlainEmbedding):
            msg = "got a model without layers, expected one as lit_modules.load() returns it"
            raise ValueError(msg)
        assert isinstance(tokenizer, WordTokenizer)  # one of word embeddings has no other
        kind = NormalizedEmbedding if type(embedding) is NormalizedEmbedding else PlainEmbedding
        check_plain(self, {"embedding": kind})
        check_holder(self, self.network)
        own = copy.deepcopy(embedding).eval().requires_grad_(requires_grad=False)
        model = RelaxedModel(
            ReplacedWords(self.network), lambda ids: own(ids.to(self.device)), tokenizer
        )
        return RelaxedCertifier(model, threat)
