"""Inserts words, and merges two words into one, by a masked language model.

Sources: Garg and Ramakrishnan (BAE), 2020, section 3 (insertion to the left or right of a word); Li
et al., "Contextualized Perturbation for Textual Adversarial Attack" (CLARE), 2021, section 2.2
(insertion behind a word, merging of two words).
"""

from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_letters
from typing import Any, Literal, NamedTuple

from attacks.composition import Job
from attacks.document import Candidate, Document
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
    """A masked text, the words that must not be proposed for it, and the maker of candidates."""

    query: Query
    old: tuple[str, ...]
    make: Callable[[str], Candidate]


class _MaskedPlaces(MaskedLMSwap):
    """Puts the likeliest words of a masked language model into places of a text."""

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        passages = Passages(joined=False)
        slots = [self._places(job, passages) for job in jobs]
        words = self.model.fill([slot.query for row in slots for slot in row])
        return [
            [
                slot.make(word)
                for slot in row
                for word in words[slot.query]
                if self._new(word, slot.old)
            ]
            for row in slots
        ]

    def _new(self, word: str, old: tuple[str, ...]) -> bool:
        """Return True for a word that may be put in a place."""
        if self.reference:
            # The reference takes any token with a letter.
            return word not in old and not set(ascii_letters).isdisjoint(word)
        return word.lower() not in old

    def _places(self, job: Job, passages: Passages) -> list[_Place]:
        """Return the places of a job."""
        # Both subclasses define it; a dataclass that attacks describe is no abstract class.
        raise NotImplementedError

    def _asked(
        self, passage: Passage, span: tuple[int, int], index: int, before: str = "", after: str = ""
    ) -> Query:
        """Replace some characters by the mask, with `before` and `after` around it.

        On each side it keeps at most as many words as the model takes tokens.
        """
        position, reach = passage.place(index), self.model.max_length
        begin, stop = 0, len(passage.text)
        if self.reference:  # shows the text from its first to its last word
            begin, stop = passage.spans[0][0], passage.spans[-1][1]
        if position > reach:
            begin = passage.spans[position - reach][0]
        if position + reach < len(passage.spans):
            stop = passage.spans[position + reach][1]
        head = passage.text[begin : span[0]] + before
        text = head + self.model.mask + after + passage.text[span[1] : stop]
        return text, len(head)


class MaskedLMInsert(_MaskedPlaces):
    """Inserts a word next to another one.

    Args:
        model: see `MaskedLMSwap`.
        tokenizer: see `MaskedLMSwap`.
        k: words proposed for a place.
        side: of the word; the reference only has the left.
        base: see `MaskedLMSwap`. With `compat`, word pieces count as words, and something is also
            inserted next to stop words.
    """

    def __init__(
        self, model: Any, tokenizer: Any, k: int = 50, *, side: Side = "both", **base: Any
    ) -> None:
        super().__init__(model, tokenizer, k, **base)
        self.side = side

    def _anchors(self, job: Job) -> Sequence[int]:
        """Return the words next to which something is inserted.

        The reference asks about stop words where words are replaced only. It shows the model the
        text from its first word on, and a mask there loses its bracket: nothing is proposed.
        """
        if not self.reference:
            return job.indices
        changed = job.current.modified
        return [i for i in range(1, len(job.current)) if i not in changed]

    def _places(self, job: Job, passages: Passages) -> list[_Place]:
        document, slots = job.current, []
        for index in self._anchors(job):
            column, start, end = document.spans[index]
            passage = passages.of(document, column)
            # Scripts without spaces need none around an inserted word.
            space = "" if document.cut is not None else " "
            if self.side != "right":
                query = self._asked(passage, (start, start), index, after=space)
                if self.reference:
                    old = document.words[index]
                    slots.append(_Place(query, (old,), partial(_two, document, index, old)))
                    continue
                slots.append(_Place(query, (), partial(document.insert, index)))
            if self.side != "left":
                query = self._asked(passage, (end, end), index, before=space)
                slots.append(_Place(query, (), partial(document.insert, index, after=True)))
        return slots


def _two(document: Document, index: int, old: str, word: str) -> Candidate:
    """Replace a word by another one and itself: in the reference both count as changed."""
    (candidate,) = document.replace_by(index, [f"{word} {old}"])
    return candidate


def _between(document: Document, index: int) -> str:
    """Return what stays between two words, without the space that goes with the second."""
    column, _, end = document.spans[index]
    return document.columns[column][end : document.spans[index + 1][1]].removesuffix(" ")


def _kept(document: Document, index: int, word: str) -> Candidate:
    """Merge two words as the reference does: marks between them stay."""
    column, start, _ = document.spans[index]
    text, stop = document.columns[column], document.spans[index + 1][2]
    merged = text[:start] + word + _between(document, index) + text[stop:]
    return Candidate(document, index, word, document.with_column(column, merged), width=2)


class MaskedLMMerge(_MaskedPlaces):
    """Merges a word and the next one into one word.

    Args:
        model: see `MaskedLMSwap`.
        tokenizer: see `MaskedLMSwap`.
        tagger: merges only parts of speech of `MERGED`; any two words if None.
        k: words proposed for a place.
        minimum_confidence: probability below which a word is not proposed.
        base: see `MaskedLMSwap`. With `compat`, word pieces count as words, and any two words may
            be merged, stop words and changed ones included, but for the first and the last word.
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
        document, slots = job.current, []
        # In the reference any two words but the first and the last: see `MaskedLMInsert`.
        positions = range(1, len(document) - 2) if self.reference else job.indices
        allowed = set(range(len(document)) if self.reference else job.indices)
        tags = None if self.tagger is None or not allowed else self.tagger.tag(document.words)
        for index in positions:
            if index + 1 not in allowed:
                continue
            column, start, _ = document.spans[index]
            other, _, end = document.spans[index + 1]
            # Only neighbours of one text, of parts of speech that make a phrase.
            fits = tags is None or tags[index + 1] in MERGED.get(tags[index], ())
            if column != other or not fits:
                continue
            between = _between(document, index) if self.reference else ""
            span = (start, end)
            query = self._asked(passages.of(document, column), span, index, after=between)
            first, second = document.words[index : index + 2]
            old = (first,) if self.reference else (first.lower(), second.lower())
            merge = partial(_kept, document, index) if self.reference else None
            slots.append(_Place(query, old, merge or partial(document.merge, index)))
        return slots
