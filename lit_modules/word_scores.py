"""Sums of scores of words and n-grams: classifiers with exact certificates in words."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from certify.threats import TextCertifier, Threat, ThreatName
from certify.words.score_certifiers import (
    CharacterCertifier,
    ScoreModel,
    SynonymCertifier,
    WordCertifier,
)
from layers.ngram_scores import NgramScores, ScoreSum
from layers.window_net import WindowNetSettings
from lit_modules.shared.answered_texts import AnsweredTexts, read_answers
from lit_modules.shared.detection import detection_scores
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.process_means import global_size
from lit_modules.shared.robust_words import RobustWords
from lit_modules.shared.settings import within
from lit_modules.shared.task_module import labels_of, require_layers
from lit_modules.shared.word_robustness import (
    WordEdits,
    WordOptions,
    WordRobustness,
    extend_vocabulary,
    least_leads,
    rival_leads,
    rivals,
    worst_texts,
)
from lit_modules.shared.word_table import WordTable
from text import Batch, Text, Tokenizer, WordTokenizer, check_range
from text.torch_archive import CHECKPOINT_KEY

log = logging.getLogger(__name__)


class WordScores(RobustWords, method=True):
    """A sum of scores of words and frequent n-grams, trained for certificates in words."""

    threats: Sequence[ThreatName] = ("synonyms", "substitutions", "characters", "words")
    candidates: Tensor | None = None
    edits: WordEdits | WordOptions | None = None
    further: AnsweredTexts | None = None

    def __init__(
        self,
        *,
        window: int = 1,
        min_ngram_count: int = 15,
        bounded: bool = False,
        normalised: bool = True,
        bias: bool = False,
        vectors: str | None = None,
        vector_width: int = 50,
        spelling: int = 0,
        net: WindowNetSettings = WindowNetSettings(),
        unlabelled: str | None = None,
        min_unlabelled_count: int | None = None,
        robustness: WordRobustness = WordRobustness(),
        optimisation: Optimisation = Optimisation(decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            window: words of the longest n-gram, or of a window of the net: 1 to 4.
            min_ngram_count: n-grams that are rarer in the training split have no score.
            bounded: bound the score of a word to [-1, 1].
            normalised: divide the sum by the square root of the number of words.
            bias: train a bias of each class, which does not depend on the words.
            vectors: file of word vectors; a linear function of them is added, or the net's input.
            vector_width: numbers of a vector.
            spelling: number of hashed n-grams of 3 to 5 characters, which words share; 0 for none.
            net: the net over windows.
            unlabelled: file of predictions of another model, written by `predict --file --output`.
            min_unlabelled_count: words with at least this count in these texts are known as well,
                and n-grams are counted in them too. null: words and n-grams of the training split
                only.
            robustness: the threat against which it is trained.
            optimisation: optimiser and learning rate.
            base: settings of `RobustWords`.
        """
        super().__init__(robustness=robustness, optimisation=optimisation, **base)
        self.window, self.min_ngram_count, self.net = window, min_ngram_count, net
        self.vectors, self.vector_width, self.spelling = vectors, vector_width, spelling
        self.bounded, self.normalised, self.bias = bounded, normalised, bias
        self.unlabelled, self.min_unlabelled_count = unlabelled, min_unlabelled_count
        self.table = self._checked_table()
        self.scores: NgramScores | None = None
        self.ngrams, self.ngram_counts = list[Tensor](), list[int]()

    def _checked_table(self) -> WordTable | None:
        """Check the settings, and return the word vectors of the file, or None."""
        check_range({"window": self.window}, least=1, most=4)
        if self.unlabelled is not None and self.smoothing.noise != "none":
            msg = (
                f"got smoothing.noise={self.smoothing.noise} with unlabelled texts, expected one "
                "of the two: those texts get no noise"
            )
            raise ValueError(msg)
        least = {"min_ngram_count": self.min_ngram_count, "vector_width": self.vector_width}
        check_range({**least, "min_unlabelled_count": self.min_unlabelled_count}, least=1)
        check_range({"spelling": self.spelling}, least=0)
        if self.robustness.splits and self.window > 1:
            msg = f"got robustness.splits with window={self.window}, expected window=1"
            raise ValueError(msg)
        _check_net(self.net, self.window, bounded=self.bounded, robustness=self.robustness)
        return None if self.vectors is None else WordTable(self.vectors, self.vector_width)

    def unused(self) -> dict[str, str]:
        reasons = super().unused() | within("net", self.net.unused)
        if self.window == 1:
            reasons["min_ngram_count"] = "window=1"
        if self.net.hidden:
            reasons["min_ngram_count"] = "net.hidden"
        elif self.robustness.against != "none":
            reasons["robustness.search"] = "net.hidden=0"
        if self.window == 1 and self.robustness.sets is not None:
            reasons["robustness.together"] = "window=1 with perturbation sets"
        if self.vectors is None:
            reasons["vector_width"] = "vectors=null"
        if self.unlabelled is None:
            reasons["min_unlabelled_count"] = "unlabelled=null"
        return reasons

    @property
    def no_certificate(self) -> str | None:
        threat = self.robustness.threat_option
        return f"its certificates are about words and characters: `certify --threat {threat}`"

    # Text

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        corpus = list(texts)
        tokenizer = self.word_tokenizer(corpus, self.min_count, self.max_vocab_size)
        if self.unlabelled is not None and self.min_unlabelled_count is not None:
            further = [row.text for row in read_answers(self.unlabelled)]
            more = self.word_tokenizer(further, self.min_unlabelled_count, self.max_vocab_size)
            tokenizer = extend_vocabulary(tokenizer, more.vocabulary.get_itos())
            corpus += further
        if self.robustness.lists is not None:
            # An adversary may insert the listed words of known ones.
            threat = self.robustness.threat(tokenizer)
            words = tokenizer.vocabulary.words()
            tokenizer = extend_vocabulary(
                tokenizer, chain.from_iterable(map(threat.of_word, words))
            )
        tokenizer = self.robustness.add_words(tokenizer, ordered=self.ordered)
        if self._orders > 1:
            self.ngrams = count_ngrams(tokenizer, corpus, self.window, self.min_ngram_count)
            self.ngram_counts = [len(rows) for rows in self.ngrams]
        return tokenizer

    @property
    def ordered(self) -> str | None:
        return f"WordScores with window={self.window}" if self.window > 1 else None

    @property
    def _orders(self) -> int:
        """Words of the longest n-gram in the tables."""
        return 1 if self.net.hidden else self.window

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint[CHECKPOINT_KEY]["ngram_counts"] = self.ngram_counts

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        size = self.require_tokenizer().vocab_size
        self.ngram_counts = stored_ngram_counts(checkpoint, self._orders - 1, size)
        self.table = None  # the checkpoint has its vectors: no file is read

    def configure_model(self) -> None:
        # Lightning calls this in every stage: built layers must stay.
        if self.scores is not None:
            return
        tokenizer, class_names = self.require_single_texts()
        self.scores = NgramScores(
            tokenizer.vocab_size,
            len(class_names),
            counts=self.ngram_counts or [0] * (self._orders - 1),
            bounded=self.bounded,
            vectors=self.vector_width if self.vectors is not None else 0,
            specials=len(WordTokenizer.specials),
            window=self.window,
            net=self.net if self.net.hidden else None,
            spelling=self.spelling,
        )
        if self.spelling:
            assert isinstance(tokenizer, WordTokenizer)  # see `build_tokenizer`
            self.scores.set_spelling(tokenizer.vocabulary.get_itos())
        if self.ngrams:
            self.scores.set_ngrams(self.ngrams)
        if self.table is not None and self.scores.vectors is not None:
            self.table.fill(self.scores.vectors, tokenizer, frozen=True)
        self.ngrams, self.table = [], None
        self.network = ScoreSum(
            normalised=self.normalised, bias=len(class_names) if self.bias else 0
        )
        self.set_detector(self.detector)

    @property
    def output_layer(self) -> nn.Module | None:
        built = self.scores is not None and self.smoothing.noise == "none"
        return self.network if built else None

    @property
    def trains_bias(self) -> bool:
        return self.bias

    # Training

    def on_fit_start(self) -> None:
        """Read lists and further texts, which only training needs."""
        super().on_fit_start()
        tokenizer, names = self.require_text()
        assert isinstance(tokenizer, WordTokenizer)  # see `build_tokenizer`
        if self.robustness.sets is not None:
            options = self.word_options()
            if self.window == 1:
                self.edits = options
            else:
                self.candidates = options.table()
        elif self.robustness.against != "none":
            self.candidates = self.robustness.table(tokenizer).to(self.device)
        if self.robustness.splits:
            self.edits = self.robustness.edits(tokenizer).to(self.device)
        if self.unlabelled is not None:
            self.further = AnsweredTexts.read(self.unlabelled, tokenizer, names)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        batch = self.trained_on(batch)
        labels = labels_of(batch)
        logits = self(batch)
        loss = self._loss(batch, logits, labels, torch.ones_like(labels, dtype=torch.float32))
        total = self.log_loss_of(loss, logits, batch, batch_idx)
        if self.further is None:
            return total
        # An epoch includes each further text once: processes share those of a batch.
        batches, world = int(self.trainer.num_training_batches), self.trainer.world_size
        step = self.current_epoch * batches + batch_idx
        further = self.further.batch(step, batches, rank=self.global_rank, world=world)
        size = global_size(self.trainer, batch_idx, len(batch))
        if further is None:
            return total
        more, targets, certain = further
        more, targets = more.to(self.device), targets.to(self.device)
        share = world * len(more) / size
        return total + share * self._loss(more, self(more), targets, certain.to(self.device))

    def _loss(self, batch: Batch, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the mean loss of a batch and of its worst texts, with the weights of samples."""
        assert self.scores is not None  # configure_model made them
        settings = self.robustness
        losses = functional.cross_entropy(logits, labels, reduction="none")
        kappa = settings.weight(self.progress())
        candidates = None if self.candidates is None else self.candidates[batch.input_ids]
        if kappa > 0 and (candidates is not None or self.edits is not None):
            leads = self._worst_leads(batch, candidates, labels)
            losses = (1 - kappa) * losses + kappa * settings.loss(leads, labels)
        if candidates is not None and settings.together > 0:
            table = self.scores.word_table()
            moved = table[candidates[..., 1:]] - table[candidates[..., :1]]
            apart = moved.square().sum(dim=-1).mean(dim=-1)
            count = batch.mask.sum(dim=1).clamp_min(1)
            losses = losses + settings.together * (apart * batch.mask).sum(dim=1) / count
        return (weights * losses).mean()

    def _worst_leads(self, batch: Batch, candidates: Tensor | None, labels: Tensor) -> Tensor:
        """`[B, C]` minus the least margins of the labels over each class."""
        assert self.scores is not None  # configure_model made them
        if self.robustness.search == "intervals":
            # Bounds of each hidden unit over all texts of the space, instead of some texts.
            assert candidates is not None  # intervals are about lists
            bounds: Tensor = -self.network(least_leads(self.scores, candidates, labels), batch.mask)
            classes = rivals(labels, self.scores.classes)
            return bounds.new_zeros(len(labels), self.scores.classes).scatter(1, classes, bounds)
        if self.edits is not None:
            ids = batch.input_ids * batch.mask
            texts = self.edits.worst(self.scores, ids, labels, self.robustness.k)
            mask = (texts > 0).flatten(0, 1)
        else:
            assert candidates is not None  # of the threats without edits
            texts = worst_texts(self.scores, candidates, labels, self.robustness.k)
            mask = batch.mask.repeat_interleave(texts.shape[1], dim=0)
        rows, count, length = texts.shape
        logits = self.network(self.scores(texts.view(-1, length)), mask).view(rows, count, -1)
        return rival_leads(logits, labels)

    # The classifier contract

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, C]`: the score of each word and of the n-grams that end there."""
        scores: Tensor = require_layers(self.scores)(batch.input_ids)
        return scores

    @torch.no_grad()
    def word_evidence(self, text: Text, index: int) -> list[tuple[str, float]]:
        """Return the score of each word, with the n-grams that end there; see `TaskModule`."""
        assert isinstance(text, str)  # `configure_model` refuses pairs
        scores = self.embed(self.encode_texts([text]))[0]  # [N, C]
        return self.add_by_word(text, detection_scores(scores, index))

    @property
    def predicts_in_float64(self) -> bool:
        return True

    def own_certifier(self, threat: Threat) -> TextCertifier:
        if threat.name in ("characters", "words") and self.window > 1:
            reason = f"window={self.window}, which has no certificate for {threat.name}"
            raise ValueError(self.no_certifier(threat, f"{reason}, window=1 has one"))
        plain = self.words.split == "ascii" and self.words.front_end == "none"
        if threat.name == "characters" and not plain:
            reason = f"words.split={self.words.split}, where a character may change words from afar"
            raise ValueError(self.no_certifier(threat, f"{reason}, words.split=ascii has one"))
        kinds: dict[str, Any] = {
            "synonyms": SynonymCertifier,
            "substitutions": SynonymCertifier,
            "characters": CharacterCertifier,
            "words": WordCertifier,
        }
        certifier: TextCertifier = kinds[threat.name](score_model(self), threat)
        return certifier


def score_model(module: WordScores) -> ScoreModel:
    """Return the scores of a copy that `exact_copy` made, on the CPU, with all tables computed."""
    assert isinstance(module.tokenizer, WordTokenizer)  # see `build_tokenizer`
    assert module.scores is not None  # a copy has its layers
    # `module` is a copy here: the model itself stays on its device and trainable.
    scores = module.scores.cpu().keep().requires_grad_(requires_grad=False)
    assert isinstance(module.network, ScoreSum)  # configure_model made it
    return ScoreModel(scores, module.tokenizer, module.network.cpu())


def _check_net(
    net: WindowNetSettings, window: int, *, bounded: bool, robustness: WordRobustness
) -> None:
    """Refuse settings that a net over windows does not have.

    Raises:
        ValueError: a window of one word, bounded scores, or intervals without a net.
    """
    if net.hidden and (window == 1 or bounded):
        msg = (
            f"got net.hidden={net.hidden} with window={window} and bounded={bounded}, expected a "
            "window of 2 to 4 and scores without bound"
        )
        raise ValueError(msg)
    if robustness.search == "intervals" and (not net.hidden or robustness.k is not None):
        msg = (
            f"got robustness.search=intervals with net.hidden={net.hidden} and k={robustness.k}, "
            "expected a net over windows, and k=null: intervals are about any number of words"
        )
        raise ValueError(msg)


def stored_ngram_counts(checkpoint: dict[str, Any], tables: int, vocab_size: int) -> list[int]:
    """Return the number of n-grams in each of `tables` tables of a checkpoint.

    Raises:
        ValueError: it has no such numbers.
    """
    counts = checkpoint[CHECKPOINT_KEY].get("ngram_counts")
    fits = isinstance(counts, list) and len(counts) == tables
    if not fits or any(type(n) is not int or not 0 <= n < vocab_size**4 for n in counts):
        msg = f"got a checkpoint with {counts!r}, expected {tables} numbers of n-grams"
        raise ValueError(msg)
    return list(counts)


def count_ngrams(
    tokenizer: WordTokenizer, texts: Sequence[Text], width: int, least: int
) -> list[Tensor]:
    """Return the frequent n-grams of 2 to `width` known words: `[M, order]` ids each."""
    rows = [encoding.input_ids for encoding in tokenizer.encode(texts)]
    tables = []
    for order in range(2, width + 1):
        counts: Counter[tuple[int, ...]] = Counter()
        for row in rows:
            # Rows shifted by 0, 1, ...: `zip` ends with the shortest, at the last full n-gram.
            counts.update(zip(*(row[at:] for at in range(order)), strict=False))
        first = len(tokenizer.specials)
        frequent = [gram for gram, n in counts.items() if n >= least and min(gram) >= first]
        # Sorted, so that tables do not depend on the order of the texts; `view` keeps two
        # dimensions of an empty one.
        tables.append(torch.tensor(sorted(frequent), dtype=torch.int64).view(-1, order))
        log.info("%d n-grams of %d words are seen %d times or more", len(frequent), order, least)
    return tables
