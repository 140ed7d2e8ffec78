"""An encoder behind an encoding of words, and scores of the words: exact certificates by lists.

The encoding is that of Jones, Jia, Raghunathan and Liang, "Robust Encodings", 2020: clusters of
words that trade fidelity for stability. docs/methods/encoded_scores.md has the theorem.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from certify.encoding import ListedCertifier, ListedModel, cluster_words
from certify.encoding.word_clusters import stability
from certify.threats import Synonyms, TextCertifier, Threat, ThreatName
from certify.words.worst_path import first_least
from layers.backbones import POOLINGS, Backbone, BackboneClassifier, Pooling
from layers.ngram_scores import NgramScores
from layers.noise import sample_seeds, uniform
from layers.scored_encoder import ScoredEncoder
from lit_modules.checkpoints.reading import CheckpointError, load
from lit_modules.shared.encoder_source import EncoderSettings, EncoderSource
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.robust_words import RobustWords
from lit_modules.shared.task_module import labels_of, require_layers
from lit_modules.shared.word_robustness import WordOptions, WordRobustness, rival_leads
from lit_modules.word_scores import WordScores
from text import Batch, Encoding, Text, Tokenizer, WordTokenizer, check_choice, check_range
from text.run_seed import run_seed
from text.torch_archive import CHECKPOINT_KEY

log = logging.getLogger(__name__)

ReplacementRule = Literal["random", "gradient"]
"""Choice of the word that replaces another one in training."""
LISTED = 4096
"""Inputs of a text that are listed for its certificate, unless `certify --list` has a number."""


class PieceIds(NamedTuple):
    """The ids that the encoder reads.

    Attributes:
        width: most ids of a word.
        vocab_size: ids are below it.
        pad_id: id of the padding.
        max_length: vectors of the longest text.
    """

    width: int
    vocab_size: int
    pad_id: int
    max_length: int


class InitialScores(NamedTuple):
    """The scores of a `WordScores`: the names of C classes, and `[V, C]`, those of each word."""

    class_names: Sequence[str]
    table: Tensor

    @torch.no_grad()
    def copy_to(self, scores: NgramScores, class_names: Sequence[str]) -> None:
        """Copy them to the first V of at least as many words.

        Raises:
            CheckpointError: other classes.
        """
        if list(class_names) != list(self.class_names):
            msg = (
                f"got init_from with the classes {', '.join(self.class_names)}, expected those of "
                f"the corpus: {', '.join(class_names)}"
            )
            raise CheckpointError(msg)
        # Words that only the sets of this training have come last.
        scores.words[: len(self.table)] = self.table.to(scores.words.dtype)


class TrainingSum(NamedTuple):
    """The sum of encoder and scores for the texts of a step.

    Attributes:
        x: `[B, N, C + e]`, see `EncodedScores.embed`.
        encoded: `[B, C]` the logits of the encoder.
        logits: `[B, C]` those of the sum.
    """

    x: Tensor
    encoded: Tensor
    logits: Tensor


class EncodedScores(RobustWords, method=True):
    """An encoder that reads the representatives of words, plus a score of each word."""

    network: ScoredEncoder
    threats: Sequence[ThreatName] = ("synonyms", "substitutions")
    options: WordOptions | None = None
    scored: WordOptions | None = None
    """The replacements over which the scores have their worst case in training."""

    def __init__(
        self,
        *,
        backbone: EncoderSettings = EncoderSettings(),
        pooling: Pooling = "mean",
        dropout: float = 0.1,
        normalised: bool = True,
        score_rate: float = 500.0,
        score_dropout: float = 0.0,
        bound: float | None = None,
        init_from: str | None = None,
        fidelity: float = 1.0,
        draws: int = 1,
        swaps: float = 0.1,
        replacement: ReplacementRule = "random",
        robustness: WordRobustness = WordRobustness(),
        optimisation: Optimisation = Optimisation(warmup=0.06, decay="linear"),
        **base: Any,
    ) -> None:
        """Keep the settings; layers are built once the vocabulary is known.

        Args:
            backbone: the encoder.
            pooling: input of the head: the first token of the last layer, the mean, or that of
                the architecture.
            dropout: dropout in the head, while training.
            normalised: divide the sum of the scores by the square root of the number of words.
            score_rate: learning rate of the scores, in units of the encoder's; 0 keeps them.
            score_dropout: share of the training texts whose loss leaves out the scores, and the
                bound with them. Scores that know the training texts would leave the encoder
                nothing to learn.
            bound: largest difference that the encoder makes between the logits of two classes.
                With it, scores that lead by more are certified without a list, and are trained on
                their worst case over the whole sets. null: any difference.
            init_from: checkpoint of a `WordScores` with window 1 to begin with: its vocabulary and
                the scores of its words.
            fidelity: the clusters trade stability for fidelity: 1 has none, each word represents
                itself; 0 joins all words that the sets connect. They need sets or lists.
            draws: random texts of the sets, on the worst of which the encoder is trained; 0 for
                the clean text alone.
            swaps: share of the words that are replaced in such a text.
            replacement: the word in the place of another one: any of the sets, or that with which
                the loss grows most by its gradient (HotFlip; a third of a pass more).
            robustness: the sets against which it is trained.
            optimisation: optimiser and learning rate.
            base: settings of `RobustWords`.
        """
        super().__init__(robustness=robustness, optimisation=optimisation, **base)
        self.source = EncoderSource(backbone)
        check_choice("pooling", pooling, POOLINGS)
        check_range({"dropout": dropout}, least=0, below=1)
        check_range({"score_rate": score_rate}, least=0)
        check_range({"bound": bound}, above=0)
        shares = {"fidelity": fidelity, "swaps": swaps, "score_dropout": score_dropout}
        check_range(shares, least=0, most=1)
        check_range({"draws": draws}, least=0)
        check_choice("replacement", replacement, get_args(ReplacementRule))
        if robustness.against == "characters" or robustness.search == "intervals":
            msg = (
                f"got robustness.against={robustness.against} and search={robustness.search} for "
                "EncodedScores, expected perturbation sets or synonyms, and search=paths"
            )
            raise ValueError(msg)
        self.pooling: Pooling = pooling
        self.dropout, self.normalised, self.score_rate = dropout, normalised, score_rate
        self.fidelity, self.draws, self.swaps = fidelity, draws, swaps
        self.replacement: ReplacementRule = replacement
        self.score_dropout, self.bound, self.init_from = score_dropout, bound, init_from
        self.initial: InitialScores | None = None
        """The scores of `init_from`, until the layers are built."""
        self.pieces: tuple[Tensor, Tensor, int] | None = None
        """Return the words of the encoder, see `ScoredEncoder.set_words`, before its layers."""
        self.piece_ids = PieceIds(1, 1, 0, 1)

    def unused(self) -> dict[str, str]:
        reasons = super().unused() | self.source.unused
        if self.robustness.against == "none":
            names = ("fidelity", "draws", "swaps", "replacement")
            reasons |= dict.fromkeys(names, "robustness.against=none")
        else:
            reasons |= dict.fromkeys(("robustness.search", "robustness.together"), self.method)
        if self.init_from is not None:
            reasons |= dict.fromkeys(("min_count", "max_vocab_size"), "init_from")
        return reasons

    @property
    def no_certificate(self) -> str | None:
        return "its certificates are about replaced words: `certify --threat`"

    # Text

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        corpus = list(texts)
        tokenizer = self._initial_tokenizer() if self.init_from else self.robust_tokenizer(corpus)
        # One vector for each word, and one in front.
        inner = self.source.build_tokenizer(corpus, max_length=self.max_length + 1)
        self.pieces = self._find_pieces(tokenizer, inner)
        width = self.pieces[0].shape[1]
        self.piece_ids = PieceIds(width, inner.vocab_size, inner.pad_id, inner.max_length)
        return tokenizer

    def _initial_tokenizer(self) -> WordTokenizer:
        """Read the checkpoint `init_from`, and return its tokenizer, with the words of the sets.

        Raises:
            CheckpointError: it cannot be read, or is of another method or other settings.
            ValueError: see `WordRobustness.replacements`.
            OSError: a resource is missing.
        """
        assert self.init_from is not None  # callers ask
        origin = load(self.init_from).plain
        if not isinstance(origin, WordScores) or origin.window > 1 or origin.bias:
            msg = (
                f"got init_from {self.init_from} of {origin.method}, expected WordScores with "
                "window=1 and bias=false"
            )
            raise CheckpointError(msg)
        for name in ("max_length", "normalised", "words"):
            stored, own = getattr(origin, name), getattr(self, name)
            if stored != own:
                msg = (
                    f"got {name}={own} with init_from {self.init_from} of {name}={stored}, "
                    "expected the same: a score is that of a word in a text"
                )
                raise CheckpointError(msg)
        tokenizer, names = origin.require_text()
        assert isinstance(tokenizer, WordTokenizer)  # every WordScores has one
        self.initial = InitialScores(names, require_layers(origin.scores).word_table().detach())
        return self.robustness.add_words(tokenizer, ordered=self.ordered)

    def _find_pieces(
        self, tokenizer: WordTokenizer, inner: Tokenizer
    ) -> tuple[Tensor, Tensor, int]:
        """Return pieces and representatives of all words, and the piece before a text."""
        words = tokenizer.vocabulary.words()
        encoded = [encoding.input_ids for encoding in inner.encode(words)]
        start = encoded[0][0]
        if any(ids[0] != start or ids[-1] != encoded[0][-1] for ids in encoded):
            msg = (
                f"got the tokenizer of {self.source.backbone}, expected one that puts a token "
                "before a text and one after it, as BERT's does"
            )
            raise ValueError(msg)
        # A piece of its own for padding and unknown words; `<sep>` is in no single text.
        rows = [[inner.pad_id], [inner.unk_id], [inner.unk_id]]
        rows += [ids[1:-1] or [inner.unk_id] for ids in encoded]
        width = max(map(len, rows))
        pieces = torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])
        return pieces, self._find_forms(tokenizer), start

    def _find_forms(self, tokenizer: WordTokenizer) -> Tensor:
        """Return `[V]` the representative of each word."""
        forms = torch.arange(tokenizer.vocab_size)
        if self.robustness.against == "none" or self.fidelity == 1:
            return forms
        tokens, first = tokenizer.vocabulary.get_itos(), len(tokenizer.specials)
        options = WordOptions.of(
            self.robustness.replacements(tokenizer, ordered=self.method), tokenizer
        )
        starts = options.starts.tolist()
        # Unknown words are no word of a cluster: most typos lead there.
        rows = [options.ids[a:b, 0].tolist() for a, b in pairwise(starts)]
        lists = {
            tokens[word]: [tokens[other] for other in rows[word] if other >= first]
            for word in range(first, len(tokens))
        }
        counts = {token: tokenizer.vocabulary.count(token) for token in tokens[first:]}
        threat = Synonyms(lists=lists, texts={}, words=tokenizer.splitter.settings)
        encoding = cluster_words(threat, counts, self.fidelity)
        ids = {token: index for index, token in enumerate(tokens)}
        for word, representative in encoding.representatives.items():
            forms[ids[word]] = ids[representative]
        moved = sum(counts[word] for word in encoding.representatives)
        log.info(
            "%d words, %.1f %% of the text, have another representative; a word and its "
            "substitutes have %.1f encodings on average",
            len(encoding.representatives),
            100 * moved / max(1, sum(counts.values())),
            stability(encoding, threat, counts),
        )
        return forms

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        self.source.save(checkpoint, self.network.encoder.backbone.architecture)
        checkpoint[CHECKPOINT_KEY]["pieces"] = list(self.piece_ids)

    def restore_text(self, checkpoint: dict[str, Any]) -> None:
        super().restore_text(checkpoint)
        self.source.restore(checkpoint)
        ids = checkpoint[CHECKPOINT_KEY].get("pieces")
        fits = isinstance(ids, list) and len(ids) == len(PieceIds._fields)
        if not fits or any(type(n) is not int or not 0 <= n < 2**31 for n in ids):
            msg = f"got a checkpoint with pieces={ids!r}, expected four numbers"
            raise ValueError(msg)
        self.piece_ids, self.pieces = PieceIds(*ids), None

    def configure_model(self) -> None:
        if hasattr(self, "network"):
            return
        tokenizer, names = self.require_single_texts()
        encoder = self.source.encoder(self.piece_ids)
        self.network = ScoredEncoder(
            BackboneClassifier(
                Backbone(encoder), len(names), pooling=self.pooling, dropout=self.dropout
            ),
            NgramScores(tokenizer.vocab_size, len(names), specials=len(WordTokenizer.specials)),
            pieces=self.piece_ids.width,
            normalised=self.normalised,
            bound=self.bound,
        )
        if self.pieces is not None:
            self.network.set_words(*self.pieces)
        if self.initial is not None:
            self.initial.copy_to(self.network.scores, names)
        self.pieces = self.initial = None

    @property
    def output_layer(self) -> nn.Module | None:
        # The bound limits the encoder's bias, too: what is added to it is not added to the logits.
        unlimited = hasattr(self, "network") and self.bound is None
        return self.network.encoder.projection if unlimited else None

    def output_bias(self) -> nn.Parameter:
        if self.bound is not None:
            msg = (
                f"got bound={self.bound} for a detector with EncodedScores, expected "
                "--model.bound null: the bound would limit the threshold as well"
            )
            raise ValueError(msg)
        return super().output_bias()

    # Training

    def parameter_groups(self) -> list[dict[str, Any]]:
        own = set(self.network.scores.parameters())
        rest = [p for p in self.parameters() if p.requires_grad and p not in own]
        return [{"params": rest}, {"params": [*own], "lr_factor": self.score_rate}]

    def on_fit_start(self) -> None:
        """Read the sets, which only training needs."""
        super().on_fit_start()
        if self.robustness.against != "none":
            self.options = self.word_options()
            bounded = self.bound is not None
            self.scored = self.options if bounded else self.options.within(self.network.forms)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        batch = self.trained_on(batch)
        labels = labels_of(batch)
        kept = self._kept_scores(batch)
        clean = self._training_sum(batch, kept)
        encoded, logits = clean.encoded, clean.logits
        losses = functional.cross_entropy(logits, labels, reduction="none")
        kappa = self.robustness.weight(self.progress())
        if kappa > 0 and self.options is not None:
            drawn, encoded = self._draw(batch, clean, kept)
            # The certificate of a bound is about all words of the sets, of the text as it is.
            changed = drawn if self.bound is None else batch
            leads = self._worst_leads(changed, encoded, labels, kept)
            losses = (1 - kappa) * losses + kappa * self.robustness.loss(leads, labels)
        loss = losses.mean()
        return self.log_loss_of(loss, logits, batch, batch_idx)

    def _kept_scores(self, batch: Batch) -> Tensor:
        """`[B, 1]`: 0 for texts whose scores are left out of the loss, else 1."""
        # As with random texts, neither the batch nor the number of processes changes the choice.
        seeds = sample_seeds(batch.sample_ids, seed=run_seed(), epoch=self.current_epoch)
        numbers = torch.empty((len(seeds), 1, 1), dtype=torch.float32, device=seeds.device)
        # From (-1, 1) to (0, 1); the draws before this one are those of random texts.
        number = (uniform(seeds, numbers, draw=self.draws).squeeze(2) + 1) / 2
        return (number >= self.score_dropout).float()

    def _training_sum(self, batch: Batch, kept: Tensor) -> TrainingSum:
        """Return the logits of texts; without the bound where there are no scores to overrule."""
        x = self.embed(batch)
        free = self.network.encode_freely(x, batch.mask)
        encoded = torch.where(kept > 0, self.network.limit(free), free)
        # The first C of the embedded numbers are the scores of a word, see `embed`.
        scores = self.network.sum(x[..., : encoded.shape[1]], batch.mask)
        return TrainingSum(x, encoded, encoded + kept * scores)

    def _draw(self, batch: Batch, clean: TrainingSum, kept: Tensor) -> tuple[Batch, Tensor]:
        """Return the worst of some random texts of the sets, and the encoder's logits of it.

        `clean` is of the batch of clean texts; `kept` `[B, 1]` is that of `_kept_scores`.
        """
        if self.draws == 0:
            return batch, clean.encoded
        labels = labels_of(batch)
        words = self._steepest(batch, clean) if self.replacement == "gradient" else None
        drawn = [self._random_text(batch, draw, words) for draw in range(self.draws)]
        best = drawn[0]
        if self.draws > 1:
            with torch.no_grad():
                sums = [self._training_sum(text, kept).logits for text in drawn]
                losses = [self.losses(logits, labels) for logits in sums]
            rows = torch.stack(losses).argmax(dim=0)
            ids = torch.stack([text.input_ids for text in drawn])
            best = replace(batch, input_ids=ids[rows, torch.arange(len(rows), device=rows.device)])
        return best, self._training_sum(best, kept).encoded

    def _random_text(self, batch: Batch, draw: int, words: Tensor | None = None) -> Batch:
        """Replace a random share of the words: by `words` `[B, N]`, or at random."""
        options = self.options
        assert options is not None  # the caller has checked
        ids = batch.input_ids
        # Seeds of samples: several processes draw the texts of one, whatever the batch.
        seeds = sample_seeds(batch.sample_ids, seed=run_seed(), epoch=self.current_epoch)
        numbers = torch.empty((*ids.shape, 2), dtype=torch.float32, device=ids.device)
        # From (-1, 1) to (0, 1): which result replaces a word, and whether one does.
        word, swap = ((uniform(seeds, numbers, draw=draw) + 1) / 2).unbind(dim=2)
        if words is None:
            sizes = options.starts.diff()[ids]
            words = options.ids[options.starts[ids] + (word * sizes).long(), 0]
        swapped = (swap < self.swaps) & batch.mask
        return replace(batch, input_ids=torch.where(swapped, words, ids))

    def _steepest(self, batch: Batch, clean: TrainingSum) -> Tensor:
        """`[B, N]` ids: for each word the result with which the encoder's loss grows most.

        To first order, each word on its own: Ebrahimi et al., "HotFlip", 2018, equation 5.
        """
        options = self.options
        assert options is not None  # the caller has checked
        loss = self.losses(clean.logits, labels_of(batch)).sum()
        (gradient,) = torch.autograd.grad(self.loss_scale * loss, clean.x, retain_graph=True)
        classes = clean.encoded.shape[1]
        with torch.no_grad():
            words, inverse = torch.unique(batch.input_ids, return_inverse=True)
            results, starts = options.of_words(words)
            vectors = self.network.embed(results[:, :1])[:, 0, classes:]
            slopes = gradient[..., classes:].flatten(0, 1).to(vectors.dtype)
            # All results of all positions in one row, position by position.
            position = inverse.flatten()
            sizes = starts.diff()[position]
            begin = sizes.cumsum(0) - sizes
            result = torch.arange(int(sizes.sum()), device=sizes.device)
            result += (starts[position] - begin).repeat_interleave(sizes)
            lost = -(vectors[result] * slopes.repeat_interleave(sizes, dim=0)).sum(dim=1)
            # The first of equal ones: the word itself where nothing is gained.
            chosen = result[first_least(lost, sizes)[1]]
            return results[chosen, 0].view_as(batch.input_ids)

    def _worst_leads(self, batch: Batch, encoded: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
        """`[B, C]` minus the least margins of the labels, for fixed logits of the encoder."""
        scored = self.scored
        assert scored is not None  # set with `options`
        scores = self.network.scores
        texts = scored.worst(scores, batch.input_ids * batch.mask, labels, self.robustness.k)
        rows, count, length = texts.shape
        flat = texts.view(-1, length)
        sums = self.network.sum(scores(flat), flat > 0).view(rows, count, -1)
        logits = encoded.unsqueeze(1) + kept.unsqueeze(1) * sums
        return rival_leads(logits, labels)

    # The classifier contract

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, C + e]`: the scores of each word, and the vector that the encoder reads."""
        network: ScoredEncoder = require_layers(getattr(self, "network", None))
        return network.embed(batch.input_ids)

    def listed_model(self) -> ListedModel:
        network = self.network

        def answer(encodings: list[Encoding]) -> Tensor:
            return self.predict_encodings(encodings, predict=self._encoder_logits)

        model = ListedModel.of(self.require_tokenizer(), answer)
        forms = network.forms.tolist()
        scores = network.scores.word_table().double().cpu()
        return model._replace(
            form=lambda ids: tuple(forms[index] for index in ids),
            scores=scores,
            normalised=self.normalised,
            bound=self.bound,
        )

    def _encoder_logits(self, batch: Batch) -> Tensor:
        return self.network.encode(self.embed(batch), batch.mask)

    def own_certifier(self, threat: Threat) -> TextCertifier:
        exact: EncodedScores = self.to(torch.float64)
        return ListedCertifier(exact.listed_model(), threat, limit=LISTED)
