"""Detectors whose score never falls when text is added: sums of evidence of at least 0.

The idea of monotone classifiers: Incer, Theodorides, Afroz and Wagner, "Adversarially robust
malware detection using monotonic classification" (2018). docs/certificates/append.md has the
theorem and its proof.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from certify.threats import TextCertifier, Threat, ThreatName
from certify.words.evidence import EvidenceCertifier, EvidenceModel
from certify.words.worst_path import drop_dominated, worst_path, worst_words
from layers.evidence import EvidenceSum, new_evidence
from layers.ngram_scores import NgramScores
from lit_modules.shared.detection import check_two_classes, find_evidence_class
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.robust_words import RobustWords
from lit_modules.shared.task_module import labels_of, require_layers
from lit_modules.shared.word_robustness import WordRobustness
from lit_modules.word_scores import count_ngrams, stored_ngram_counts
from text import Batch, Text, Tokenizer, WordTokenizer, check_range
from text.torch_archive import CHECKPOINT_KEY

WHOLE = 2**31 - 1
"""`max_length` of a model that reads each text to its end."""


class MonotoneScores(RobustWords, method=True):
    """A detector that adds up evidence of at least 0 of the words and n-grams that a text has."""

    threats: Sequence[ThreatName] = ("synonyms", "substitutions", "additions")
    candidates: Tensor | None = None

    def __init__(
        self,
        *,
        positive: str | None = None,
        window: int = 3,
        min_ngram_count: int = 2,
        l1: float = 3e-5,
        robustness: WordRobustness = WordRobustness(),
        optimisation: Optimisation = Optimisation(decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            positive: class that is detected; null: that of `--detect.positive`, else the second of
                the two classes.
            window: words of the longest n-gram: 1 to 4.
            min_ngram_count: n-grams that are rarer in the training split have no score.
            l1: weight of the sum of all scores in the loss.
            robustness: the perturbation sets against which it is trained.
            optimisation: optimiser and learning rate.
            base: settings of `RobustWords`. `max_length` has no effect.
        """
        super().__init__(robustness=robustness, optimisation=optimisation, **base)
        # A detector that reads only the beginning of a text is evaded by text in front of it.
        self.max_length = WHOLE
        self.positive_name, self.window, self.min_ngram_count = positive, window, min_ngram_count
        self.l1, self.addition = l1, "append"
        self._check_settings()
        self.scores: NgramScores | None = None
        self.ngrams, self.ngram_counts = list[Tensor](), list[int]()

    def _check_settings(self) -> None:
        check_range({"window": self.window}, least=1, most=4)
        check_range({"min_ngram_count": self.min_ngram_count}, least=1)
        check_range({"l1": self.l1}, least=0)
        settings = self.robustness
        if settings.against == "characters" or settings.search == "intervals" or settings.together:
            msg = (
                f"got robustness.against={settings.against}, search={settings.search} and "
                f"together={settings.together} for MonotoneScores, expected perturbation sets or "
                "synonyms, search=paths and together=0"
            )
            raise ValueError(msg)

    def unused(self) -> dict[str, str]:
        reasons = super().unused()
        reasons["max_length"] = "MonotoneScores, which reads each text to its end"
        if self.window == 1:
            reasons["min_ngram_count"] = "window=1"
        return reasons

    @property
    def no_certificate(self) -> str | None:
        return "its certificates are about added and replaced words: `certify --threat append`"

    # Text

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        corpus = list(texts)
        tokenizer = self.robust_tokenizer(corpus)
        if self.window > 1:
            self.ngrams = count_ngrams(tokenizer, corpus, self.window, self.min_ngram_count)
            self.ngram_counts = [len(rows) for rows in self.ngrams]
        return tokenizer

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint[CHECKPOINT_KEY]["ngram_counts"] = self.ngram_counts

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        size = self.require_tokenizer().vocab_size
        self.ngram_counts = stored_ngram_counts(checkpoint, self.window - 1, size)

    def configure_model(self) -> None:
        if self.scores is not None:
            return
        tokenizer, names = self.require_text()
        check_two_classes(self.method, names, pairs=self.pairs)
        self.follow_detector()
        positive = find_evidence_class(self.positive_name, names)
        self.scores = NgramScores(
            tokenizer.vocab_size,
            1,
            counts=self.ngram_counts or [0] * (self.window - 1),
            specials=len(WordTokenizer.specials),
        )
        if self.ngrams:
            self.scores.set_ngrams(self.ngrams)
        self.ngrams = []
        self.network: EvidenceSum = EvidenceSum(positive=positive)

    def output_bias(self) -> nn.Parameter:
        """Return `[2]`, the bias of the logits."""
        return self.network.bias

    @property
    def evidence_class(self) -> int:
        """Index of the class that evidence speaks for."""
        return self.network.positive

    # Training

    def on_fit_start(self) -> None:
        """Read the lists, which only training needs."""
        super().on_fit_start()
        self._project()
        if self.robustness.against != "none":
            self.candidates = self.word_options().table()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        batch = self.trained_on(batch)
        labels, scores = labels_of(batch), self._layers_of_scores()
        logits = self(batch)
        loss = functional.cross_entropy(logits, labels)
        kappa = self.robustness.weight(self.progress())
        if kappa > 0 and self.candidates is not None:
            worst = self(replace(batch, input_ids=self._worst_texts(batch, labels)))
            y = labels.unsqueeze(1)
            leads = (worst - worst.gather(1, y)).scatter(1, y, 0.0)
            loss = (1 - kappa) * loss + kappa * self.robustness.loss(leads, labels).mean()
        # Scores are not below 0: their sum is the l1 norm.
        norms = [table.sum() for table in (scores.words, *scores.tables)]
        loss = loss + self.l1 * torch.stack(norms).sum()
        return self.log_loss_of(loss, logits, batch, batch_idx)

    @torch.no_grad()
    def _worst_texts(self, batch: Batch, labels: Tensor) -> Tensor:
        """`[B, N]` ids: texts of the sets with little evidence for their class."""
        assert self.candidates is not None  # the caller has checked
        scores = self._layers_of_scores()
        rows = self.candidates[batch.input_ids]
        sign = torch.where(labels == self.evidence_class, 1.0, -1.0).unsqueeze(1)
        find = worst_words if scores.width == 1 else worst_path
        if scores.width > 1:
            # The time of a search is the number of candidates to the power of the width.
            rows = drop_dominated(scores, rows, sign)
        # Repeated n-grams count each time: the worst text of this sum, not always of the model.
        chosen = find(scores, rows, sign, self.robustness.k).path[:, -1]
        return rows.gather(2, chosen.unsqueeze(2)).squeeze(2)

    def optimizer_step(self, *args: Any, **settings: Any) -> None:
        super().optimizer_step(*args, **settings)
        # Callbacks average and save the weights before the module's own `on_train_batch_end`.
        self._project()

    @torch.no_grad()
    def _project(self) -> None:
        """Set scores below 0 to 0."""
        scores = self._layers_of_scores()
        for table in (scores.words, *scores.tables):
            table.clamp_(min=0.0)

    def _layers_of_scores(self) -> NgramScores:
        return require_layers(self.scores)

    # The classifier contract

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, 1]`: the evidence that each position adds to that of the positions before."""
        return new_evidence(self._layers_of_scores(), batch.input_ids)

    @torch.no_grad()
    def word_evidence(self, text: Text, index: int) -> list[tuple[str, float]]:
        """Return the new evidence of each word, with the n-grams that end there."""
        assert isinstance(text, str)  # `configure_model` refuses pairs
        evidence = self.embed(self.encode_texts([text]))[0, :, 0]
        return self.add_by_word(text, evidence if index == self.evidence_class else -evidence)

    @property
    def predicts_in_float64(self) -> bool:
        return True

    def own_certifier(self, threat: Threat) -> TextCertifier:
        assert isinstance(self.tokenizer, WordTokenizer)  # see `build_tokenizer`
        scores = self._layers_of_scores().cpu().keep().requires_grad_(requires_grad=False)
        return EvidenceCertifier(EvidenceModel(scores, self.network.cpu(), self.tokenizer), threat)
