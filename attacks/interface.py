"""One call for everything: attack whatever answers texts with numbers."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attacks.composition import Attack, Compat
from attacks.engine import Engine, Limits
from attacks.goals import Goal, Score, Targeted, Untargeted
from attacks.journal import Journal
from attacks.outcome import AttackRecord
from attacks.progress import Progress, Watched
from attacks.samples import Given, as_samples
from attacks.summary import Summary, summarise, table
from attacks.victims.kinds import as_victim


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of an attack; printed, it is a table.

    Attributes:
        name: of the attack.
        records: one per sample, by sample id.
        summary: the figures.
    """

    name: str
    records: list[AttackRecord]
    summary: Summary

    def __str__(self) -> str:
        return table({self.name: self.summary})


def make_goal(
    target: int | None = None, *, score: Score | None = None, compat: Compat = "none"
) -> Goal:
    """The goal of an attack.

    Args:
        target: the class to reach; any but the gold one if None.
        score: see `attacks.goals`; `margin` if None, and `probability` for the reference's.
        compat: of the attack.
    """
    score = score or ("probability" if compat == "textattack" else "margin")
    return Untargeted(score=score) if target is None else Targeted(target=target, score=score)


def changed(
    composed: Attack,
    *,
    target: int | None = None,
    score: Score | None = None,
    compat: Compat | None = None,
) -> Attack:
    """Give a composed attack another target or score.

    Args:
        composed: the attack.
        target: class to reach; what it is after if None.
        score: what its goal scores by; as it does if None.
        compat: what it has to be made with; anything if None.

    Raises:
        ValueError: it was made with another `compat`, or its goal cannot score otherwise.
    """
    if compat not in (None, composed.compat):
        msg = (
            f"got compat={compat!r} for the composed attack {composed.name}, whose compat is "
            f"{composed.compat!r}, expected the same: its parts have it, too; compose it anew"
        )
        raise ValueError(msg)
    goal = composed.goal
    if target is not None:
        return composed.aiming(Targeted(target=target, score=score or goal.score))
    if score in (None, goal.score):
        return composed
    if not isinstance(goal, Untargeted | Targeted):
        msg = (
            f"got score={score!r} for the composed attack {composed.name}, whose goal is a "
            f"{type(goal).__name__}, expected Untargeted or Targeted: give that another score"
        )
        raise ValueError(msg)
    return composed.aiming(replace(goal, score=score))


def attack(
    model: Any,
    samples: Iterable[Given],
    *,
    recipe: str | Attack = "textfooler",
    tokenizer: Any = None,
    target: int | None = None,
    score: Score | None = None,
    compat: Compat | None = None,
    resources: str | Path | None = None,
    limits: Limits | None = None,
    batch_size: int = 256,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    progress: bool = True,
) -> Outcome:
    """Attack a text classifier.

    Args:
        model: a module of ours, a `transformers` model with its `tokenizer`, a function from a list
            of texts (or pairs) to logits `[texts, classes]`, or a victim (`attacks.victims.kinds`).
        samples: texts (or pairs) with their gold classes, or rows of a data set; numbered as they
            come. See `attacks.samples`.
        recipe: name of a recipe (`attacks.recipes.RECIPES`), or a composed attack.
        tokenizer: of a `transformers` model.
        target: class to reach; any but the gold one if None, or what a composed attack is after.
        score: `margin` or `probability`; see `attacks.goals`. That of a composed attack if None.
        compat: `textattack` reproduces the reference's behaviour. Parts of a composed attack have
            theirs already, and so it cannot be another one.
        resources: folder with word vectors, WordNet and the like; see
            `attacks.resources.catalogue`. Not for a composed attack.
        limits: query budget, and samples that share a round.
        batch_size: texts per forward pass.
        seed: of the random numbers.
        columns: names of the texts of a pair: `("premise", "hypothesis")` leaves the premise alone.
        path: file that takes each record as it is made; given again, the samples in it are left
            out, so that a victim that failed costs nothing but the sample it failed on. The victim
            is asked about their texts once more, and refused if it answers otherwise.
        progress: show a bar where standard error is a terminal.

    Raises:
        ValueError: no samples, two of the same id, an unknown recipe, settings that a composed
            attack cannot have, or a file of another victim, other samples or other settings.
        VictimError: the victim failed.
    """
    numbered, columns = as_samples(samples, columns)
    if isinstance(recipe, str):
        from attacks import recipes
        from attacks.resources.catalogue import Resources

        goal = make_goal(target, score=score, compat=compat or "none")
        composed = recipes.build(recipe, Resources(resources), compat=compat or "none", goal=goal)
    else:
        if resources is not None:
            msg = (
                f"got resources={str(resources)!r} and the composed attack {recipe.name}, whose "
                "parts have theirs, expected one or the other: leave resources out"
            )
            raise ValueError(msg)
        composed = changed(recipe, target=target, score=score, compat=compat)
    victim = as_victim(model, tokenizer=tokenizer, batch_size=batch_size)
    engine = Engine(composed, victim, limits=limits, seed=seed, columns=columns)
    with ExitStack() as stack:
        journal: Journal | None = None
        records: dict[int, AttackRecord] = {}
        if path is not None:
            journal = stack.enter_context(Journal(path, engine.about()))
            records = journal.of(numbered)
            if (strange := engine.otherwise(records.values())) is not None:
                msg = (
                    f"got {path} of another victim: {strange}; expected the victim that its "
                    "records were made with: give another path"
                )
                raise ValueError(msg)
        left = [one for one in numbered if one.sample_id not in records]
        bar = Progress(len(left), composed.name, before=list(records.values()), wanted=progress)
        stack.callback(bar.close)
        engine.victim = Watched(victim, bar.asked)
        for record in engine.run(left):
            records[record.sample_id] = record
            if journal is not None:
                journal.add(record)
            bar.add(record)
    found = [records[one.sample_id] for one in sorted(numbered, key=lambda one: one.sample_id)]
    return Outcome(
        name=composed.name, records=found, summary=summarise(found, score=composed.goal.score)
    )
