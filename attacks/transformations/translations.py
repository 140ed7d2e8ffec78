"""Replaces whole texts by their translations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attacks.composition import Job
from attacks.document import Candidate
from attacks.transformations.variants import changed_text


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Proposes the translations of a text.

    Attributes:
        translations: those of each text, by the text without white space at its ends.
    """

    translations: Mapping[str, Sequence[str]]

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [self._translate(job) if job.stage else [] for job in jobs]

    def _translate(self, job: Job) -> list[Candidate]:
        document, candidates = job.current, list[Candidate]()
        for column in sorted({document.column_of(index) for index in job.indices}):
            text = document.columns[column]
            for translation in self.translations.get(text.strip(), ()):
                columns = (*document.columns[:column], translation, *document.columns[column + 1 :])
                candidates.append(changed_text(document, columns, job.indices))
        return candidates
