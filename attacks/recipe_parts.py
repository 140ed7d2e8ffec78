"""The parts that recipes share: pre-constraints, sentence similarity, fluency."""

from typing import Literal, TypeVar

from attacks.composition import Constraint, PreConstraint
from attacks.constraints.preconstraints import (
    REFERENCE,
    Columns,
    RepeatModification,
    StopWords,
)
from attacks.recipe_settings import RecipeSettings
from attacks.resources.catalogue import Resources
from attacks.resources.stop_words import StopWordList

Number = TypeVar("Number", int, float)

NO_COUNTERPART = "it has no such attack"
OTHER_ENCODER = "another sentence encoder; ours is calibrated"
"""Of TextAttack 0.3.11, in the tables `DIFFERS` and `REFUSED` of the recipes."""


def pre_constraints(
    resources: Resources,
    settings: RecipeSettings,
    stop_words: StopWordList = "english",
    *,
    keeps_premise: bool = False,
) -> list[PreConstraint]:
    """Returns the pre-constraints: no word twice, no stop words, no texts that a task gives.

    Args:
        resources: have the stop words.
        settings: of the recipe.
        stop_words: name of the list, for English.
        keeps_premise: True if the reference's recipe keeps the premise.
    """
    reference = settings.compat == "textattack"
    found: list[PreConstraint] = [
        RepeatModification(),
        StopWords(resources.stop_words(settings.language or stop_words), ignore_case=not reference),
    ]
    if settings.columns is not None or not reference:
        found.append(Columns(settings.columns))
    elif keeps_premise:
        found.append(Columns(tasks=REFERENCE))
    return found


def sentence_similarity(
    resources: Resources,
    settings: RecipeSettings,
    recipe: str,
    *,
    window: int | None = 15,
    against: Literal["original", "current"] = "original",
) -> list[Constraint]:
    """Returns the sentence encoder of a recipe with its threshold; nothing where that is 0.

    The threshold is the published one, calibrated for the encoder that is there
    (docs/attacks/similarity.md), also in `compat`.
    """
    if settings.similarity == 0:
        return []
    from attacks.constraints.sentence_similarity import SentenceSimilarity
    from attacks.resources.thresholds import PUBLISHED, minimum

    encoder = resources.sentence_encoder()
    least = settings.similarity
    return [
        SentenceSimilarity(
            encoder,
            minimum(recipe, encoder.name) if least is None else least,
            window=window,
            metric=PUBLISHED[recipe].metric,
            against=against,
            compat=settings.compat,
        )
    ]


def given(value: Number | None, default: Number) -> Number:
    """Returns the value that was asked for, or the published one."""
    return default if value is None else value


def fluency(
    resources: Resources,
    settings: RecipeSettings,
    *,
    drop: float | None = None,
    top: int | None = None,
) -> list[Constraint]:
    """Returns the language model of a recipe; nothing where `settings.fluency` is 0.

    Args:
        resources: have the masked language model.
        settings: of the recipe; its `fluency` replaces `drop`.
        drop: nats that a word may lose.
        top: words that are kept in a place.
    """
    if settings.fluency == 0:
        return []
    from attacks.constraints.fluency import Fluency

    model, tokenizer = resources.masked_lm()
    return [
        Fluency(
            model, tokenizer, drop=drop if settings.fluency is None else settings.fluency, top=top
        )
    ]
