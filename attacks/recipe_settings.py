"""What all recipes share: their settings, and which words they leave alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from attacks.composition import Attack, Compat, Constraint, PreConstraint
from attacks.constraints.preconstraints import REFERENCE, Columns, RepeatModification, StopWords
from attacks.goals import Goal, Untargeted
from attacks.resources.catalogue import Resources


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be changed of a recipe; None leaves it as published.

    Attributes:
        compat: `textattack` reproduces the reference, its faults included.
        goal: what the attack is after.
        candidates: replacements that are tried for a word (those by neighbours or by a masked
            language model).
        word_similarity: least cosine between the vectors of a word and its replacement.
        similarity: least similarity of sentences; 0 does without a sentence encoder.
        columns: texts of a pair that are rewritten; see `preconstraints.Columns`.
    """

    compat: Compat = "none"
    goal: Goal = field(default_factory=Untargeted)
    candidates: int | None = None
    word_similarity: float | None = None
    similarity: float | None = None
    columns: Sequence[str] | None = None


Recipe = Callable[[Resources, Settings], Attack]
Number = TypeVar("Number", int, float)


def pre_constraints(
    settings: Settings, stop_words: frozenset[str], *, keeps_premise: bool
) -> list[PreConstraint]:
    """No word twice, no stop words, and not the texts that a task gives.

    Args:
        settings: of the recipe.
        stop_words: the list.
        keeps_premise: whether the reference's recipe leaves the premise alone.
    """
    reference = settings.compat == "textattack"
    found: list[PreConstraint] = [
        RepeatModification(),
        StopWords(stop_words, ignore_case=not reference),
    ]
    if settings.columns is not None or not reference:
        found.append(Columns(settings.columns))
    elif keeps_premise:
        found.append(Columns(tasks=REFERENCE))
    return found


def sentence_similarity(
    resources: Resources,
    settings: Settings,
    recipe: str,
    *,
    window: int | None,
    against: Literal["original", "current"],
    skip_short: bool,
) -> list[Constraint]:
    """The sentence encoder of a recipe, with its threshold; nothing where it is set to 0.

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
            skip_short=skip_short,
            compat=settings.compat,
        )
    ]


def given(value: Number | None, default: Number) -> Number:
    """What was asked for, or what was published."""
    return default if value is None else value
