"""The baselines: ordinary encoders without a certificate, and a bag of embeddings with one."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Literal, get_args

from torch import Tensor, nn

from layers import (
    Attention,
    LSTMClassifier,
    NormalizedEmbedding,
    OLSALayers,
    PlainEmbedding,
    TransformerClassifier,
    TransformerLayers,
    WordEmbedding,
    olsa_classifier,
)
from lit_modules.shared.embedded import EmbeddedClassifier
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.settings import within
from lit_modules.shared.word_table import WordTable
from text import Batch, Text, Tokenizer, check_choice, check_range

Encoder = Literal["transformer", "lstm", "mean"]


def _check_encoder(encoder: Encoder, embedding: WordEmbedding, objective: RadiusObjective) -> None:
    check_choice("encoder", encoder, get_args(Encoder))
    if encoder != "mean" and not objective.plain:
        msg = (
            f"got encoder={encoder} with objective.loss={objective.loss} and "
            f"objective.gamma={objective.gamma}, expected cross_entropy and 0: it has no "
            "certificate to train for; use OLSA or mean"
        )
        raise ValueError(msg)
    if encoder == "mean" and embedding.kind != "normalized":
        msg = (
            f"got encoder=mean with embedding.kind={embedding.kind}, expected normalized: its "
            "certificate needs a bound on the norm of embedded words"
        )
        raise ValueError(msg)


class TextClassifier(EmbeddedClassifier, method=True):
    """A plain classifier on word and position embeddings."""

    def __init__(
        self,
        *,
        encoder: Encoder = "transformer",
        depth: int = 2,
        dropout: float = 0.1,
        attention: Attention = Attention(),
        layers: TransformerLayers = TransformerLayers(),
        hidden: int = 200,
        single_logit: bool = False,
        embedding: WordEmbedding = WordEmbedding(),
        objective: RadiusObjective = RadiusObjective(margin_cap=2.0),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            encoder: transformer; lstm: bidirectional; mean: sum of embeddings / sqrt(n), the only
                one with a certificate, and the only one that takes another objective.
            depth: number of layers of a transformer or lstm.
            dropout: dropout of a transformer or lstm while training.
            attention: self-attention of the layers of a transformer.
            layers: settings of the layers of a transformer.
            hidden: size of the state of one direction of an lstm.
            single_logit: one output z for two classes, whose logits are (0, z).
            embedding: settings of the embedding of words.
            objective: the loss, and the reward of a large certified radius.
            base: settings of `EmbeddedClassifier`.
        """
        _check_encoder(encoder, embedding, objective)
        super().__init__(objective=objective, **base)
        check_range({"depth": depth}, least=1 if encoder == "lstm" else 0)
        check_range({"hidden": hidden}, least=1)
        check_range({"dropout": dropout}, least=0, below=1)
        self.encoder, self.depth, self.dropout, self.hidden = encoder, depth, dropout, hidden
        self.attention, self.layers, self.single_logit = attention, layers, single_logit
        self.embedding_settings = embedding
        self.table = WordTable(embedding.vectors, self.width) if embedding.vectors else None

    @property
    def certified(self) -> bool:
        return self.encoder == "mean"

    @property
    def no_certificate(self) -> str | None:
        if self.encoder == "lstm":
            return "no Lipschitz constant is proven for an LSTM; OLSA has one"
        if self.encoder == "transformer" and self.attention.kind == "l2":
            theorem = "L2 attention with own keys has no Lipschitz constant (Kim et al., Lemma F.1)"
            return f"{theorem}; OLSA with layers.attention=l2 has one"
        return super().no_certificate

    @property
    def no_relaxation(self) -> str | None:
        if self.encoder == "lstm":
            return "encoder=lstm (transformer and mean have one)"
        if self.encoder == "transformer" and not self.layers.mean_norm:
            return "layers.mean_norm=false (true has one)"
        if self.encoder == "transformer" and self.attention.kind != "scaled_dot_product":
            return f"attention.kind={self.attention.kind} (scaled_dot_product has one)"
        return super().no_relaxation

    def unused(self) -> dict[str, str]:
        layers = tuple(f"layers.{field.name}" for field in fields(TransformerLayers))
        of_transformer = ("heads", "attention", *layers)
        names = {
            "transformer": ("hidden",),
            "lstm": of_transformer,
            "mean": (*of_transformer, "depth", "dropout", "hidden", "single_logit"),
        }[self.encoder]
        reasons = super().unused() | dict.fromkeys(names, f"encoder={self.encoder}")
        if self.encoder == "transformer":
            reasons |= within("attention", self.attention.unused)
        if self.embedding_settings.kind == "plain":
            reasons["embedding_norm"] = "embedding.kind=plain"
        if self.embedding_settings.vectors is not None:
            reasons["min_count"] = "embedding.vectors"
        return reasons | within("embedding", self.embedding_settings.unused)

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        if self.table is None:
            return super().build_tokenizer(texts)
        return self.table.tokenizer(self.word_tokenizer(texts), self.max_vocab_size)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.table = None  # the checkpoint has its vectors: no file is read

    def configure_model(self) -> None:
        if self.embedding is not None:
            return
        tokenizer, class_names = self.require_text()
        self.embedding = embedding = self._embedding()
        words, frozen = embedding.words.weight, self.embedding_settings.frozen
        if self.table is not None:
            self.table.fill(words, tokenizer, frozen=frozen)
            # The embedding has its vectors now: free their memory.
            self.table = None
        if frozen:
            words.requires_grad_(False)
        self.network = self._network(embedding, len(class_names))

    def _embedding(self) -> NormalizedEmbedding | PlainEmbedding:
        tokenizer, _ = self.require_text()
        settings = self.embedding_settings
        size, width = tokenizer.vocab_size, self.width
        both: dict[str, Any] = {"positions": settings.positions, "pairs": self.pairs}
        both["max_length"] = tokenizer.max_length
        if settings.kind == "plain":
            # Vectors of a file have their own scale.
            of_file = 1.0 if settings.vectors is not None else None
            scale = of_file if settings.scale is None else settings.scale
            return PlainEmbedding(size, width, scale=scale, **both)
        return NormalizedEmbedding(size, width, norm=self.embedding_norm, **both)

    def _network(
        self, embedding: NormalizedEmbedding | PlainEmbedding, num_classes: int
    ) -> nn.Module:
        if isinstance(embedding, NormalizedEmbedding) and self.encoder == "mean":
            # A bag of embeddings is OLSA without layers, with the same certificate.
            return olsa_classifier(
                self.width,
                num_classes,
                depth=0,
                heads=1,
                radius=embedding.radius,
                layers=OLSALayers(initial_alpha_1=1.0),
                head_bias=self.detector is not None,
            )
        if self.encoder == "lstm":
            return LSTMClassifier(
                self.width,
                num_classes,
                depth=self.depth,
                hidden=self.hidden,
                dropout=self.dropout,
                single_logit=self.single_logit,
            )
        return TransformerClassifier(
            self.width,
            num_classes,
            depth=self.depth,
            heads=self.heads,
            dropout=self.dropout,
            attention=self.attention,
            max_length=embedding.max_length,
            layers=self.layers,
            single_logit=self.single_logit,
        )

    @property
    def trains_bias(self) -> bool:
        return self.encoder != "mean"

    def activations(self, batch: Batch) -> list[Tensor]:
        if not isinstance(self.network, TransformerClassifier | LSTMClassifier) or not self.depth:
            return super().activations(batch)
        return self.network.hidden_states(self.embed(batch), batch.mask)[1:]
