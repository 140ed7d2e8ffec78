"""Keeps replacements of the same part of speech."""

from collections.abc import Sequence

import numpy as np

from attacks.compat import Compat
from attacks.composition import Group
from attacks.constraints.words import WordReplacements, keep_words
from attacks.resources.tagger import Tagger

BEFORE, AFTER = 4, 3
"""Words around the one in question that are shown to the tagger."""


class PartOfSpeech:
    """Keeps words with the tag of the word they replace, in the same surroundings.

    Source: Jin et al. (TextFooler), 2020, step 2, "POS Checking": universal tags, of four words
    before and three behind.

    Args:
        tagger: gives the tags.
        allow_verb_noun_swap: verbs and nouns count as one part of speech; in ungrammatical text
            a tagger often confuses them.
        compat: the reference shows the surroundings in the original text, of both texts of a pair
            together, and reads off the tag of a word's first occurrence in them, also when that is
            another one.
    """

    cost = 3.0

    def __init__(
        self, tagger: Tagger, *, allow_verb_noun_swap: bool = True, compat: str = "none"
    ) -> None:
        self.tagger, self.compat = tagger, Compat(compat)
        self.allow_verb_noun_swap = allow_verb_noun_swap
        # Tags that count as one have one number.
        self._part = np.arange(len(tagger.universal))
        if allow_verb_noun_swap:
            merged = [i for i, tag in enumerate(tagger.universal) if tag in ("NOUN", "VERB")]
            self._part[merged] = min(merged, default=0)

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        return keep_words(groups, self.compat, self._same)

    def _same(self, group: Group, slot: WordReplacements) -> list[bool]:
        """Return True for each new word with the part of speech of the old one."""
        before, after = self._surroundings(group, slot.at)
        words = [slot.old, *slot.new]
        tags = self.tagger.attempt(before, words, after)
        if self.compat.tags_original_text:
            for i, word in enumerate(words):
                if word in before:
                    there = self.tagger.tag([*before, word, *after])[before.index(word)]
                    # The reference looks for the word by its first occurrence.
                    tags[i] = self.tagger.universal.index(there)
        parts = self._part[tags]
        same: list[bool] = (parts[1:] == parts[0]).tolist()
        return same

    def _surroundings(self, group: Group, index: int) -> tuple[list[str], list[str]]:
        """Return the words before and behind a place."""
        if self.compat.tags_original_text:
            words = group.original.words
            return words[max(0, index - BEFORE) : index], words[index + 1 : index + 1 + AFTER]
        document = group.current
        words, column = document.words, document.column_of(index)
        # In a pair the other text is not shown.
        around = range(max(0, index - BEFORE), min(len(words), index + 1 + AFTER))
        same = [i for i in around if document.column_of(i) == column]
        return [words[i] for i in same if i < index], [words[i] for i in same if i > index]
