"""Deletes words."""

from collections.abc import Sequence

from attacks.compat import Compat
from attacks.composition import Job
from attacks.document import Candidate


class DeleteWord:
    """Deletes a word, and one of the spaces around it; never the last word of a text.

    Source: Feng et al., "Pathologies of Neural Models Make Interpretations Difficult", 2018.

    Args:
        compat: the reference leaves the space before the last word of a text.
    """

    def __init__(self, *, compat: str = "none") -> None:
        self._keeps_space = Compat(compat).keeps_space_of_deleted

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return [
            [
                job.current.replace(i, "") if self._keeps_space else job.current.delete(i)
                for i in job.indices
                if len(job.current) > 1
            ]
            for job in jobs
        ]
