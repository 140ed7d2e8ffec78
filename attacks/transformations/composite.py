"""Joins several transformations, or takes them in stages."""

from collections.abc import Callable, Sequence

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
            # The first transformation that proposes a text keeps it.
            distinct: dict[tuple[str, ...], Candidate] = {}
            for candidates in each:
                for candidate in candidates:
                    distinct.setdefault(candidate.columns, candidate)
            proposed.append(list(distinct.values()))
        return proposed


class Actions(Composite):
    """Joins the candidates of several transformations, or takes the one that a search asks for.

    Stage 0 of a job joins all of them, stage 1 is the first, and so on
    (`attacks.strategies.RankedActions`).
    """

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        parts = [super().propose, *(part.propose for part in self.transformations)]
        return _by_stage(parts, jobs)


class Stages(Composite):
    """Takes the first transformation in the first stage of a search, and so on.

    `attacks.strategies.StagedGreedy` visits each word once per stage.
    """

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        return _by_stage([part.propose for part in self.transformations], jobs)


def _by_stage(
    parts: Sequence[Callable[[Sequence[Job]], list[list[Candidate]]]], jobs: Sequence[Job]
) -> list[list[Candidate]]:
    """Return the candidates of each job by the part of its stage."""
    proposed: list[list[Candidate]] = [[] for _ in jobs]
    for stage, propose in enumerate(parts):
        # A transformation is called once per round, for all jobs of its stage.
        rows = [i for i, job in enumerate(jobs) if job.stage == stage]
        if rows:
            answers = propose([jobs[i] for i in rows])
            for i, candidates in zip(rows, answers, strict=True):
                proposed[i] = candidates
    return proposed
