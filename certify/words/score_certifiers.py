"""Certifiers of classifiers that add up scores of words and n-grams."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from certify.threats import (
    Characters,
    Kind,
    ReadWords,
    Replacements,
    Substitutions,
    TextCertificate,
    Threat,
    WordEditDistance,
    WorstText,
)
from certify.threats.text_certificate import largest
from certify.ties import runners_up
from certify.words.kept_separators import EditedTexts
from certify.words.spelling import Edits, Trie
from certify.words.worst_path import WorstTexts, worst_path, worst_results
from layers.ngram_scores import LARGEST, NgramScores, ScoreSum
from text import WordTokenizer

LONGEST = 1 << 10
"""Words of a text that a net over windows reads at most: sums of its scores are exact then."""
WORDS = 1 << 18
"""Words whose worst replacements are kept."""
AT_ONCE = 1 << 18
"""Candidates of the texts of a batch for a shortest path."""


class ScoreModel(NamedTuple):
    """A classifier that adds up scores, in evaluation mode and on the CPU."""

    scores: NgramScores
    tokenizer: WordTokenizer
    network: ScoreSum = ScoreSum()

    def offsets(self, lengths: Tensor) -> Tensor:
        """Return `[B, C]` float64: the bias in units of sums, for texts of these lengths `[B]`."""
        # As in predictions: of the words that are read, at least one.
        lengths = lengths.clamp(1, self.tokenizer.max_length)
        offsets = self.network.offset(lengths)
        if offsets is None:
            return torch.zeros(*lengths.shape, self.scores.classes, dtype=torch.float64)
        return offsets

    def least_offsets(self, direction: Tensor, length: int, changes: int) -> Tensor:
        """Return `[J]` float64: least part of the bias in leads of directions `[J, C]`.

        An edit may change the length of the text by so many words.
        """
        if self.network.bias is None:
            return direction.new_zeros(len(direction))
        # Of every length: rounded to the grid, the lead by the bias is not monotone.
        most = self.tokenizer.max_length
        first, last = (min(max(n, 1), most) for n in (length - changes, length + changes))
        return (self.offsets(torch.arange(first, last + 1)) @ direction.T).amin(dim=0)

    @property
    def fixed_offset(self) -> bool:
        """True if the bias adds the same to every length."""
        return self.network.bias is None or not self.network.normalised

    def logits(self, words: Sequence[str]) -> Tensor:
        """Return `[C]` float64: the sums of the scores of a text."""
        return self.all_logits([words])[0]

    def all_logits(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """Return `[B, C]` float64, the same for some texts."""
        limit, unknown = self.tokenizer.max_length, self.tokenizer.unk_id
        ids = [self.tokenizer.ids(words)[:limit] or [unknown] for words in texts]
        length = max(map(len, ids))
        # Padding has no score.
        padded = torch.tensor([[*row, *[0] * (length - len(row))] for row in ids])
        logits: Tensor = self.scores(padded).sum(dim=1)
        return logits + self.offsets(torch.tensor([len(row) for row in ids]))


class _Certifier:
    """The base of all of them."""

    kind: Kind = "exact"

    def __init__(self, model: ScoreModel, threat: Threat) -> None:
        """Raise a ValueError for other words than the threat's, or scores of inexact sums."""
        threat.check_words(model.tokenizer.splitter.settings)
        tables = [model.scores.word_table()]
        tables += [model.scores.ngram_table(order) for order in model.scores.orders]
        largest_of = [float(table.abs().max()) for table in tables]
        if (net := model.scores.net) is not None:
            largest_of.append(net.check(model.scores.net_tables()))
            if (length := model.tokenizer.max_length) > LONGEST:
                msg = f"got max_length={length} for a net over windows, expected at most {LONGEST}"
                raise ValueError(msg)
        if not all(score <= LARGEST for score in largest_of):
            msg = f"got scores above {LARGEST:g} or not finite, expected smaller ones: train anew"
            raise ValueError(msg)
        self.model, self.threat = model, threat

    def _check_alone(self) -> None:
        """Raise a ValueError for n-grams, or a net over windows."""
        if (width := self.model.scores.width) > 1:
            msg = f"got WordScores with window={width} for {self.threat.title}, expected window=1"
            raise ValueError(msg)

    def _directions(self, predictions: Tensor) -> Tensor:
        """Return the directions `[B, C - 1, C]` of the margins over the other classes."""
        classes = self.model.scores.classes
        numbers = torch.arange(classes - 1).expand(len(predictions), -1)
        # 0 ... C - 1 without the predicted class.
        rivals = numbers + (numbers >= predictions.unsqueeze(1))
        hot = torch.nn.functional.one_hot
        direction = hot(predictions, classes).unsqueeze(1) - hot(rivals, classes)
        return direction.to(torch.float64)

    def _certificate(
        self,
        text: str,
        prediction: int,
        verdicts: Sequence[bool],
        ks: Sequence[int | None],
        *,
        witness: str | None = None,
        kind: Kind = "exact",
        worst: Sequence[WorstText] = (),
    ) -> TextCertificate:
        words = self.threat.split(text)
        return TextCertificate(
            text=text,
            prediction=prediction,
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            kind=kind,
            witness=witness,
            cut=len(words) > self.model.tokenizer.max_length,
            unknown=self.model.tokenizer.ids(words).count(self.model.tokenizer.unk_id),
            worst=tuple(worst),
        )

    def _checked(self, witness: str, prediction: int) -> tuple[str | None, Kind]:
        """Return a witness and the kind of its certificate; None where the bias keeps the class."""
        if self.model.fixed_offset:
            return witness, self.kind
        logits = self.model.logits(self.threat.split(witness))
        logits = logits - logits[prediction]
        logits[prediction] = -torch.inf
        # A tie counts as a change, as in the bound.
        changes = bool(logits.max() >= 0)
        return (witness, self.kind) if changes else (None, "lower bound")

    def _with_rivals(self, certificates: Sequence[TextCertificate]) -> list[TextCertificate]:
        """Add the predictions of the witnesses."""
        some = [c for c in certificates if c.witness is not None]
        if not some:
            return list(certificates)
        logits = self.model.all_logits([self.threat.split(c.witness or "") for c in some])
        changed = iter(runners_up(logits, torch.tensor([c.prediction for c in some])).tolist())
        return [
            c if c.witness is None else replace(c, witness_prediction=next(changed))
            for c in certificates
        ]


class SynonymCertifier(_Certifier):
    """Certifies against replaced words: exact, by a shortest path through their candidates.

    Words after the model's `max_length` are not read; replacements move no word, so they change
    nothing after it. Where one may move words across it, nothing is certified, and the certificate
    is called a lower bound. For words alone `certified` is the largest number of changes; for
    n-grams the largest in the request.
    """

    threat: Replacements

    def __init__(self, model: ScoreModel, threat: Threat) -> None:
        """Measure the model; see `_Certifier`.

        Raises:
            ValueError: n-grams or a net over windows, and a threat that moves words.
        """
        super().__init__(model, threat)
        width = model.scores.width
        Replacements.of_model(
            threat,
            model.tokenizer.splitter.settings,
            ordered=f"WordScores with window={width}" if width > 1 else None,
        )
        sets = threat.sets if isinstance(threat, Substitutions) else ()
        self.alone: list[SynonymCertifier] = []
        """Certifiers of the same model against each set of a union."""
        if len(sets) > 1:
            assert isinstance(threat, Substitutions)  # it has sets
            self.alone = [SynonymCertifier(model, replace(threat, sets=(one,))) for one in sets]
        self._read = ReadWords(self.threat, model.tokenizer)
        parts = [certifier._worst_of for certifier in self.alone]
        self._worst_of: _WorstOfWords = _WorstOfWords(model, self._read, parts)

    def __call__(
        self, texts: Sequence[str], ks: Sequence[int | None], *, worst: bool = False
    ) -> list[TextCertificate]:
        """See `TextCertifier`; `worst`: find `TextCertificate.worst`, too."""
        if self.model.scores.width == 1:
            self._worst_of.measure(word for text in texts for word in self.threat.occurrences(text))
            batches = (texts[i : i + 256] for i in range(0, len(texts), 256))
            return [found for batch in batches for found in self._alone(batch, ks, worst=worst)]
        choices = self._read(texts)
        table, sizes = choices.table(), choices.starts.diff()
        # The largest list of each text, and its length.
        lengths = (choices.rows >= 0).sum(dim=1).tolist()
        widths = [
            int(sizes[row[:n]].amax()) if n else 1
            for row, n in zip(choices.rows, lengths, strict=True)
        ]
        # A batch is as wide as its largest list: texts of similar sizes share one.
        order = sorted(range(len(texts)), key=lambda i: (widths[i], lengths[i]))
        certificates: dict[int, TextCertificate] = {}
        for some in _batches(order, widths, lengths):
            rows = choices.rows[some, : max(lengths[i] for i in some)]
            # Padding (-1) reads row 0 here; the next line puts word 0 there.
            candidates = table[rows.clamp_min(0), : max(widths[i] for i in some)]
            candidates = candidates.masked_fill((rows < 0).unsqueeze(2), 0)
            answers = self._batch([texts[i] for i in some], candidates, ks, worst=worst)
            certificates |= dict(zip(some, answers, strict=True))
        return [certificates[i] for i in range(len(texts))]

    def _alone(
        self, texts: Sequence[str], ks: Sequence[int | None], *, worst: bool
    ) -> list[TextCertificate]:
        """Certify words alone, with lists of words: a word loses the same in every text."""
        limit = self.model.tokenizer.max_length
        splits = isinstance(self.threat, Substitutions) and self.threat.splits
        words = [self.threat.split(text) for text in texts]
        keys = [self.threat.occurrences(text) for text in texts]
        read = [text[:limit] for text in keys]
        predictions, leads, order = self._leads(read, [len(text) for text in words])
        bounds = self._bounds_offsets
        least, rivals = leads.min(dim=2)
        longest = order.shape[1]
        at = [longest if k is None else min(k, longest) for k in ks]
        held, falls = (least[:, at] > 0).tolist(), (least <= 0).int()
        # The first margin of 0 or less ends the certificate; -1: none does, for any number.
        most = torch.where(falls.any(dim=1), (falls.argmax(dim=1) - 1).clamp_min(0), -1).tolist()
        certificates = []
        for row, (text, y, margins) in enumerate(
            zip(texts, predictions.tolist(), held, strict=True)
        ):
            length = len(words[row])
            # A split or a deletion moves the words after it: some might leave, or enter, what the
            # model reads.
            moved = splits or (self.threat.moves and length > limit)
            free = max(0, limit - length) if moved else length
            fits = [free >= min(length, length if k is None else k) for k in ks]
            verdicts = [margin and fit for margin, fit in zip(margins, fits, strict=True)]
            certified = None if most[row] < 0 else most[row]
            if not all(fits):
                certified = free if certified is None else min(certified, free)
            changed: dict[int, WorstText] = {}
            exact = all(fits) and not bounds
            failing = [at[verdicts.index(False)]] if exact and not all(verdicts) else []
            for k in dict.fromkeys(at if worst and exact else failing):
                rival = int(rivals[row, k])
                where = [i for i in order[row, :k, rival].tolist() if i < min(length, limit)]
                new = self._worst_of.words([keys[row][i] for i in where], y, rival)
                replaced = dict(zip(where, new, strict=True))
                changed[k] = self.threat.write(
                    text, [replaced.get(i, word) for i, word in enumerate(words[row])]
                )
            certificate = self._certificate(
                text,
                y,
                verdicts,
                ks,
                witness=changed[failing[0]].text if failing else None,
                kind=self.kind if exact else "lower bound",
                worst=[changed[k] for k in at] if worst and exact else (),
            )
            certificates.append(replace(certificate, certified=certified))
        return self._with_rivals(certificates)

    @property
    def _bounds_offsets(self) -> bool:
        """True if leads are bounds: a bias counts more in a longer text, and lengths change."""
        return self.threat.moves and not self.model.fixed_offset

    def _leads(
        self, texts: Sequence[Sequence[str]], lengths: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the least leads of texts over the other classes, by the number of changes.

        Texts are the words that the model reads; lengths count all words.

        Returns:
            `[B]` predictions; `[B, N + 1, C]` leads after 0, 1, ... changes, infinite for the
            prediction; and `[B, N, C]` the positions of the words in the order of the changes.
        """
        index, own, lost = self._worst_of(texts)
        read, rows = (index >= 0).unsqueeze(-1), index.clamp_min(0)
        # [B, N, C] scores; padding has index -1 and none.
        sizes = torch.tensor(lengths)
        logits = (own[rows] * read).sum(dim=1) + self.model.offsets(sizes)
        predictions = logits.argmax(dim=1, keepdim=True)
        # Rows of a word and a class, so that nothing of the other classes is copied.
        losses = lost.flatten(0, 1)[rows * logits.shape[1] + predictions] * read
        losses, order = losses.sort(dim=1, descending=True, stable=True)
        # Infinite for the prediction itself, so that it is not its own rival.
        lead = (logits.gather(1, predictions) - logits).scatter(1, predictions, torch.inf)
        leads = torch.cat([lead.unsqueeze(1), lead.unsqueeze(1) - losses.cumsum(dim=1)], dim=1)
        if self._bounds_offsets:
            leads = leads + self._moved_offsets(sizes, predictions, leads.shape[1])
        return predictions.squeeze(1), leads, order

    def _moved_offsets(self, lengths: Tensor, predictions: Tensor, steps: int) -> Tensor:
        """`[B, steps, C]`: most that the leads lose of the bias in 0, 1, ... changes, negative."""
        changes = torch.arange(steps)
        lengths = lengths.unsqueeze(1)
        offsets = torch.stack(
            [self.model.offsets(lengths + change) for change in (0 * changes, changes, -changes)]
        )
        index = predictions.expand(3, -1, steps).unsqueeze(-1)
        leads = offsets.gather(3, index) - offsets
        # With at most so many changes: rounded to the grid, the lead is not monotone.
        return leads.amin(dim=0).cummin(dim=1).values - leads[0]

    def _batch(
        self, texts: Sequence[str], candidates: Tensor, ks: Sequence[int | None], *, worst: bool
    ) -> list[TextCertificate]:
        """Certify texts by n-grams or windows of their candidates `[B, N, S]`."""
        model = self.model
        mask = candidates[..., 0] != 0
        logits = (model.scores(candidates[..., 0]) * mask.unsqueeze(-1)).sum(dim=1)
        offsets = model.offsets(mask.sum(dim=1))
        predictions = (logits + offsets).argmax(dim=1)
        direction = self._directions(predictions)
        count = direction.shape[1]
        # A row for each text and other class: [B (C - 1), N, S].
        rows, flat = candidates.repeat_interleave(count, dim=0), direction.flatten(0, 1)
        paths = {k: worst_path(model.scores, rows, flat, k) for k in _limits(ks)}
        # [K, B, C - 1]
        margins = torch.stack([_of(paths, k)[0] for k in ks]).view(len(ks), len(texts), count)
        # No replacement changes the length here.
        margins = margins + (direction @ offsets.unsqueeze(2)).squeeze(2)
        held, least = (margins > 0).all(dim=2).T.tolist(), margins.argmin(dim=2).T.tolist()
        certificates = []
        for row, (text, verdicts) in enumerate(zip(texts, held, strict=True)):
            changed = {}
            failing = [] if all(verdicts) else [verdicts.index(False)]
            for number in range(len(ks)) if worst else failing:
                choice = _of(paths, ks[number])[1][row * count + least[row][number]]
                ids = candidates[row].gather(1, choice.unsqueeze(1)).flatten()
                changed[number] = self._changed(text, ids.where(choice > 0, -1).tolist())
            certificates.append(
                self._certificate(
                    text,
                    int(predictions[row]),
                    verdicts,
                    ks,
                    witness=changed[failing[0]].text if failing else None,
                    worst=[changed[number] for number in range(len(ks))] if worst else (),
                )
            )
        return self._with_rivals(certificates)

    def _changed(self, text: str, ids: Sequence[int]) -> WorstText:
        """Return the text with the words of ids; -1: the word itself."""
        words = list(self.threat.split(text))
        keys = self.threat.occurrences(text)
        for at, (word, index) in enumerate(zip(keys, ids, strict=False)):
            if index >= 0:
                words[at] = self._read.witness(word, (index,))
        return self.threat.write(text, words)


class _WorstOfWords:
    """Scores of the words so far, and the largest losses by a replacement of each."""

    def __init__(
        self, model: ScoreModel, read: ReadWords, parts: Sequence["_WorstOfWords"] = ()
    ) -> None:
        """Parts: the same for each set of a union."""
        self._model, self._read, self._parts = model, read, parts
        self._forget()

    def _forget(self) -> None:
        self._read.forget()
        self._rows: dict[str, int] = {}
        classes = self._model.scores.classes
        self._own = torch.zeros(0, classes, dtype=torch.float64)
        self._lost = self._own.new_zeros(0, classes, classes)
        self._worst = torch.zeros(0, classes, classes, 2, dtype=torch.int64)

    def __call__(self, texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor]:
        """Return `[B, N]` rows of the words of texts, -1 after a text, and figures of rows.

        These are `[M, C]` scores of the words, and `[M, C, C]`, for the classes y and j the largest
        loss of y's lead over j.
        """
        self.measure(word for words in texts for word in words)
        length = max(map(len, texts), default=0)
        rows = [[self._rows[w] for w in words] + [-1] * (length - len(words)) for words in texts]
        return torch.tensor(rows, dtype=torch.int64).view(len(texts), length), self._own, self._lost

    def words(self, words: Sequence[str], y: int, rival: int) -> list[str]:
        """Return the replacements of words that take most from y's lead over a rival."""
        results = (self._worst[self._rows[word], y, rival].tolist() for word in words)
        return [
            self._read.witness(word, tuple(i for i in ids if i >= 0))
            for word, ids in zip(words, results, strict=True)
        ]

    def measure(self, words_of_texts: Iterable[str]) -> None:
        """Measure the words that are new: many at once cost least."""
        asked = dict.fromkeys(words_of_texts)
        words = [word for word in asked if word not in self._rows]
        if not words:
            return
        if self._rows and len(self._rows) + len(words) > WORDS:
            # A long-running service must not collect the words of users for ever.
            self._forget()
            words = list(asked)
        self._rows |= {word: len(self._rows) + i for i, word in enumerate(words)}
        own, lost, worst = self._join(words) if self._parts else self._look_up(words)
        self._own = torch.cat([self._own, own])
        self._lost = torch.cat([self._lost, lost])
        self._worst = torch.cat([self._worst, worst])

    def _join(self, words: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return figures of words: of each loss the largest of all sets."""
        for part in self._parts:
            part.measure(words)
        rows = [[part._rows[word] for word in words] for part in self._parts]
        pairs = list(zip(self._parts, rows, strict=True))
        lost, which = torch.stack([part._lost[row] for part, row in pairs]).max(dim=0)
        worst = torch.stack([part._worst[row] for part, row in pairs])  # [S, W, C, C, 2]
        index = which[None, ..., None].expand(1, *worst.shape[1:])
        return pairs[0][0]._own[rows[0]], lost, worst.gather(0, index)[0]

    def _look_up(self, words: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return figures of words: scores, losses and the ids of the worst replacements."""
        ids, starts = self._read.threat.reach(words, self._model.tokenizer)
        # Padding has score 0: a missing second word adds nothing.
        scores = self._model.scores.word_table()[ids.clamp_min(0)].sum(dim=1)
        lost, first = worst_results(scores, starts)
        return scores[starts[:-1]], lost, ids[first]


class CharacterCertifier(_Certifier):
    """Certifies against edits of characters: exact, see `certify.words.kept_separators`.

    Where an edit may move a word across the model's `max_length`, nothing is certified, and the
    certificate is called a lower bound.
    """

    threat: Characters

    def __init__(self, model: ScoreModel, threat: Threat) -> None:
        """Raise a ValueError for n-grams, or words that a character may change from afar."""
        super().__init__(model, threat)
        self._check_alone()
        if (own := threat.words).split != "ascii" or own.front_end != "none":
            msg = (
                f"got words.split={own.split} and words.front_end={own.front_end} for "
                "characters, expected ascii and none: else a character may change words from afar"
            )
            raise ValueError(msg)
        tokens = model.tokenizer.vocabulary.get_itos()
        words = [
            (word, index) for index, word in enumerate(tokens) if index >= model.scores.specials
        ]
        self.edits = EditedTexts(Edits(Trie.of(words), model.scores.word_table()))

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`; a k of None is refused with a ValueError."""
        limits = [self.threat.at(k).k or 0 for k in ks]
        certificates: dict[int, TextCertificate] = {}
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), 64):
            some = order[start : start + 64]
            answers = self._batch([texts[i] for i in some], limits)
            certificates |= dict(zip(some, answers, strict=True))
        return [certificates[i] for i in range(len(texts))]

    def _batch(self, texts: Sequence[str], ks: Sequence[int]) -> list[TextCertificate]:
        logits = torch.stack([self.model.logits(self.threat.split(text)) for text in texts])
        predictions = logits.argmax(dim=1)
        direction = self._directions(predictions)
        least = self.edits.least(texts, direction, max(ks))
        certificates = []
        for row, text in enumerate(texts):
            length = len(self.threat.split(text))
            fits = [length + k <= self.model.tokenizer.max_length for k in ks]
            values = [
                least[row, :, k] + self.model.least_offsets(direction[row], length, k) for k in ks
            ]
            verdicts = [
                fit and bool((value > 0).all()) for fit, value in zip(fits, values, strict=True)
            ]
            witness, kind = None, self.kind
            if not all(verdicts):
                first = verdicts.index(False)
                if fits[first]:
                    way = direction[row, int(values[first].argmin())]
                    witness = self.edits.witness(text, way, ks[first])
                    witness, kind = self._checked(witness, int(predictions[row]))
                else:
                    kind = "lower bound"
            certificates.append(
                self._certificate(
                    text, int(predictions[row]), verdicts, ks, witness=witness, kind=kind
                )
            )
        return self._with_rivals(certificates)


class WordCertifier(_Certifier):
    """Certifies against edits of words, for words alone: exact in closed form.

    With m the least score of a word, or 0 (an unknown one), a replacement of word i loses d_i - m
    at most, an insertion -m, and a deletion d_i, which is never more. So k edits lose at most
    -k m and the k largest positive d_i.
    """

    threat: WordEditDistance

    def __init__(self, model: ScoreModel, threat: Threat) -> None:
        """Raise a ValueError for n-grams or a net over windows; see `_Certifier`."""
        super().__init__(model, threat)
        self._check_alone()

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`; a k of None is refused with a ValueError."""
        limits = [self.threat.at(k).k or 0 for k in ks]
        return self._with_rivals([self._one(text, limits) for text in texts])

    def _one(self, text: str, ks: Sequence[int]) -> TextCertificate:
        model, words = self.model, self.threat.split(text)
        prediction = model.logits(words).argmax().view(1)
        (directions,) = self._directions(prediction)
        table = model.scores.word_table()
        ids = torch.tensor(model.tokenizer.ids(words), dtype=torch.int64)
        fits = [len(words) + k <= model.tokenizer.max_length for k in ks]
        verdicts, witness, kind = [], None, self.kind
        for k, fit in zip(ks, fits, strict=True):
            worst = [self._worst(table @ way, ids, k) for way in directions]
            offsets = model.least_offsets(directions, len(words), k).tolist()
            worst = [(value + more, at) for (value, at), more in zip(worst, offsets, strict=True)]
            least, at = min((value, at) for at, (value, _) in enumerate(worst))
            verdicts.append(fit and least > 0)
            if not verdicts[-1] and witness is None and kind == "exact":
                kind = "exact" if fit else "lower bound"
                if fit:
                    changed = self._witness(text, words, worst[at][1], table @ directions[at])
                    witness, kind = self._checked(changed, int(prediction))
        return self._certificate(text, int(prediction), verdicts, ks, witness=witness, kind=kind)

    def _worst(self, differences: Tensor, ids: Tensor, k: int) -> tuple[float, list[int | None]]:
        """Return the least score, and the replaced positions; None for an insertion."""
        own = differences[ids]
        lost = own.clamp_min(0.0).sort(descending=True, stable=True)
        # An unknown word scores 0, so the least score of a word is at most 0.
        gained, least = lost.values[:k], float(differences.min().clamp_max(0.0))
        positions: list[int | None] = [
            int(position)
            for position, value in zip(lost.indices, gained, strict=False)
            if value > 0
        ]
        value = float(own.sum()) - float(gained.sum()) + k * least
        return value, [*positions, *[None] * (k - len(positions))]

    def _witness(
        self, text: str, words: Sequence[str], positions: Sequence[int | None], differences: Tensor
    ) -> str:
        at = int(differences.argmin())
        is_word = float(differences[at]) < 0
        worst = self.model.tokenizer.vocabulary.lookup_token(at) if is_word else None
        changed: list[str | None] = list(words)
        for position in positions:
            if position is None:
                changed += [worst]
            else:
                changed[position] = worst
        return " ".join(word for word in changed if word is not None)


def _of(worst: dict[int | None, WorstTexts], k: int | None) -> tuple[Tensor, Tensor]:
    """Return least scores `[R]` with at most k changes, and their choices `[R, N]`."""
    limit = max((most for most in worst if most is not None), default=None)
    texts = worst[limit] if k is not None or None not in worst else worst[None]
    at = -1 if k is None else min(k, texts.value.shape[1] - 1)
    return texts.value[:, at], texts.path[:, at]


def _limits(ks: Sequence[int | None]) -> list[int | None]:
    """Return the numbers of changes to solve for; the largest answers for those below it."""
    limits = [k for k in ks if k is not None]
    numbers: list[int | None] = [max(limits)] if limits else []
    return [*numbers, None] if None in ks else numbers


def _batches(
    order: Sequence[int], widths: Sequence[int], lengths: Sequence[int]
) -> Iterator[list[int]]:
    """Yield texts of like size, in this order."""
    batch: list[int] = []
    longest = 1
    for text in order:
        longest = max(longest, lengths[text])
        if batch and (len(batch) + 1) * widths[text] * longest > AT_ONCE:
            yield batch
            batch, longest = [], max(1, lengths[text])
        batch.append(text)
    if batch:
        yield batch
