"""One call for everything: attack whatever answers texts with numbers."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks.composition import Attack, Compat
from attacks.engine import Engine, Limits
from attacks.goals import Goal, Score, Targeted, Untargeted
from attacks.journal import Journal
from attacks.progress import Progress, Watched
from attacks.records import AttackRecord
from attacks.samples import Given, as_samples
from attacks.summary import Summary, summarise, table
from attacks.victims import as_victim


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


def attack(
    model: Any,
    samples: Iterable[Given],
    *,
    recipe: str | Attack = "textfooler",
    tokenizer: Any = None,
    target: int | None = None,
    score: Score | None = None,
    compat: Compat = "none",
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
            of texts (or pairs) to logits `[texts, classes]`, or a victim (`attacks.victims`).
        samples: texts (or pairs) with their gold classes, or rows of a data set; numbered as they
            come. See `attacks.samples`.
        recipe: name of a recipe (`attacks.recipes.RECIPES`), or a composed attack.
        tokenizer: of a `transformers` model.
        target: class to reach; any but the gold one if None.
        score: `margin` or `probability`; see `attacks.goals`.
        compat: `textattack` reproduces the reference's behaviour.
        resources: folder with word vectors, WordNet and the like; see `attacks.resources`.
        limits: query budget, and samples that share a round.
        batch_size: texts per forward pass.
        seed: of the random numbers.
        columns: names of the texts of a pair: `("premise", "hypothesis")` leaves the premise alone.
        path: file that takes each record as it is made; given again, the samples in it are left
            out, so that a victim that failed costs nothing but the sample it failed on.
        progress: show a bar where standard error is a terminal.

    Raises:
        ValueError: no samples, two of the same id, an unknown recipe, or a file of other settings.
        VictimError: the victim failed.
    """
    numbered, columns = as_samples(samples, columns)
    goal = make_goal(target, score=score, compat=compat)
    if isinstance(recipe, str):
        from attacks import recipes
        from attacks.resources import Resources

        composed = recipes.build(recipe, Resources(resources), compat=compat, goal=goal)
    else:
        composed = recipe
    about = {
        "attack": composed.name,
        "compat": composed.compat,
        "goal": repr(composed.goal),
        "query_budget": limits.query_budget if limits else None,
        "budget_per_word": limits.budget_per_word if limits else None,
        "seed": seed,
        "columns": list(columns),
    }
    victim = as_victim(model, tokenizer=tokenizer, batch_size=batch_size)
    with ExitStack() as stack:
        journal = None if path is None else stack.enter_context(Journal(path, about))
        records = {one.sample_id: one for one in journal.records} if journal else {}
        left = [one for one in numbered if one.sample_id not in records]
        bar = Progress(len(left), composed.name, before=list(records.values()), wanted=progress)
        stack.callback(bar.close)
        watched = Watched(victim, bar.asked)
        engine = Engine(composed, watched, limits=limits, seed=seed, columns=columns)
        for record in engine.run(left):
            records[record.sample_id] = record
            if journal is not None:
                journal.add(record)
            bar.add(record)
    found = [records[one.sample_id] for one in sorted(numbered, key=lambda one: one.sample_id)]
    return Outcome(
        name=composed.name, records=found, summary=summarise(found, score=composed.goal.score)
    )
