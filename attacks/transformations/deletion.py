"""Deletes words."""

from collections.abc import Sequence

from attacks.composition import Job
from attacks.document import Candidate


class DeleteWord:
    """Deletes a word, and one of the spaces around it; never the last word of a text.

    Source: Feng et al., "Pathologies of Neural Models Make Interpretations Difficult", 2018.
    """

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [
            [job.current.delete(i) for i in job.indices if len(job.current) > 1] for job in jobs
        ]
