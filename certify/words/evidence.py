"""Certifiers of classifiers that add up evidence of at least 0 of the words that a text has."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

import torch
from torch import Tensor

from certify.threats import (
    Additions,
    Kind,
    ReadWords,
    Replacements,
    Substitutions,
    TextCertificate,
    Threat,
)
from certify.threats.text_certificate import largest
from certify.words.worst_path import worst_path, worst_words
from layers.evidence import EvidenceSum, new_evidence
from layers.ngram_scores import GRID, LARGEST, NgramScores
from text import WordTokenizer

STEPS = 24
"""Steps of the search for prices of a text, at most."""
UNKNOWN = "qzxqzjqxz"
"""A word that hardly any model knows or corrects to one that it knows."""
ROWS = 1 << 23
"""Words and n-grams of a model at most: sums of all their scores are exact."""


class EvidenceModel(NamedTuple):
    """A classifier that adds up evidence, in evaluation mode and on the CPU."""

    scores: NgramScores
    network: EvidenceSum
    tokenizer: WordTokenizer

    def logits(self, words: Sequence[str]) -> Tensor:
        """Return `[2]` float64; a text without words is one unknown word."""
        ids = torch.tensor([self.tokenizer.ids(words) or [self.tokenizer.unk_id]])
        logits: Tensor = self.network(new_evidence(self.scores, ids), torch.ones_like(ids).bool())
        return logits[0]


class Prices(NamedTuple):
    """The ways in which the candidates of one text form words and n-grams with a score.

    A way is a tuple of candidates of neighbouring words. The model counts each word or n-gram
    once. The price of a way is its share in this score: shares of one score add up to the score
    or less, so that the sum of the prices of all ways in a text is no more than its evidence.

    Attributes:
        scores: of candidates as words of their own, one for each position and candidate.
        candidates: `[1, N, S]` these words.
        ways: for each order `[order, M]`, candidates as words of `scores`, in the order of its
            table.
        owner: `[W]`, for all ways one after another the number of their word or n-gram.
        values: `[U]` scores of these.
    """

    scores: NgramScores
    candidates: Tensor
    ways: Sequence[Tensor]
    owner: Tensor
    values: Tensor

    @classmethod
    def of(cls, scores: NgramScores, candidates: Tensor, orders: Sequence[int]) -> "Prices":
        """Find the ways of candidates `[1, N, S]`, the word itself first."""
        keep = candidates != candidates[..., :1]
        keep[..., 0] = True
        # Without gaps: an n-gram of numbers is one int64.
        last = int(keep.sum()) + scores.specials
        numbers = keep.flatten().cumsum(0).view_as(keep) - 1 + scores.specials
        # Rows are filled up with the word itself: one and the same candidate.
        numbers = torch.where(keep, numbers, numbers[..., :1])
        table = scores.word_table()[:, 0]
        chosen = (keep & (table[candidates] > 0)).flatten().nonzero().flatten()
        ways = [numbers.flatten()[chosen].unsqueeze(0)]
        rows = [candidates.flatten()[chosen]]
        values, first = [table], len(table)
        for order in orders:
            found = scores.finder(order).among(candidates, keep)
            words = numbers.flatten(0, 1)[found.places, found.choices]
            key = words[0]
            for word in words[1:]:
                key = key * last + word
            # In the order in which `set_ngrams` sorts them.
            by_key = key.argsort()
            ways.append(words[:, by_key])
            rows.append(found.rows[by_key] + first)
            values.append(scores.ngram_table(order)[:, 0])
            first += len(values[-1])
        used, owner = torch.unique(torch.cat(rows), return_inverse=True)
        priced = NgramScores(
            last, 1, counts=[part.shape[1] for part in ways[1:]], specials=scores.specials
        )
        priced = priced.to(torch.float64).requires_grad_(requires_grad=False).eval()
        priced.set_ngrams([part.T for part in ways[1:]])
        return cls(priced, numbers, ways, owner, torch.cat(values)[used])

    def used(self, path: Tensor) -> Tensor:
        """`[W]` bool: the ways that a text `[N]`, the choice of each word, has."""
        inside = torch.zeros(self.scores.size, dtype=torch.bool)
        inside[self.candidates[0].gather(1, path.unsqueeze(1)).flatten()] = True
        return torch.cat([inside[part].all(dim=0) for part in self.ways])

    def evidence(self, used: Tensor) -> float:
        """Return the evidence of a text that has some ways."""
        has = torch.zeros_like(self.values, dtype=torch.bool)
        has[self.owner[used]] = True
        return float(self.values[has].sum())

    def texts(self, k: int | None) -> Iterator[tuple[float, Tensor]]:
        """Yield lower bounds on the evidence of all texts with at most k changes, and one of them.

        Each bound is the least sum of some prices. The next prices move towards the text that has
        this least sum: its ways get the scores.
        """
        shared = torch.bincount(self.owner, minlength=len(self.values))[self.owner]
        prices = self.values[self.owner] / shared.clamp_min(1)
        for step in count():
            value, path = self._least(prices, k)
            yield value, path
            used = self.used(path)
            number = torch.zeros_like(self.values).index_add_(0, self.owner, used.double())
            share = self.values[self.owner] * used / number[self.owner].clamp_min(1)
            target = torch.where(number[self.owner] > 0, share, prices)
            prices = prices + (target - prices) / (step + 2)

    def _least(self, prices: Tensor, k: int | None) -> tuple[float, Tensor]:
        # Rounded down to the grid: sums of prices of one score stay below it, and are exact.
        prices = (prices / GRID).floor() * GRID
        words, *others = torch.split(prices, [part.shape[1] for part in self.ways])
        self.scores.words.zero_()
        self.scores.words[self.ways[0][0], 0] = words
        for table, part in zip(self.scores.tables, others, strict=True):
            table.copy_(part.unsqueeze(1))
        find = worst_words if len(self.ways) == 1 else worst_path
        worst = find(self.scores, self.candidates, torch.ones(1, 1, dtype=torch.float64), k)
        return float(worst.value[0, -1]), worst.path[0, -1]


class EvidenceCertifier:
    """Certifies against added text and replaced words; docs/certificates/append.md has the proof.

    Against added text only predictions of the class that evidence speaks for are certified.

    Raises:
        ValueError: other words than the threat's, sets that move words, or scores below 0 or of
            inexact sums.
    """

    kind: Kind = "exact"

    def __init__(self, model: EvidenceModel, threat: Threat) -> None:
        settings = model.tokenizer.splitter.settings
        self.changes: Replacements | None = None
        if not isinstance(threat, Additions):
            self.changes = Replacements.of_model(threat, settings, ordered="MonotoneScores")
        elif threat.changes is not None:
            self.changes = Substitutions.of_model(
                threat.changes, settings, ordered="MonotoneScores"
            )
        threat.check_words(settings)
        tables = [model.scores.word_table(), *map(model.scores.ngram_table, model.scores.orders)]
        bounded = all(bool(((t >= 0) & (t <= LARGEST)).all()) for t in tables)
        if not bounded or sum(map(len, tables)) > ROWS:
            msg = (
                f"got scores below 0, above {LARGEST:g} or not finite, or more than {ROWS}, "
                "expected those that MonotoneScores trains"
            )
            raise ValueError(msg)
        if not bool((model.network.offsets().abs() <= LARGEST).all()):
            msg = f"got a bias of {model.network.bias.tolist()}, expected finite numbers"
            raise ValueError(msg)
        self.model, self.threat = model, threat
        self._read = None if self.changes is None else ReadWords(self.changes, model.tokenizer)

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        return [self._certify(text, ks) for text in texts]

    def _certify(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        model, words = self.model, self.threat.split(text)
        prediction = int(model.logits(words).argmax())
        if isinstance(self.threat, Additions) and prediction != model.network.positive:
            results = [(False, self._outvoted(text))] * len(ks)
        else:
            results = [self._decide(text, prediction, k) for k in ks]
        verdicts = [holds for holds, _ in results]
        witness = next((changed for _, changed in results if changed is not None), None)
        decided = all(holds or changed is not None for holds, changed in results)
        return TextCertificate(
            text=text,
            prediction=prediction,
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            kind=self.kind if decided else "lower bound",
            witness=witness,
            witness_prediction=None if witness is None else 1 - prediction,
            unknown=model.tokenizer.ids(words).count(model.tokenizer.unk_id),
        )

    def _decide(self, text: str, prediction: int, k: int | None) -> tuple[bool, str | None]:
        """Return True if no text changes the prediction, else one that does, if one is found."""
        model, threat = self.model, self.threat
        offsets, positive = model.network.offsets().tolist(), model.network.positive
        offset = offsets[prediction] - offsets[1 - prediction]
        core = threat.core(text) if isinstance(threat, Additions) else text
        inserted = isinstance(threat, Additions) and threat.kind == "insert-any"
        # An unknown word between two others takes each n-gram away.
        orders = () if inserted else model.scores.orders
        candidates = self._candidates(core)
        if prediction != positive:
            # Repeated words and n-grams count each time: an upper bound on the evidence.
            find = worst_words if model.scores.width == 1 else worst_path
            against = torch.full((1, 1), -1.0, dtype=torch.float64)
            worst = find(model.scores, candidates, against, k)
            if offset + float(worst.value[0, -1]) > 0:
                return True, None
            return False, self._witness(text, core, candidates, worst.path[0, -1], prediction)
        prices = Prices.of(model.scores, candidates, orders)
        for value, path in islice(prices.texts(k), STEPS):
            if offset + value > 0:
                return True, None
            if offset + prices.evidence(prices.used(path)) <= 0:
                return False, self._witness(text, core, candidates, path, prediction)
        return False, None

    def _candidates(self, text: str) -> Tensor:
        """`[1, N, S]` ids of what the words of a text may become, the word itself first."""
        tokenizer = self.model.tokenizer
        if self._read is None:
            ids = tokenizer.ids(self.threat.split(text))
            return torch.tensor(ids, dtype=torch.int64).view(1, -1, 1)
        choices = self._read([text])
        return choices.table()[choices.rows]

    def _witness(
        self, whole: str, core: str, candidates: Tensor, path: Tensor, prediction: int
    ) -> str | None:
        """Return the text of a path if the model predicts another class for it, or a tie."""
        if isinstance(self.threat, Additions) and self.threat.kind == "append-glued":
            return self._checked(f"{UNKNOWN}{whole}{UNKNOWN}", prediction)
        if core != whole:
            return self._checked(f"z z z z {whole} z z z z", prediction)
        words = list(self.threat.split(core))
        if self.changes is not None and self._read is not None:
            keys = self.changes.occurrences(core)
            for at in path.nonzero().flatten().tolist():
                new = int(candidates[0, at, path[at]])
                words[at] = self._read.witness(keys[at], (new,))
        if isinstance(self.threat, Additions) and self.threat.kind == "insert-any":
            words = [part for word in words for part in (word, UNKNOWN)]
        return self._checked(" ".join(words), prediction)

    def _outvoted(self, text: str) -> str | None:
        """Return a text of the other class with the words of most evidence at the end of it."""
        model = self.model
        table = model.scores.word_table()[:, 0]
        order = table.argsort(descending=True, stable=True)[: int((table > 0).sum())]
        words = [model.tokenizer.vocabulary.lookup_token(int(at)) for at in order]

        def checked(count: int) -> str | None:
            return self._checked(" ".join([text, *words[:count]]), 1 - model.network.positive)

        if checked(len(words)) is None:
            return None
        # The number of words that suffices, by bisection: evidence only grows.
        enough = bisect_left(range(len(words)), True, key=lambda n: checked(n) is not None)
        return checked(enough)

    def _checked(self, text: str, prediction: int) -> str | None:
        """Return a text if its prediction differs from a class, or is a tie; else None."""
        logits = self.model.logits(self.threat.split(text))
        return text if logits[prediction] <= logits[1 - prediction] else None
