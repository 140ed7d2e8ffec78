"""The base class of classifiers on embedded tokens."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from certify.bound_propagation import RelaxedCertifier, RelaxedModel, ReplacedWords
from certify.threats import TextCertifier, Threat, ThreatName
from lit_modules.shared.certified import CertifiedClassifier
from lit_modules.shared.task_module import require_layers
from text import Batch, WordTokenizer, check_range


class EmbeddedClassifier(CertifiedClassifier):
    """A classifier with a network on embedded tokens; `configure_model` sets `embedding`."""

    threats: Sequence[ThreatName] = ("synonyms", "substitutions")

    def __init__(
        self, *, heads: int = 8, width: int = 256, embedding_norm: float = 2.0, **base: Any
    ) -> None:
        """Keep the settings.

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
        tokens: Tensor = require_layers(self.embedding)(batch.input_ids, batch.segment_ids)
        return tokens

    @property
    def no_relaxation(self) -> str | None:
        """The setting that prevents certificates by relaxation; None if they are available."""
        return "pairs of texts (single texts have one)" if self.pairs else None

    def text_certifier(self, threat: Threat) -> TextCertifier:
        # Checked before the model is copied.
        if threat.name in self.threats and (reason := self.no_relaxation) is not None:
            without = f"{reason}, without a certificate for {threat.name}"
            raise ValueError(self.no_certifier(threat, without))
        return super().text_certifier(threat)

    def own_certifier(self, threat: Threat) -> TextCertifier:
        embedding, tokenizer = self.embedding, self.tokenizer
        assert embedding is not None  # set by `configure_model`
        assert isinstance(tokenizer, WordTokenizer)  # set by `build_tokenizer`
        model = RelaxedModel(
            ReplacedWords(self.network), lambda ids: embedding(ids.to(self.device)), tokenizer
        )
        return RelaxedCertifier(model, threat)
