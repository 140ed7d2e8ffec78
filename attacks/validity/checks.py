"""Checks of the meaning of adversarial texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from attacks.document import words_of
from attacks.resources.sentence_encoders import SentenceEncoder
from attacks.resources.tagger import Tagger
from attacks.validity.fluency import Entailment, ModelFluency
from attacks.validity.ngrams import NGrams, word_model
from attacks.validity.word_changes import Opposites, word_changes
from text import Text
from text.stop_words import LISTS


@dataclass(frozen=True, kw_only=True)
class ValidityLimits:
    """The limits of a valid text: docs/attacks/validity.md.

    Attributes:
        antonyms: words replaced by an antonym, at most.
        negations: negations put in or taken out, at most.
        numbers: numbers changed, at most.
        names: names changed, at most.
        similarity: least cosine of the sentence vectors.
        perplexity: largest ratio of the perplexities per word, changed text to original.
        grammar: largest surprise that the new order of parts of speech adds, in nats per changed
            word.
        entailment: least probability that each text entails the other.
    """

    antonyms: int = 0
    negations: int = 0
    numbers: int = 0
    names: int = 0
    similarity: float = 0.807
    perplexity: float = 7.63
    grammar: float = 3.581
    entailment: float = 0.5


LEAST = ("similarity", "entailment")
"""Checks whose figure must not be below the limit; that of all others not above."""


class ValidityFigures(NamedTuple):
    """The figures of a pair of texts; None for a check that was left out."""

    antonyms: int
    negations: int
    numbers: int
    names: int
    similarity: float | None = None
    perplexity: float | None = None
    grammar: float | None = None
    entailment: float | None = None

    def failures(self, limits: ValidityLimits) -> list[str]:
        """Return the names of the checks that the text does not pass."""
        failures = []
        for name in self._fields:
            value, limit = getattr(self, name), getattr(limits, name)
            if value is not None and (value < limit if name in LEAST else value > limit):
                failures.append(name)
        return failures


NAMES = tuple(limit.name for limit in fields(ValidityLimits))


class Checks:
    """Measures pairs of texts.

    Args:
        opposites: antonyms.
        encoder: sentence vectors; without one, similarity is not measured.
        tagger: parts of speech, for the grammar.
        sentences: running text, for grammar and perplexity; without it neither is measured.
        fluency: language model instead of counted words.
        entailment: classifier of pairs; without one, entailment is not measured.
    """

    def __init__(
        self,
        opposites: Opposites,
        *,
        encoder: SentenceEncoder | None = None,
        tagger: Tagger | None = None,
        sentences: Sequence[str] = (),
        fluency: ModelFluency | None = None,
        entailment: Entailment | None = None,
    ) -> None:
        self.opposites, self.encoder, self.tagger = opposites, encoder, tagger
        self.fluency, self.entailment = fluency, entailment
        split = [words for sentence in sentences if (words := words_of(sentence))]
        self.words = None
        if split and fluency is None:
            self.words = word_model([[word.casefold() for word in words] for words in split])
        self.tags = None
        if split and tagger is not None:
            self.tags = NGrams(4, [self._tagged(words) for words in split])

    def measure(self, pairs: Sequence[tuple[Text, Text]]) -> list[ValidityFigures]:
        """Return the figures of each pair of original and changed text."""
        changes = [word_changes(*pair, self.opposites) for pair in pairs]
        first, second = (
            [text if isinstance(text, str) else "\n".join(text) for text in side]
            for side in zip(*pairs, strict=True)
        )
        columns: dict[str, Any] = {}
        if self.encoder is not None:
            columns["similarity"] = self.encoder.cosines(first, second).tolist()
        if self.entailment is not None:
            columns["entailment"] = self.entailment.both_ways(first, second).tolist()
        if self.fluency is not None or self.words is not None:
            before, after = self._nats(first), self._nats(second)
            columns["perplexity"] = [
                # The ratio of perplexities; cut, as exp would overflow.
                math.exp(min(b - a, 100.0))
                for a, b in zip(before, after, strict=True)
            ]
        if self.tags is not None:
            columns["grammar"] = [
                # Nats per changed word: one change in a long text counts like one in a short text.
                (self._order(b) - self._order(a)) / max(1, change.words)
                for a, b, change in zip(first, second, changes, strict=True)
            ]
        return [
            ValidityFigures(*change[:4])._replace(
                **{name: round(column[i], 6) for name, column in columns.items()}
            )
            for i, change in enumerate(changes)
        ]

    def made(self) -> list[str]:
        """Return the names of the checks that are made."""
        there = {
            "similarity": self.encoder,
            "perplexity": self.fluency or self.words,
            "grammar": self.tags,
            "entailment": self.entailment,
        }
        return [name for name in NAMES if name not in there or there[name] is not None]

    def _nats(self, texts: Sequence[str]) -> list[float]:
        """Return the surprise per word."""
        if self.fluency is not None:
            return self.fluency.per_word(texts)
        model: Any = self.words
        split = [[word.casefold() for word in words_of(text)] for text in texts]
        return [math.fsum(model.surprises(words)) / max(1, len(words)) for words in split]

    def _order(self, text: str) -> float:
        """Return the surprise of the parts of speech of a text."""
        model: Any = self.tags
        return math.fsum(model.surprises(self._tagged(words_of(text))))

    def _tagged(self, split: Sequence[str]) -> list[str]:
        tagger: Any = self.tagger
        closed = LISTS["english"]
        return [
            # Stop words stay words: a tag would hide their wrong order.
            word.casefold() if word.casefold() in closed else tag
            for word, tag in zip(split, tagger.tag(split), strict=True)
        ]
