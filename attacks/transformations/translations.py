"""Replaces whole texts by their translations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attacks.composition import Job
from attacks.document import Candidate
from attacks.transformations.variants import changed_text


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Proposes the translations, or paraphrases, of a text.

    Attributes:
        translations: those of each text, by the text without white space at its ends.
        complete: True if a text without an entry is an error.
    """

    translations: Mapping[str, Sequence[str]]
    complete: bool = False

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`.

        Raises:
            ValueError: a text without an entry, where there has to be one.
        """
        return [self._translate(job) if job.stage else [] for job in jobs]

    def _translate(self, job: Job) -> list[Candidate]:
        document, candidates = job.current, list[Candidate]()
        for column in sorted({document.column_of(index) for index in job.indices}):
            text = document.columns[column].strip()
            if self.complete and text not in self.translations:
                msg = (
                    f"got text {text!r:.80}, which the file of paraphrases lacks, expected all "
                    "attacked texts there: `steadfast resources paraphrases` adds them"
                )
                raise ValueError(msg)
            for translation in self.translations.get(text, ()):
                columns = document.with_column(column, translation)
                candidates.append(changed_text(document, columns, job.indices))
        return candidates
