"""Replaces words one by one."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Literal

from attacks.composition import Job
from attacks.document import Candidate

Span = Literal["listed", "typo", "split"]


class WordSwap:
    """Proposes the replacements of each word of a job.

    Attributes:
        span: the set of all replacements of a word, for certificates (`attacks.word_sets`). listed:
            those of `replacements`, which depend on nothing but the word; typo: words within one
            edit of a character; split: also two words that a space makes of it; None: another one.
    """

    span: ClassVar[Span | None] = None

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        proposed = []
        for job in jobs:
            candidates: list[Candidate] = []
            for index in job.indices:
                word = job.current.words[index]
                words = [new for new in self.replacements(word, job.random) if new != word]
                candidates += job.current.replace_by(index, words)
            proposed.append(candidates)
        return proposed

    def replacements(self, word: str, random: Random) -> Sequence[str]:
        """Return the replacements of a word."""
        msg = f"got {type(self).__name__} without replacements(), expected every one to define it"
        raise TypeError(msg)


class NoReplacements(WordSwap):
    """Proposes nothing, for searches that write texts of their own."""

    def replacements(self, word: str, random: Random) -> Sequence[str]:
        """See `WordSwap`."""
        return ()
