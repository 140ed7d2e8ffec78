"""The baselines: ordinary encoders without certificate, and a bag of embeddings with one."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

from torch import Tensor, nn

from layers import (
    Attention,
    LSTMClassifier,
    NormalizedEmbedding,
    OLSALayers,
    PlainEmbedding,
    TransformerClassifier,
    WordEmbedding,
    olsa_classifier,
)
from layers.transformer import FeedForwardActivation, Norm
from lit_modules.shared.certified import CertifiedClassifier
from lit_modules.shared.radius_objective import RadiusObjective
from lit_modules.shared.settings import within
from lit_modules.shared.word_table import WordTable
from text import Batch, Text, Tokenizer, check_choice, check_range

Encoder = Literal["transformer", "lstm", "mean"]


class TextClassifier(CertifiedClassifier, method=True):
    """A plain classifier on word and position embeddings."""

    def __init__(
        self,
        *,
        encoder: Encoder = "transformer",
        depth: int = 2,
        heads: int = 8,
        width: int = 256,
        dropout: float = 0.1,
        attention: Attention = Attention(),
        feedforward: int | None = None,
        norm: Norm = "pre",
        activation: FeedForwardActivation = "gelu",
        hidden: int = 200,
        single_logit: bool = False,
        embedding: WordEmbedding = WordEmbedding(),
        embedding_norm: float = 2.0,
        objective: RadiusObjective = RadiusObjective(margin_cap=2.0),
        **base: Any,
    ) -> None:
        """Keeps the settings; layers are built once the vocabulary is known.

        Args:
            encoder: kind of the encoder. transformer: no certificate; lstm: bidirectional, no
                certificate; mean: sum of embeddings / sqrt(n), certified.
            depth: number of layers of a transformer or lstm.
            heads: number of attention heads of a transformer.
            width: token width.
            dropout: dropout of a transformer or lstm while training.
            attention: self-attention of the layers of a transformer.
            feedforward: number of features in the feed-forward part of a transformer; null: 4 *
                width.
            norm: LayerNorm of a transformer. pre: before each part; post: after each sum (Vaswani
                et al., 2017).
            activation: activation in the feed-forward part of a transformer; relu is that of
                Vaswani et al.
            hidden: size of the state of one direction of an lstm.
            single_logit: one output z for two classes, in place of an output for each; their logits
                are (0, z).
            embedding: settings of the embedding of words.
            embedding_norm: norm of word and of position embeddings; not used by embedding.kind
                plain.
            objective: the loss, and the reward of a large certified radius; transformer and lstm
                take cross_entropy with gamma 0 only.
            base: settings of `CertifiedClassifier`.
        """
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
        super().__init__(objective=objective, **base)
        check_choice("norm", norm, get_args(Norm))
        check_choice("activation", activation, get_args(FeedForwardActivation))
        check_range({"depth": depth}, least=1 if encoder == "lstm" else 0)
        sizes = {"heads": heads, "width": width, "feedforward": feedforward, "hidden": hidden}
        check_range(sizes, least=1)
        check_range({"embedding_norm": embedding_norm}, above=0)
        check_range({"dropout": dropout}, least=0, below=1)
        self.encoder, self.depth, self.heads = encoder, depth, heads
        self.width, self.dropout, self.embedding_norm = width, dropout, embedding_norm
        self.attention, self.feedforward, self.norm = attention, feedforward, norm
        self.activation, self.hidden, self.single_logit = activation, hidden, single_logit
        self.embedding_settings = embedding
        self.table = None if embedding.vectors is None else WordTable(embedding.vectors, width)
        self.embedding: NormalizedEmbedding | PlainEmbedding | None = None

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

    def unused(self) -> dict[str, str]:
        of_transformer = ("heads", "attention", "feedforward", "norm", "activation")
        names = {
            "transformer": ("hidden",),
            "lstm": of_transformer,
            "mean": (*of_transformer, "depth", "dropout", "hidden", "single_logit"),
        }[self.encoder]
        found = super().unused() | dict.fromkeys(names, f"encoder={self.encoder}")
        if self.encoder == "transformer":
            found |= within("attention", self.attention.unused)
        if self.embedding_settings.kind == "plain":
            found["embedding_norm"] = "embedding.kind=plain"
        if self.embedding_settings.vectors is not None:
            found["min_count"] = "embedding.vectors"
        return found | within("embedding", self.embedding_settings.unused)

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        if self.table is None:
            return super().build_tokenizer(texts)
        return self.table.tokenizer(self.word_tokenizer(texts), self.max_vocab_size)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.table = None  # its vectors are among the weights: a checkpoint has no file read

    def configure_model(self) -> None:
        if self.embedding is not None:
            return
        tokenizer, class_names = self.require_text()
        self.embedding = self._embedding()
        if self.table is not None:
            self.table.fill(
                self.embedding.words.weight,
                tokenizer,
                frozen=self.embedding_settings.frozen,
            )
            self.table = None
        if self.embedding_settings.frozen:
            self.embedding.words.weight.requires_grad_(False)
        self.network = self._network(self.embedding, len(class_names))

    def _embedding(self) -> NormalizedEmbedding | PlainEmbedding:
        tokenizer, _ = self.require_text()
        given = self.embedding_settings
        size, length = tokenizer.vocab_size, tokenizer.max_length
        if given.kind == "plain":
            of_file = 1.0 if given.vectors is not None else None
            return PlainEmbedding(
                size,
                self.width,
                max_length=length,
                pairs=self.pairs,
                positions=given.positions,
                scale=of_file if given.scale is None else given.scale,
            )
        return NormalizedEmbedding(
            size,
            self.width,
            max_length=length,
            pairs=self.pairs,
            positions=given.positions,
            norm=self.embedding_norm,
        )

    def _network(
        self, embedding: NormalizedEmbedding | PlainEmbedding, num_classes: int
    ) -> nn.Module:
        if isinstance(embedding, NormalizedEmbedding) and self.encoder == "mean":
            return olsa_classifier(
                self.width,
                num_classes,
                depth=0,
                heads=1,
                radius=embedding.radius,
                layers=OLSALayers(initial_alpha_1=1.0),
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
            feedforward=self.feedforward,
            norm=self.norm,
            activation=self.activation,
            single_logit=self.single_logit,
        )

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: embedded words and positions."""
        if self.embedding is None:
            msg = "got a model without layers, expected configure_model() before its first use"
            raise RuntimeError(msg)
        tokens: Tensor = self.embedding(batch.input_ids, batch.segment_ids)
        return tokens

    def activations(self, batch: Batch) -> list[Tensor]:
        if not isinstance(self.network, TransformerClassifier | LSTMClassifier) or not self.depth:
            return super().activations(batch)
        return self.network.hidden_states(self.embed(batch), batch.mask)[1:]
