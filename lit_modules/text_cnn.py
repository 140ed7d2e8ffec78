"""Certified training by intervals: "IBP" of Jia et al., 2019, and its EIBC variant."""

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from certify.intervals import HullCertifier, HullModel
from certify.threats import TextCertifier, Threat, ThreatName
from layers.interval_cnn import IntervalCNN, WindowPooling
from lit_modules.shared.robust_words import RobustWords
from lit_modules.shared.task_module import labels_of, require_layers
from lit_modules.shared.word_robustness import WordOptions, WordRobustness
from lit_modules.shared.word_table import WordTable
from text import Batch, Text, Tokenizer, WordTokenizer, check_choice, check_range


class TextCNN(RobustWords, method=True):
    """A convolution over word vectors, trained so that intervals around words certify it."""

    threats: Sequence[ThreatName] = ("synonyms", "substitutions")

    def __init__(
        self,
        *,
        width: int = 100,
        pooling: WindowPooling = "mean",
        vectors: str | None = None,
        vector_width: int = 50,
        robustness: WordRobustness = WordRobustness(),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            width: width of all layers.
            pooling: pooling of the windows of three words.
            vectors: file of word vectors, which are frozen; null: random vectors, which are
                trained.
            vector_width: numbers of a vector.
            robustness: synonyms or perturbation sets for robust training. Intervals grow to the
                hull of a word's candidates while kappa rises; `together` weighs the term that draws
                words near their candidates (EIBC).
            base: settings of `RobustWords`.
        """
        super().__init__(robustness=robustness, **base)
        check_choice("pooling", pooling, get_args(WindowPooling))
        check_range({"width": width, "vector_width": vector_width}, least=1)
        if robustness.against == "characters":
            msg = (
                "got robustness.against=characters, expected none, synonyms or perturbation sets "
                "(pwws,typos)"
            )
            raise ValueError(msg)
        self.width, self.pooling = width, pooling
        self.vectors, self.vector_width = vectors, vector_width
        self.table = None if vectors is None else WordTable(vectors, vector_width)
        self.options: WordOptions | None = None
        self.embedding: nn.Embedding | None = None

    def unused(self) -> dict[str, str]:
        reasons = super().unused()
        if self.robustness.k is not None:
            reasons["robustness.k"] = "intervals, which are about any number of words"
        return reasons

    @property
    def no_certificate(self) -> str | None:
        threat = self.robustness.threat_option
        return f"its certificates are about words: `certify --threat {threat}`"

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        return self.robust_tokenizer(texts)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.table = None  # the checkpoint has its vectors: no file is read

    def configure_model(self) -> None:
        if self.embedding is not None:
            return
        tokenizer, class_names = self.require_single_texts()
        self.embedding = nn.Embedding(tokenizer.vocab_size, self.vector_width)
        nn.init.normal_(self.embedding.weight, std=self.vector_width**-0.5)
        if self.table is not None:
            self.table.fill(self.embedding.weight, tokenizer, frozen=True)
        self.embedding.weight.requires_grad_(self.vectors is None)
        self.table = None
        self.network = IntervalCNN(
            self.vector_width, self.width, len(class_names), pooling=self.pooling
        )

    def on_fit_start(self) -> None:
        """Read the lists, which only training needs."""
        super().on_fit_start()
        if self.robustness.against != "none":
            self.options = self.word_options()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        batch = self.trained_on(batch)
        labels = labels_of(batch)
        logits = self(batch)
        losses = functional.cross_entropy(logits, labels, reduction="none")
        if self.options is not None:
            losses = self._robust(batch, labels, losses)
        loss = losses.mean()
        return self.log_loss_of(loss, logits, batch, batch_idx)

    def _robust(self, batch: Batch, labels: Tensor, losses: Tensor) -> Tensor:
        """`[B]` losses with those of the intervals."""
        settings, network = self.robustness, self.network
        assert self.options is not None  # checked by the caller
        assert self.embedding is not None  # set by `configure_model`
        assert isinstance(network, IntervalCNN)  # set by `configure_model`
        kappa = settings.weight(self.progress())
        # The radii of the intervals grow with kappa, up to the hull.
        share = kappa / settings.kappa if settings.kappa else 0.0
        # Each word of the batch once, with all its candidates.
        words, inverse = torch.unique(batch.input_ids, return_inverse=True)
        ids, starts = self.options.of_words(words)
        hull = network.hull(self.embedding.weight, ids[:, 0], starts)
        own, lower, upper = (part[inverse] for part in hull)
        lower, upper = own + share * (lower - own), own + share * (upper - own)
        if kappa > 0:
            leads = network.least_leads(lower, upper, batch.mask, labels)
            losses = (1 - kappa) * losses + kappa * settings.loss(-leads, labels)
        if settings.together > 0:
            # A hull is penalised where it is wider than the distance to a random other word: the
            # word at the same position of another text.
            size = _root(((upper - lower) / 2).square().mean(dim=-1))
            apart = _root((own - own.roll(1, dims=0)).square().mean(dim=-1))
            gap = functional.softplus(size - apart)
            count = batch.mask.sum(dim=1)
            losses = losses + settings.together * (gap * batch.mask).sum(dim=1) / count
        return losses

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, v]`: the vectors of the words."""
        vectors: Tensor = require_layers(self.embedding)(batch.input_ids)
        return vectors

    def own_certifier(self, threat: Threat) -> TextCertifier:
        network, embedding, tokenizer = self.network, self.embedding, self.tokenizer
        assert isinstance(network, IntervalCNN)  # all three are set by now
        assert embedding is not None
        assert isinstance(tokenizer, WordTokenizer)
        # Certificates are computed in float64, on a copy.
        network = network.to("cpu", torch.float64).requires_grad_(requires_grad=False)
        vectors = embedding.weight.detach().to("cpu", torch.float64)
        return HullCertifier(HullModel(network, vectors, tokenizer), threat)


def _root(squares: Tensor) -> Tensor:
    """Return the square root, with the gradient 0 at 0, where the root has none."""
    return squares.clamp_min(1e-12).sqrt()
