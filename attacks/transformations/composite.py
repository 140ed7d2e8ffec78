"""Joins several transformations, or takes them in stages."""

from collections.abc import Sequence

from attacks.composition import Job, Transformation
from attacks.document import Candidate


class Composite:
    """Joins the candidates of several transformations, in their order, each text once.

    Args:
        transformations: transformations, at least one.
    """

    def __init__(self, transformations: Sequence[Transformation]) -> None:
        if not transformations:
            msg = "got no transformations, expected at least one"
            raise ValueError(msg)
        self.transformations = list(transformations)

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        parts = [transformation.propose(jobs) for transformation in self.transformations]
        proposed = []
        for each in zip(*parts, strict=True):
            distinct: dict[tuple[str, ...], Candidate] = {}
            for candidates in each:
                for candidate in candidates:
                    distinct.setdefault(candidate.columns, candidate)
            proposed.append(list(distinct.values()))
        return proposed


class Stages:
    """Takes the first transformation in the first stage of a search, and so on.

    Args:
        transformations: one for each stage (`attacks.strategies.StagedGreedy`).
    """

    def __init__(self, transformations: Sequence[Transformation]) -> None:
        if not transformations:
            msg = "got no transformations, expected one for each stage"
            raise ValueError(msg)
        self.transformations = list(transformations)

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        proposed: list[list[Candidate]] = [[] for _ in jobs]
        for stage, transformation in enumerate(self.transformations):
            rows = [i for i, job in enumerate(jobs) if job.stage == stage]
            if rows:
                found = transformation.propose([jobs[i] for i in rows])
                for i, candidates in zip(rows, found, strict=True):
                    proposed[i] = candidates
        return proposed
