"""OLSA: Transformers with 1-Lipschitz self-attention, from scratch or on a frozen encoder.

Source: "Certifiably Robust Transformers with 1-Lipschitz Self-Attention". docs/methods/olsa.md
lists our deviations and their reasons.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from layers import NormalizedEmbedding, OLSALayers, olsa_classifier
from layers.frozen_backbone import FrozenBackbone, FrozenEncoder
from layers.pretrained_encoders import check_backbone
from lit_modules.shared.embedded import EmbeddedClassifier
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.settings import within
from text import Batch, PretrainedTokenizer, Text, Tokenizer, check_range
from text.front_end_tokenizer import build_with_front_end
from text.torch_archive import CHECKPOINT_KEY


class OLSA(EmbeddedClassifier, method=True):
    """One-Lipschitz self-attention on word embeddings, or on a frozen pretrained encoder."""

    def __init__(
        self,
        *,
        depth: int = 1,
        layers: OLSALayers = OLSALayers(),
        head_bias: bool = False,
        backbone: FrozenEncoder = FrozenEncoder(),
        objective: RadiusObjective = RadiusObjective(loss="hinge", gamma=2.0, margin_cap=2.0),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            depth: number of OLSA layers; 0 is a bag of embeddings.
            layers: settings of the layers.
            head_bias: add a bias to the head; a margin reward may then lead to one class for all.
            backbone: pretrained encoder below OLSA, frozen.
            objective: the loss, and the reward of a large certified radius.
            base: settings of `EmbeddedClassifier`.
        """
        super().__init__(objective=objective, **base)
        check_range({"depth": depth}, least=0)
        self.depth, self.layers, self.head_bias, self.backbone = depth, layers, head_bias, backbone
        self.backbone_config: dict[str, Any] | None = None

    def unused(self) -> dict[str, str]:
        if self.backbone.pretrained is None:
            names = dict.fromkeys(("layer", "cache"), "backbone.pretrained=null")
            return super().unused() | within("backbone", names)
        words = ["width", "max_vocab_size"]
        if self.words.front_end != "spelling":
            words.append("min_count")
        if self.words.front_end == "none":
            words.append("words")
        return super().unused() | dict.fromkeys(words, "a backbone, which has its own")

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        name = self.backbone.pretrained
        if name is None:
            return super().build_tokenizer(texts)
        check_backbone(name)
        pretrained = PretrainedTokenizer.from_pretrained(name, max_length=self.max_length)
        return build_with_front_end(texts, self.words, self.min_count, lambda _: pretrained)

    def configure_model(self) -> None:
        if self.embedding is not None:
            return
        tokenizer, class_names = self.require_text()
        embedding: NormalizedEmbedding | FrozenBackbone
        if self.backbone.pretrained is None:
            embedding = NormalizedEmbedding(
                tokenizer.vocab_size,
                self.width,
                max_length=tokenizer.max_length,
                pairs=self.pairs,
                norm=self.embedding_norm,
            )
            width, radius = self.width, embedding.radius
        else:
            embedding = FrozenBackbone(
                self.backbone, config=self.backbone_config, norm=self.embedding_norm
            )
            embedding.check_fits(tokenizer.vocab_size, tokenizer.max_length)
            width, radius = embedding.width, self.embedding_norm
        self.embedding = embedding
        self.network = olsa_classifier(
            width,
            len(class_names),
            depth=self.depth,
            heads=self.heads,
            radius=radius,
            layers=self.layers,
            head_bias=self.head_bias or self.detector is not None,
        )

    @property
    def trains_bias(self) -> bool:
        return self.head_bias

    @property
    def no_relaxation(self) -> str | None:
        if self.backbone.pretrained is not None:
            return "backbone.pretrained, whose tokens depend on all words (null has one)"
        if self.layers.attention != "additive" and self.depth:
            return f"layers.attention={self.layers.attention} (additive has one)"
        return super().no_relaxation

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if isinstance(self.embedding, FrozenBackbone):
            checkpoint[CHECKPOINT_KEY]["backbone"] = self.embedding.config

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.backbone_config = checkpoint[CHECKPOINT_KEY].get("backbone")
        if (self.backbone.pretrained is None) != (self.backbone_config is None):
            # A checkpoint must not be able to make the program read a folder or fetch a model.
            msg = (
                f"got a checkpoint {'without' if self.backbone_config is None else 'with'} the "
                f"architecture of a backbone for {self.backbone}, expected both or none"
            )
            raise ValueError(msg)

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: word plus position embeddings, or the backbone's normalised output."""
        if not isinstance(self.embedding, FrozenBackbone):
            return super().embed(batch)
        # Only training texts are cached: they come again in each epoch.
        vectors: Tensor = self.embedding(
            batch.input_ids,
            batch.mask,
            batch.segment_ids,
            sample_ids=batch.sample_ids if self.training else None,
        )
        return vectors
