"""The parts that recipes are composed of, with the settings of one attack."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from attacks.compat import Compat
from attacks.composition import Attack, Constraint, PreConstraint, Search, Transformation
from attacks.constraints import PartOfSpeech, WordDistance, WordSimilarity
from attacks.constraints.preconstraints import REFERENCE, Columns, RepeatModification, StopWords
from attacks.goals import Goal, Untargeted
from attacks.recipe_settings import Language, RecipeSettings
from attacks.resources.catalogue import Resources
from attacks.resources.thresholds import PublishedThreshold, find_threshold
from attacks.transformations import EmbeddingSwap, WordNetSwap
from text.stop_words import StopWordList

if TYPE_CHECKING:
    from attacks.transformations.inserted_words import Side

Number = TypeVar("Number", int, float)


class RecipeParts:
    """Makes the parts of a recipe.

    Numbers in the calls are the published ones: a setting of the user replaces them, and `compat`
    reaches each part.

    Args:
        resources: word vectors, WordNet, models.
        settings: of the attack.
    """

    def __init__(self, resources: Resources, settings: RecipeSettings) -> None:
        self.resources, self.settings = resources, settings
        self.compat = Compat(settings.compat)
        self.language: Language = settings.language or "english"

    def attack(
        self,
        *,
        transformation: Transformation,
        search: Search,
        pre_constraints: Sequence[PreConstraint],
        constraints: Sequence[Constraint] = (),
        goal: Goal | None = None,
        white_box: bool = False,
    ) -> Attack:
        """Return the attack that parts make; see `Attack`."""
        return Attack(
            name=self.settings.recipe,
            transformation=transformation,
            search=search,
            goal=goal or Untargeted(),
            pre_constraints=pre_constraints,
            constraints=constraints,
            compat=self.compat,
            white_box=white_box,
            cut=self.resources.cut(self.language),
        )

    def candidates(self, published: int) -> int:
        """Return the number of replacements that are tried for a word."""
        return _choose(self.settings.candidates, published)

    # Pre-constraints

    def pre_constraints(
        self, stop_words: StopWordList = "english", *, keeps_premise: bool = False
    ) -> list[PreConstraint]:
        """Return the usual ones: no word twice, no stop words, no text that the task gives."""
        return [
            RepeatModification(),
            self.stop_words(stop_words),
            *self.columns(keeps_premise=keeps_premise),
        ]

    def stop_words(self, name: StopWordList = "english") -> StopWords:
        """Return the list of the language; `name` selects one for English."""
        words = self.resources.stop_words(self.settings.language or name)
        return StopWords(words, ignore_case=not self.compat.case_sensitive_stop_words)

    def columns(self, *, keeps_premise: bool = False) -> list[PreConstraint]:
        """Return the choice of the texts of a pair; `keeps_premise`: by the reference as well."""
        columns = self.settings.columns
        if columns is not None or not self.compat.rewrites_premises:
            return [Columns(columns)]
        return [Columns(tasks=REFERENCE)] if keeps_premise else []

    # Transformations

    def embedding_swap(self, candidates: int) -> EmbeddingSwap:
        """Return the replacement by neighbours among word vectors."""
        neighbours = self.resources.neighbours()
        return EmbeddingSwap(neighbours, self.candidates(candidates), compat=self.compat)

    def wordnet_swap(self) -> WordNetSwap:
        """Return the replacement by synonyms."""
        return WordNetSwap(self.resources.wordnet(), compat=self.compat)

    def masked_swap(self, candidates: int, *, minimum_confidence: float = 0.0) -> Transformation:
        """Return the replacement by words of the masked language model."""
        from attacks.transformations.expected_words import MaskedLMSwap

        return MaskedLMSwap(
            *self.resources.masked_lm(),
            self.candidates(candidates),
            minimum_confidence=minimum_confidence,
            compat=self.compat,
        )

    def masked_insert(self, candidates: int, *, side: "Side" = "both") -> Transformation:
        """Return the insertion of words of the masked language model."""
        from attacks.transformations.inserted_words import MaskedLMInsert

        return MaskedLMInsert(
            *self.resources.masked_lm(), self.candidates(candidates), side=side, compat=self.compat
        )

    # Constraints

    def word_similarity(self, minimum: float) -> WordSimilarity:
        """Return the least cosine of a word's vector and that of its replacement."""
        minimum = _choose(self.settings.word_similarity, minimum)
        return WordSimilarity(self.resources.neighbours().vectors, minimum, compat=self.compat)

    def word_distance(
        self, maximum: float, *, against: Literal["original", "current"]
    ) -> WordDistance:
        """Return the largest squared distance of these vectors."""
        vectors = self.resources.neighbours().vectors
        return WordDistance(vectors, maximum, against=against, compat=self.compat)

    def part_of_speech(self, *, allow_verb_noun_swap: bool = True) -> PartOfSpeech:
        """Return the constraint that keeps the part of speech."""
        return PartOfSpeech(
            self.resources.tagger(), allow_verb_noun_swap=allow_verb_noun_swap, compat=self.compat
        )

    def sentence_similarity(
        self,
        published: PublishedThreshold,
        *,
        window: int | None = 15,
        against: Literal["original", "current"] = "original",
    ) -> list[Constraint]:
        """Return the sentence encoder with its threshold; nothing if the setting is 0.

        Also with `compat`, the threshold is calibrated for the encoder of the resources
        (docs/attacks/similarity.md).
        """
        minimum = self.settings.similarity
        if minimum == 0:
            return []
        from attacks.constraints.sentence_similarity import SentenceSimilarity

        encoder = self.resources.sentence_encoder()
        if minimum is None:
            # A threshold of the user is not calibrated.
            minimum = find_threshold(published, encoder.name, recipe=self.settings.recipe)
        return [
            SentenceSimilarity(
                encoder,
                minimum,
                window=window,
                metric=published.metric,
                against=against,
                compat=self.compat,
            )
        ]

    def fluency(self, *, drop: float | None = None, top: int | None = None) -> list[Constraint]:
        """Return the language model of a recipe; nothing if the setting is 0.

        Args:
            drop: nats that a word may lose; the setting `fluency` replaces it.
            top: words that are kept at a position.
        """
        loss = self.settings.fluency
        if loss == 0:
            return []
        from attacks.constraints.fluency import Fluency

        return [Fluency(*self.resources.masked_lm(), drop=drop if loss is None else loss, top=top)]


def _choose(setting: Number | None, published: Number) -> Number:
    return published if setting is None else setting
