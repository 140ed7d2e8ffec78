"""Inserts words, and merges two words into one, by a masked language model.

Sources: Garg and Ramakrishnan (BAE), 2020, section 3 (insertion to the left or right of a word); Li
et al., "Contextualized Perturbation for Textual Adversarial Attack" (CLARE), 2021, section 2.2
(insertion behind a word, merging of two words).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from attacks.composition import Job
from attacks.document import Candidate
from attacks.resources.language_model import Query
from attacks.resources.passages import Passage, Passages
from attacks.resources.tagger import Tagger
from attacks.transformations.expected_words import MaskedLMSwap

Side = Literal["left", "right", "both"]

MERGED = {
    "NOUN": ("NOUN",),
    "ADJ": ("NOUN", "NUM", "ADJ", "ADV"),
    "ADV": ("ADJ", "VERB"),
    "VERB": ("ADV", "VERB", "NOUN", "ADJ"),
    "DET": ("NOUN", "ADJ"),
    "PRON": ("NOUN", "ADJ"),
    "NUM": ("NUM", "NOUN"),
}
"""Parts of speech of two neighbours that are merged, those of CLARE's released code."""


class _Place(NamedTuple):
    """A place where words may be put.

    Attributes:
        query: text with the mask.
        old: words that must not be proposed.
        make: makes the candidate of a word.
    """

    query: Query
    old: tuple[str, ...]
    make: Callable[[str], Candidate]


class _MaskedPlaces(MaskedLMSwap):
    """Puts the likeliest words of a masked language model into places of a text."""

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        passages = Passages(joined=False)
        places = [self._places(job, passages) for job in jobs]
        words = self.model.fill([place.query for row in places for place in row])
        return [
            [
                place.make(word)
                for place in row
                for word in words[place.query]
                if word.lower() not in place.old
            ]
            for row in places
        ]

    def _places(self, job: Job, passages: Passages) -> list[_Place]:
        """Returns the places of a job."""
        del job, passages
        return []

    def _asked(
        self,
        passage: Passage,
        span: tuple[int, int],
        index: int,
        before: str = "",
        behind: str = "",
    ) -> Query:
        """Puts the mask, with what stands around it, in place of some characters.

        On each side it keeps at most as many words as the model takes tokens.
        """
        place, reach = passage.place(index), self.model.max_length
        begin, stop = 0, len(passage.text)
        if place > reach:
            begin = passage.spans[place - reach][0]
        if place + reach < len(passage.spans):
            stop = passage.spans[place + reach][1]
        head = passage.text[begin : span[0]] + before
        text = head + self.model.mask + behind + passage.text[span[1] : stop]
        return text, len(head)


class MaskedLMInsert(_MaskedPlaces):
    """Inserts a word beside another one.

    Args:
        model: see `MaskedLMSwap`.
        tokenizer: see `MaskedLMSwap`.
        k: words proposed for a place.
        side: of the word; the reference only has the left.
        base: see `MaskedLMSwap`.
    """

    def __init__(
        self, model: Any, tokenizer: Any, k: int = 50, *, side: Side = "both", **base: Any
    ) -> None:
        super().__init__(model, tokenizer, k, **base)
        self.side = side

    def _places(self, job: Job, passages: Passages) -> list[_Place]:
        document, found = job.current, []
        for index in job.indices:
            column, start, end = document.spans[index]
            passage = passages.of(document, column)
            space = "" if document.cut is not None else " "
            if self.side != "right":
                query = self._asked(passage, (start, start), index, behind=space)
                found.append(_Place(query, (), partial(document.insert, index)))
            if self.side != "left":
                query = self._asked(passage, (end, end), index, before=space)
                found.append(_Place(query, (), partial(document.insert, index, behind=True)))
        return found


class MaskedLMMerge(_MaskedPlaces):
    """Merges a word and the next one into one word.

    Args:
        model: see `MaskedLMSwap`.
        tokenizer: see `MaskedLMSwap`.
        tagger: merges only parts of speech of `MERGED`; any two words if None.
        k: words proposed for a place.
        minimum_confidence: probability below which a word is not proposed.
        base: see `MaskedLMSwap`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        tagger: Tagger | None = None,
        k: int = 50,
        *,
        minimum_confidence: float = 5e-3,
        **base: Any,
    ) -> None:
        super().__init__(model, tokenizer, k, minimum_confidence=minimum_confidence, **base)
        self.tagger = tagger

    def _places(self, job: Job, passages: Passages) -> list[_Place]:
        document, found = job.current, []
        allowed = set(job.indices)
        tags = None if self.tagger is None or not allowed else self.tagger.tag(document.words)
        for index in job.indices:
            if index + 1 not in allowed:
                continue
            column, start, _ = document.spans[index]
            other, _, end = document.spans[index + 1]
            fits = tags is None or tags[index + 1] in MERGED.get(tags[index], ())
            if column != other or not fits:
                continue
            query = self._asked(passages.of(document, column), (start, end), index)
            old = (document.words[index].lower(), document.words[index + 1].lower())
            found.append(_Place(query, old, partial(document.merge, index)))
        return found
