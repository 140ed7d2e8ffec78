"""Writes all words of a text in another way: the variants of one text, and of its words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from attacks.composition import Job
from attacks.document import Candidate, Document


@dataclass(frozen=True)
class Variant:
    """One way to write a text.

    Attributes:
        name: name for settings.
        write: writes a word, or the whole text, otherwise.
        indivisible: True if it is about the whole text, and not about some of its words.
    """

    name: str
    write: Callable[[str], str]
    indivisible: bool = False


@dataclass(frozen=True)
class Variants:
    """Writes texts in several ways.

    Stage 0 of a job proposes each variant of each single word. Stage k proposes one text, in which
    all words of the job have variant k (`attacks.strategies.WholeTexts`).

    Attributes:
        variants: the ways, in the order in which they are tried.
    """

    variants: Sequence[Variant]

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [self._of_words(job) if not job.stage else self._of_text(job) for job in jobs]

    def _of_words(self, job: Job) -> list[Candidate]:
        document = job.current
        ways = [variant.write for variant in self.variants if not variant.indivisible]
        return [
            candidate
            for index in job.indices
            for candidate in document.replace_by(
                index, [write(document.words[index]) for write in ways]
            )
        ]

    def _of_text(self, job: Job) -> list[Candidate]:
        variant, document = self.variants[job.stage - 1], job.current
        columns = list(document.columns)
        # From the last word on: the places of the words before stay right.
        for index in sorted(job.indices, reverse=True):
            column, start, end = document.spans[index]
            text = columns[column]
            if not variant.indivisible:
                columns[column] = text[:start] + variant.write(text[start:end]) + text[end:]
        if variant.indivisible:
            for column in {document.column_of(index) for index in job.indices}:
                columns[column] = variant.write(document.columns[column])
        return [changed_text(document, tuple(columns), job.indices)]


def changed_text(document: Document, columns: tuple[str, ...], indices: Iterable[int]) -> Candidate:
    """Return a candidate in which several words are changed, from the first of them to the last."""
    first, last = min(indices), max(indices)
    return Candidate(document, first, "", columns, width=last - first + 1)
