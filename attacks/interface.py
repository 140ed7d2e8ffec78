"""Attacks a text classifier with one call."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attacks.compat import CompatName
from attacks.composition import Attack
from attacks.engine import Engine, Limits, longest_first
from attacks.ensemble import Ensemble, engine_of
from attacks.goals import Evade, Force, Goal, Score, Targeted, Untargeted, make_goal
from attacks.journal import Journal
from attacks.outcome import AttackRecord, Sample
from attacks.progress import CountedVictim, Progress
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import OPTIONAL, WORST, build, is_ensemble, recipes_of
from attacks.samples import SampleLike, as_samples
from attacks.summary import Summary, summarise, table
from attacks.task_goals import task_of
from attacks.victims.kinds import Victim, as_victim
from attacks.victims.labels_only import check_search

_OF_PARTS = (*("resources", "vectors", "sentence_encoder", "masked_lm"), *(*OPTIONAL, "language"))
"""Settings that the parts of a composed attack have already."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of an attack; printed, it is a table.

    Attributes:
        name: name of the attack.
        records: one per sample, by sample id.
        summary: the figures.
    """

    name: str
    records: list[AttackRecord]
    summary: Summary

    def __str__(self) -> str:
        return table({self.name: self.summary})


def retarget(
    composed: Attack,
    *,
    target: int | None = None,
    score: Score | None = None,
    compat: CompatName | None = None,
) -> Attack:
    """Give a composed attack another target or score; None keeps its own.

    Raises:
        ValueError: it was made with another `compat`, or its goal cannot score otherwise.
    """
    if compat not in (None, composed.compat):
        msg = (
            f"got compat={compat!r} for the composed attack {composed.name}, whose compat is "
            f"{str(composed.compat)!r}, expected the same: its parts have it, too; compose it anew"
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
    samples: Iterable[SampleLike],
    *,
    recipe: str | RecipeSettings | Attack = "textfooler",
    tokenizer: Any = None,
    target: int | None = None,
    goal: Goal | None = None,
    in_flight: int = 128,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    path: str | Path | None = None,
    progress: bool = True,
    surrogate: Any = None,
    **settings: Any,
) -> Outcome:
    """Attack a text classifier.

    Args:
        model: a module of ours, a `transformers` model with its `tokenizer`, a function from a list
            of texts (or pairs) to logits `[texts, classes]`, or a victim (`attacks.victims.kinds`).
        samples: texts (or pairs) with their gold classes, or rows of a data set; numbered as they
            come. See `attacks.samples`.
        recipe: name of a recipe (`attacks.recipes`), its settings, a composed attack, or `worst` or
            `worst:NAME,NAME` (`attacks.ensemble`).
        tokenizer: of a `transformers` model.
        target: class to reach; any but the gold one, or the goal of a composed attack, if None.
        goal: another goal (`attacks.goals`), as `Evade(positive=1)` for the detections of class 1;
            needed for a victim other than a classifier (`attacks.task_goals`).
        in_flight: see `Limits`.
        seed: of the random numbers.
        columns: names of the texts of a pair: `("premise", "hypothesis")` leaves the premise alone.
        class_names: of the classes, for the records; those that the model knows if None.
        path: file for the records; each is written at once. A later call with this file leaves its
            samples out. It asks the victim about their texts once more, and refuses other answers.
        progress: show a bar where standard error is a terminal.
        surrogate: another classifier of the same classes, which ranks words and candidates without
            queries to the model; a `transformers` model as `attacks.HuggingFaceVictim`.
        settings: of `RecipeSettings`, as `query_budget=100`. Parts of a composed attack have their
            resources and `compat` already; without a score, it keeps its own.

    Raises:
        ValueError: no samples, two of the same id, an unknown recipe, settings that a composed
            attack cannot have, or a file of another victim, other samples or other settings.
        VictimError: the victim failed.
    """
    numbered, columns = as_samples(samples, columns)
    helper = None if surrogate is None else as_victim(surrogate)
    if helper is not None:
        settings["surrogate"] = helper.name
    chosen, composed = _compose(recipe, target, settings)
    composed = [_complete(part, numbered, goal=goal, helper=helper) for part in composed]
    limits = Limits(
        query_budget=chosen.query_budget,
        budget_per_word=chosen.budget_per_word,
        in_flight=in_flight,
    )
    victim = as_victim(model, tokenizer=tokenizer, batch_size=chosen.batch_size)
    for one in composed:
        check_search(one, victim)
    if class_names is None:
        class_names = getattr(victim, "class_names", ())
    engine = engine_of(
        composed, victim, limits=limits, seed=seed, columns=columns, class_names=class_names
    )
    title = composed[0].name if len(composed) == 1 else WORST
    records = _run(engine, numbered, title, path=path, in_flight=in_flight, progress=progress)
    names: dict[type, str] = {Evade: "evade", Force: "force"}
    aim = engine.attack.goal
    task = task_of(victim)
    summary = summarise(records, score=aim.score, goal=names.get(type(aim)), task=task)
    return Outcome(name=title, records=records, summary=summary)


def _compose(
    recipe: str | RecipeSettings | Attack, target: int | None, settings: Mapping[str, Any]
) -> tuple[RecipeSettings, list[Attack]]:
    """Return the settings of an attack, and the attack, or all those of an ensemble."""
    if isinstance(recipe, Attack):
        chosen = RecipeSettings(recipe=recipe.name, **settings)
        return chosen, [_with(recipe, chosen, target=target, compat=settings.get("compat"))]
    chosen = RecipeSettings(recipe=recipe) if isinstance(recipe, str) else recipe
    chosen = replace(chosen, **settings)
    goal = make_goal(target, score=chosen.score, compat=chosen.compat)
    names = recipes_of(chosen.recipe) if is_ensemble(chosen.recipe) else [chosen.recipe]
    return chosen, [build(replace(chosen, recipe=name), goal=goal) for name in names]


def _complete(
    composed: Attack, samples: Sequence[Sample], *, goal: Goal | None, helper: Victim | None
) -> Attack:
    """Return an attack with a goal, the victim that ranks for it, and the texts it learns from."""
    aimed = composed if goal is None else composed.aiming(goal)
    texts = [(sample.text, sample.label) for sample in samples]
    if helper is not None:
        aimed = aimed.assisted(lambda _: helper)
    return aimed.certified(None, None).learn(lambda: texts)


def _run(
    engine: Engine | Ensemble,
    samples: Sequence[Sample],
    title: str,
    *,
    path: str | Path | None,
    in_flight: int,
    progress: bool,
) -> list[AttackRecord]:
    """Attack the samples that have no record in a file yet; return all records by sample id."""
    with ExitStack() as stack:
        # Refuses a file whose settings differ, before anything is asked.
        journal = None if path is None else stack.enter_context(Journal(path, engine.about()))
        records = {} if journal is None else _former(journal, engine, samples)
        remaining = [sample for sample in samples if sample.sample_id not in records]
        before = list(records.values())
        bar = Progress(len(remaining), title, before=before, visible=progress)
        stack.callback(bar.close)
        engine.victim = CountedVictim(engine.victim, bar.asked)
        # The order changes the speed and no record.
        for record in engine.run(longest_first(remaining, in_flight)):
            records[record.sample_id] = record
            if journal is not None:
                journal.add(record)
            bar.add(record)
    return [records[sample_id] for sample_id in sorted(s.sample_id for s in samples)]


def _former(
    journal: Journal, engine: Engine | Ensemble, samples: Sequence[Sample]
) -> dict[int, AttackRecord]:
    """Return the records of a former start, by sample; raise ValueError for another victim's."""
    records = journal.of(samples)
    if (strange := engine.find_contradiction(records.values())) is not None:
        msg = (
            f"got {journal.path} of another victim: {strange}; expected the victim that its "
            "records were made with: give another path"
        )
        raise ValueError(msg)
    # Records of a former start prove that the victim can answer.
    engine.answered = any(record.outcome != "error" for record in records.values())
    return records


def _with(
    composed: Attack, chosen: RecipeSettings, *, target: int | None, compat: CompatName | None
) -> Attack:
    """Return a composed attack with the settings that it can have; see `retarget`."""
    for name in _OF_PARTS:
        if (value := getattr(chosen, name)) is not None:
            msg = (
                f"got {name}={value!r} and the composed attack {composed.name}, whose "
                f"parts have theirs, expected one or the other: leave {name} out"
            )
            raise ValueError(msg)
    return retarget(composed, target=target, score=chosen.score, compat=compat)
