"""Candidates of an attack: proposed by its transformation, and kept by all its constraints."""

from collections.abc import Sequence

from attacks.composition import Attack, Group, Job
from attacks.document import Candidate


def candidates(attack: Attack, jobs: Sequence[Job]) -> list[list[Candidate]]:
    """Return the candidates of each job that keep all constraints, in the order of their texts.

    Cheap constraints are asked first, each about all jobs together.
    """
    proposed = attack.transformation.propose(jobs)
    groups = [
        Group(job.original, job.current, _distinct(attack, job, proposals))
        for job, proposals in zip(jobs, proposed, strict=True)
    ]
    for constraint in sorted(attack.constraints, key=lambda constraint: constraint.cost):
        filled = [i for i, group in enumerate(groups) if group.candidates]
        if not filled:
            break
        verdicts = constraint.keep([groups[i] for i in filled])
        for i, flags in zip(filled, verdicts, strict=True):
            pairs = zip(groups[i].candidates, flags, strict=True)
            groups[i] = groups[i]._replace(
                candidates=[candidate for candidate, flag in pairs if flag]
            )
    return [sorted(group.candidates, key=lambda candidate: candidate.columns) for group in groups]


def _distinct(attack: Attack, job: Job, proposed: Sequence[Candidate]) -> list[Candidate]:
    """Drop candidates without a change and, but for the reference, repeated ones."""
    changed = [candidate for candidate in proposed if candidate.columns != job.current.columns]
    if attack.compat.repeats_candidates:
        return changed
    return list({candidate.columns: candidate for candidate in reversed(changed)}.values())
