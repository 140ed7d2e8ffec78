"""Certifiers of classifiers that add up scores of words and n-grams."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from certify.threats import Characters, Kind, Synonyms, TextCertificate, Threat, Words
from certify.threats.text_certificate import largest
from certify.words.kept_separators import EditedTexts
from certify.words.spelling import Edits, Trie
from certify.words.worst_path import Worst, worst_path, worst_words
from layers.ngram_scores import LARGEST, NgramScores
from text import WordTokenizer

LONGEST = 1 << 10
"""Words of a text that a net over windows reads at most: sums of its scores are exact then."""
AT_ONCE = 1 << 20
"""Scores that a shortest path may look up for one position of all texts of a batch."""


class ScoreModel(NamedTuple):
    """A classifier that adds up scores.

    Attributes:
        scores: in evaluation mode, on the CPU.
        tokenizer: of its words.
    """

    scores: NgramScores
    tokenizer: WordTokenizer

    def ids(self, words: Sequence[str]) -> list[int]:
        """Returns the ids of words; a text without words is one unknown word."""
        return self.tokenizer.vocabulary(words)

    def logits(self, words: Sequence[str]) -> Tensor:
        """`[C]` float64: the sums of the scores of a text."""
        ids = self.ids(words)[: self.tokenizer.max_length] or [self.tokenizer.unk_id]
        found: Tensor = self.scores(torch.tensor([ids]))[0].sum(dim=0)
        return found


class _Certifier:
    """The base of all of them."""

    kind: Kind = "exact"

    def __init__(self, model: ScoreModel, threat: Threat) -> None:
        """Measures the model.

        Args:
            model: the classifier.
            threat: the sets of texts.

        Raises:
            ValueError: other words than those of the threat, or scores too large to be added
                exactly.
        """
        settings = model.tokenizer.splitter.settings
        if threat.words != settings:
            msg = (
                f"got a threat about {threat.words} for a model of {settings}, expected the words "
                "of the model"
            )
            raise ValueError(msg)
        tables = [model.scores.word_table()]
        tables += [model.scores.ngram_table(order) for order in model.scores.orders]
        largest_of = [float(table.abs().max()) for table in tables]
        if (net := model.scores.net) is not None:
            largest_of.append(net.check(model.scores.net_tables()))
            if (length := model.tokenizer.max_length) > LONGEST:
                msg = f"got max_length={length} for a net over windows, expected at most {LONGEST}"
                raise ValueError(msg)
        if not all(one <= LARGEST for one in largest_of):
            msg = f"got scores above {LARGEST:g} or not finite, expected smaller ones: train anew"
            raise ValueError(msg)
        self.model, self.threat = model, threat

    def _rivals(self, predictions: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, C - 1]` classes other than the predicted ones, and `[B, C - 1, C]` directions."""
        classes = self.model.scores.classes
        others = torch.arange(classes - 1).expand(len(predictions), -1)
        rivals = others + (others >= predictions.unsqueeze(1))
        hot = torch.nn.functional.one_hot
        direction = hot(predictions, classes).unsqueeze(1) - hot(rivals, classes)
        return rivals, direction.to(torch.float64)

    def _told(
        self,
        text: str,
        prediction: int,
        holds: Sequence[bool],
        ks: Sequence[int | None],
        *,
        certified: int | None = None,
        endless: bool = False,
        witness: str | None = None,
        kind: Kind = "exact",
    ) -> TextCertificate:
        words = self.threat.split(text)
        found = None if witness is None else self.model.logits(self.threat.split(witness))
        known = certified is not None or endless
        return TextCertificate(
            text=text,
            prediction=prediction,
            holds=tuple(holds),
            certified=certified if known else largest(holds, ks),
            kind=kind,
            witness=witness,
            witness_prediction=None if found is None else _other(found, prediction),
            cut=len(words) > self.model.tokenizer.max_length,
            unknown=sum(index == self.model.tokenizer.unk_id for index in self.model.ids(words)),
        )


def _other(logits: Tensor, prediction: int) -> int:
    """The largest class but the predicted one: the first of equal ones counts as another."""
    lowered = logits.clone()
    lowered[prediction] = -torch.inf
    return int(lowered.argmax())


class SynonymCertifier(_Certifier):
    """Certifies against replaced words: exact, by a shortest path through their candidates.

    Words behind the model's `max_length` are not read; replacements move no word, so they change
    nothing there. For words alone `certified` is the largest number of changes; for n-grams the
    largest of those asked.
    """

    threat: Synonyms

    def __init__(self, model: ScoreModel, threat: Synonyms) -> None:
        """Measures the model; see `_Certifier`."""
        super().__init__(model, threat)
        self._worst_of = _WorstOfWords(model, threat)

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        if self.model.scores.width == 1 and not self.threat.texts:
            batches = (texts[i : i + 256] for i in range(0, len(texts), 256))
            return [one for batch in batches for one in self._alone(batch, ks)]
        places = [self.threat.candidates(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda i: _size(places[i]))
        found: dict[int, TextCertificate] = {}
        for rows in _batches([places[i] for i in order], self.model.scores.width):
            some = [order[row] for row in rows]
            answers = self._batch([texts[i] for i in some], [places[i] for i in some], ks)
            found |= dict(zip(some, answers, strict=True))
        return [found[i] for i in range(len(texts))]

    def _alone(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """Words alone, with lists of words: what a word can lose is the same in every text."""
        limit = self.model.tokenizer.max_length
        words = [self.threat.split(text) for text in texts]
        index, own, lost = self._worst_of([text[:limit] for text in words])
        read, place = (index >= 0).unsqueeze(-1), index.clamp_min(0)
        logits = (own[place] * read).sum(dim=1)
        predictions = logits.argmax(dim=1, keepdim=True)
        # Rows of a word and a class, so that nothing of the other classes is copied.
        losses = lost.flatten(0, 1)[place * logits.shape[1] + predictions] * read
        losses, order = losses.sort(dim=1, descending=True, stable=True)
        lead = (logits.gather(1, predictions) - logits).scatter(1, predictions, torch.inf)
        # `[B, N + 1, C]`: the leads after 0, 1, ... changes.
        leads = torch.cat([lead.unsqueeze(1), lead.unsqueeze(1) - losses.cumsum(dim=1)], dim=1)
        least, rivals = leads.min(dim=2)
        at = [index.shape[1] if k is None else min(k, index.shape[1]) for k in ks]
        held, falls = (least[:, at] > 0).tolist(), (least <= 0).int()
        most = torch.where(falls.any(dim=1), (falls.argmax(dim=1) - 1).clamp_min(0), -1).tolist()
        told = []
        for row, (text, y, holds) in enumerate(
            zip(texts, predictions[:, 0].tolist(), held, strict=True)
        ):
            witness = None
            if not all(holds):
                k = at[holds.index(False)]
                rival = int(rivals[row, k])
                changed = list(words[row])
                where = [i for i in order[row, :k, rival].tolist() if i < min(len(changed), limit)]
                worst = self._worst_of.words([changed[i] for i in where], y, rival)
                for i, word in zip(where, worst, strict=True):
                    changed[i] = word
                witness = self._written(text, changed)
            certified = None if most[row] < 0 else most[row]
            told.append(
                self._told(
                    text,
                    y,
                    holds,
                    ks,
                    certified=certified,
                    endless=certified is None,
                    witness=witness,
                )
            )
        return told

    def _batch(
        self,
        texts: Sequence[str],
        places: Sequence[Sequence[tuple[str, ...]]],
        ks: Sequence[int | None],
    ) -> list[TextCertificate]:
        model = self.model
        limit = model.tokenizer.max_length
        candidates = filled([[model.ids(place) for place in text[:limit]] for text in places])
        mask = candidates[..., 0] != 0
        logits = (model.scores(candidates[..., 0]) * mask.unsqueeze(-1)).sum(dim=1)
        predictions = logits.argmax(dim=1)
        rivals, direction = self._rivals(predictions)
        count = rivals.shape[1]
        rows, flat = candidates.repeat_interleave(count, dim=0), direction.flatten(0, 1)
        worst = {k: self._worst(rows, flat, k) for k in self._asked(ks, candidates)}
        alone = model.scores.width == 1
        told = []
        for row, text in enumerate(texts):
            mine = slice(row * count, (row + 1) * count)
            margins = [self._of(worst, k)[0][mine] for k in ks]
            holds = [bool((margin > 0).all()) for margin in margins]
            certified = None
            if alone:
                (single,) = worst.values()
                least = single.value[mine].amin(dim=0) > 0
                certified = None if bool(least.all()) else max(int(least.int().argmin()) - 1, 0)
            witness = None
            if not all(holds):
                first = holds.index(False)
                at = int(margins[first].argmin()) + mine.start
                choice = self._of(worst, ks[first])[1][at]
                witness = self._text(text, places[row], choice[: len(places[row])].tolist())
            told.append(
                self._told(
                    text,
                    int(predictions[row]),
                    holds,
                    ks,
                    certified=certified,
                    endless=alone and certified is None,
                    witness=witness,
                )
            )
        return told

    def _asked(self, ks: Sequence[int | None], candidates: Tensor) -> list[int | None]:
        """With words alone one sort answers all; else one path with a limit, and one without."""
        if self.model.scores.width == 1:
            return [candidates.shape[1]]
        limits = [k for k in ks if k is not None]
        asked: list[int | None] = [max(limits)] if limits else []
        return [*asked, None] if None in ks else asked

    def _worst(self, candidates: Tensor, direction: Tensor, k: int | None) -> Worst:
        find = worst_words if self.model.scores.width == 1 else worst_path
        return find(self.model.scores, candidates, direction, k)

    def _of(self, worst: dict[int | None, Worst], k: int | None) -> tuple[Tensor, Tensor]:
        """`[R]` least scores with at most k changes, and `[R, N]` the choices that have them."""
        limit = max((most for most in worst if most is not None), default=None)
        found = worst[limit] if k is not None or None not in worst else worst[None]
        at = -1 if k is None else min(k, found.value.shape[1] - 1)
        return found.value[:, at], found.path[:, at]

    def _text(self, text: str, places: Sequence[tuple[str, ...]], choice: Sequence[int]) -> str:
        """The text with other words: as it was written between them, where that keeps its words."""
        chosen = [*choice, *[0] * (len(places) - len(choice))]
        words = [
            place[at] if at < len(place) else place[0]
            for place, at in zip(places, chosen, strict=True)
        ]
        return self._written(text, words)

    def _written(self, text: str, words: Sequence[str]) -> str:
        """The text with other words in the places of its own."""
        made, end = [], 0
        for (start, stop), old, new in zip(
            self.model.tokenizer.splitter.spans(text), self.threat.split(text), words, strict=True
        ):
            made += [text[end:start], text[start:stop] if old == new else new]
            end = stop
        written = "".join([*made, text[end:]])
        return written if self.threat.split(written) == tuple(words) else " ".join(words)


class _WorstOfWords:
    """Keeps for each word that is met the scores of its candidates, and what it can lose by them.

    Args:
        model: the classifier, of words alone.
        threat: with lists of words.
    """

    def __init__(self, model: ScoreModel, threat: Synonyms) -> None:
        self._model, self._threat = model, threat
        self._rows: dict[str, int] = {}
        self._own = torch.zeros(0, model.scores.classes, dtype=torch.float64)
        self._lost = self._own.new_zeros(0, model.scores.classes, model.scores.classes)
        self._worst = self._lost.long()
        self._listed: list[tuple[str, ...]] = []

    def __call__(self, texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor]:
        """Looks the words of texts up.

        Returns:
            `[B, N]` rows of the words, -1 behind a text; `[M, C]` scores of the words of the rows;
            `[M, C, C]`, for the classes y and j the largest loss of y's lead over j.
        """
        new = dict.fromkeys(word for words in texts for word in words if word not in self._rows)
        if new:
            self._measure(list(new))
        length = max(map(len, texts), default=0)
        rows = [[self._rows[w] for w in words] + [-1] * (length - len(words)) for words in texts]
        return torch.tensor(rows, dtype=torch.int64).view(len(texts), length), self._own, self._lost

    def words(self, words: Sequence[str], y: int, rival: int) -> list[str]:
        """Returns the candidates of words that take most from y's lead over a rival."""
        rows = [self._rows[word] for word in words]
        chosen = self._worst[rows, y, rival].tolist()
        return [self._listed[row][at] for row, at in zip(rows, chosen, strict=True)]

    def _measure(self, words: Sequence[str]) -> None:
        self._rows |= {word: len(self._rows) + i for i, word in enumerate(words)}
        listed = [self._threat.of_word(word) for word in words]
        self._listed += listed
        candidates = filled([[self._model.ids(one) for one in listed]])[0]
        scores = self._model.scores.word_table()[candidates]
        lost, worst = [], []
        for y in range(scores.shape[-1]):
            lead = scores[..., y : y + 1] - scores
            most, which = (lead[:, :1] - lead).max(dim=1)
            lost.append(most)
            worst.append(which)
        self._own = torch.cat([self._own, scores[:, 0]])
        self._lost = torch.cat([self._lost, torch.stack(lost, dim=1)])
        self._worst = torch.cat([self._worst, torch.stack(worst, dim=1)])


class CharacterCertifier(_Certifier):
    """Certifies against edits of characters: exact, see `certify.words.kept_separators`.

    Where an edit may move a word across the model's `max_length`, nothing is certified, and the
    certificate is called a lower bound.
    """

    threat: Characters

    def __init__(self, model: ScoreModel, threat: Threat) -> None:
        """Measures the model; see `_Certifier`.

        Raises:
            ValueError: n-grams, or words that a character may change from afar.
        """
        super().__init__(model, threat)
        tokens = model.tokenizer.vocabulary.get_itos()
        known = [
            (word, index) for index, word in enumerate(tokens) if index >= model.scores.specials
        ]
        self.edits = EditedTexts(Edits(Trie.of(known), model.scores.word_table()))

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`; a k of None is refused with a ValueError."""
        limits = [self.threat.at(k).k or 0 for k in ks]
        found: dict[int, TextCertificate] = {}
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), 64):
            some = order[start : start + 64]
            answers = self._batch([texts[i] for i in some], limits)
            found |= dict(zip(some, answers, strict=True))
        return [found[i] for i in range(len(texts))]

    def _batch(self, texts: Sequence[str], ks: Sequence[int]) -> list[TextCertificate]:
        logits = torch.stack([self.model.logits(self.threat.split(text)) for text in texts])
        predictions = logits.argmax(dim=1)
        _, direction = self._rivals(predictions)
        least = self.edits.least(texts, direction, max(ks))
        told = []
        for row, text in enumerate(texts):
            fits = [len(self.threat.split(text)) + k <= self.model.tokenizer.max_length for k in ks]
            values = [least[row, :, k] for k in ks]
            holds = [
                fit and bool((value > 0).all()) for fit, value in zip(fits, values, strict=True)
            ]
            witness, kind = None, self.kind
            if not all(holds):
                first = holds.index(False)
                if fits[first]:
                    way = direction[row, int(values[first].argmin())]
                    witness = self.edits.witness(text, way, ks[first])
                else:
                    kind = "lower bound"
            told.append(
                self._told(text, int(predictions[row]), holds, ks, witness=witness, kind=kind)
            )
        return told


class WordCertifier(_Certifier):
    """Certifies against edits of words, for words alone: exact in closed form.

    With m the least score of a word, or 0 (an unknown one), a replacement of word i loses d_i - m
    at most, an insertion -m, and a deletion d_i, which is never more. So k edits lose at most
    -k m and the k largest positive d_i.
    """

    threat: Words

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`; a k of None is refused with a ValueError."""
        limits = [self.threat.at(k).k or 0 for k in ks]
        return [self._one(text, limits) for text in texts]

    def _one(self, text: str, ks: Sequence[int]) -> TextCertificate:
        model, words = self.model, self.threat.split(text)
        prediction = model.logits(words).argmax().view(1)
        _, directions = self._rivals(prediction)
        table, ids = model.scores.word_table(), torch.tensor(model.ids(words), dtype=torch.int64)
        fits = [len(words) + k <= model.tokenizer.max_length for k in ks]
        holds, witness, kind = [], None, self.kind
        for k, fit in zip(ks, fits, strict=True):
            worst = [self._worst(table @ way, ids, k) for way in directions[0]]
            least, at = min((value, at) for at, (value, _) in enumerate(worst))
            holds.append(fit and least > 0)
            if not holds[-1] and witness is None and kind == "exact":
                kind = "exact" if fit else "lower bound"
                witness = (
                    self._witness(text, words, worst[at][1], table @ directions[0, at])
                    if fit
                    else None
                )
        return self._told(text, int(prediction), holds, ks, witness=witness, kind=kind)

    def _worst(self, differences: Tensor, ids: Tensor, k: int) -> tuple[float, list[int | None]]:
        """The least score, and the positions that are replaced; None for an insertion."""
        own = differences[ids]
        lost = own.clamp_min(0.0).sort(descending=True, stable=True)
        gained, least = lost.values[:k], float(differences.min().clamp_max(0.0))
        places: list[int | None] = [
            int(place) for place, value in zip(lost.indices, gained, strict=False) if value > 0
        ]
        value = float(own.sum()) - float(gained.sum()) + k * least
        return value, [*places, *[None] * (k - len(places))]

    def _witness(
        self, text: str, words: Sequence[str], places: Sequence[int | None], differences: Tensor
    ) -> str:
        at = int(differences.argmin())
        known = float(differences[at]) < 0
        worst = self.model.tokenizer.vocabulary.lookup_token(at) if known else None
        made: list[str | None] = list(words)
        for place in places:
            if place is None:
                made += [worst]
            else:
                made[place] = worst
        return " ".join(word for word in made if word is not None)


def filled(rows: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Ids of candidates as one tensor `[B, N, S]`, filled up as `worst_words` wants them."""
    length = max((len(row) for row in rows), default=0)
    size = max((len(place) for row in rows for place in row), default=1)
    whole = [
        [[*place, *[place[0]] * (size - len(place))] for place in row]
        + [[0] * size] * (length - len(row))
        for row in rows
    ]
    return torch.tensor(whole, dtype=torch.int64).view(len(rows), length, size)


def _size(places: Sequence[tuple[str, ...]]) -> tuple[int, int]:
    return max(map(len, places), default=1), len(places)


def _batches(places: Sequence[Sequence[tuple[str, ...]]], width: int) -> Iterator[list[int]]:
    """Yields positions of texts of like size."""
    batch: list[int] = []
    for row, text in enumerate(places):
        size, length = _size(text)
        cost = max(1, size**width * (length if width == 1 else 8))
        if batch and (len(batch) + 1) * cost > AT_ONCE:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
