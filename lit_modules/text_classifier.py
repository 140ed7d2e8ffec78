"""The baselines: an ordinary Transformer without certificate, and a bag of embeddings with one."""

from typing import Any, Literal

from torch import Tensor, nn

from layers import (
    Attention,
    NormalizedEmbedding,
    OLSALayers,
    TransformerClassifier,
    olsa_classifier,
)
from lit_modules.shared.certified import CertifiedClassifier
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.settings import within
from text import Batch, check_choice, check_range


class TextClassifier(CertifiedClassifier, method=True):
    """A plain classifier on word and position embeddings of fixed norm."""

    def __init__(
        self,
        *,
        encoder: Literal["transformer", "mean"] = "transformer",
        depth: int = 2,
        heads: int = 8,
        width: int = 256,
        dropout: float = 0.1,
        attention: Attention = Attention(),
        embedding_norm: float = 2.0,
        objective: RadiusObjective = RadiusObjective(margin_cap=2.0),
        **base: Any,
    ) -> None:
        """Keeps the settings; layers are built once the vocabulary is known.

        Args:
            encoder: kind of the encoder. transformer: no certificate; mean: sum of embeddings /
                sqrt(n), certified.
            depth: number of Transformer layers; not used by mean.
            heads: number of attention heads; not used by mean.
            width: token width.
            dropout: dropout while training; not used by mean.
            attention: self-attention of the Transformer layers; not used by mean.
            embedding_norm: norm of word and of position embeddings.
            objective: the loss, and the reward of a large certified radius; transformer takes
                cross_entropy with gamma 0 only.
            base: settings of `CertifiedClassifier`.
        """
        if encoder == "transformer" and not objective.plain:
            msg = (
                f"got encoder=transformer with objective.loss={objective.loss} and "
                f"objective.gamma={objective.gamma}, expected cross_entropy and 0: it has no "
                "certificate to train for; use OLSA or mean"
            )
            raise ValueError(msg)
        super().__init__(objective=objective, **base)
        check_choice("encoder", encoder, ("transformer", "mean"))
        check_range({"depth": depth}, least=0)
        check_range({"heads": heads, "width": width}, least=1)
        check_range({"embedding_norm": embedding_norm}, above=0)
        check_range({"dropout": dropout}, least=0, below=1)
        self.encoder, self.depth, self.heads = encoder, depth, heads
        self.width, self.dropout, self.embedding_norm = width, dropout, embedding_norm
        self.attention = attention
        self.embedding: NormalizedEmbedding | None = None

    @property
    def certified(self) -> bool:
        return self.encoder == "mean"

    def unused(self) -> dict[str, str]:
        if self.encoder == "mean":
            none = ("depth", "heads", "dropout", "attention")
            return super().unused() | dict.fromkeys(none, "encoder=mean")
        return super().unused() | within("attention", self.attention.unused)

    def configure_model(self) -> None:
        if self.embedding is not None:
            return
        tokenizer, class_names = self.require_text()
        self.embedding = NormalizedEmbedding(
            tokenizer.vocab_size,
            self.width,
            max_length=tokenizer.max_length,
            pairs=self.pairs,
            norm=self.embedding_norm,
        )
        network: nn.Module
        if self.encoder == "mean":
            network = olsa_classifier(
                self.width,
                len(class_names),
                depth=0,
                heads=1,
                radius=self.embedding.radius,
                layers=OLSALayers(initial_alpha_1=1.0),
            )
        else:
            network = TransformerClassifier(
                self.width,
                len(class_names),
                depth=self.depth,
                heads=self.heads,
                dropout=self.dropout,
                attention=self.attention,
                max_length=tokenizer.max_length,
            )
        self.network = network

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: word plus position embeddings."""
        if self.embedding is None:
            msg = "got a model without layers, expected configure_model() before its first use"
            raise RuntimeError(msg)
        tokens: Tensor = self.embedding(batch.input_ids, batch.segment_ids)
        return tokens

    def activations(self, batch: Batch) -> list[Tensor]:
        if not isinstance(self.network, TransformerClassifier) or self.depth == 0:
            return super().activations(batch)
        return self.network.hidden_states(self.embed(batch), batch.mask)[1:]
