"""The parts that recipes are composed of, with the settings of one attack."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from attacks.compat import Compat
from attacks.composition import Attack, Constraint, PreConstraint, Search, Transformation
from attacks.constraints import PartOfSpeech, WordDistance, WordSimilarity
from attacks.constraints.preconstraints import REFERENCE, Columns, RepeatModification, StopWords
from attacks.goals import Goal, Untargeted
from attacks.recipe_settings import Language, RecipeSettings
from attacks.resources.catalogue import Resources
from attacks.resources.thresholds import PublishedThreshold, find_threshold
from attacks.search import Greedy
from attacks.strategies import WholeTexts
from attacks.transformations import EmbeddingSwap, WordNetSwap
from attacks.transformations.noise import Noise, RandomNoise
from attacks.transformations.variants import Variant, Variants
from text.bounded_files import DataError, brief, read_text, reading
from text.stop_words import StopWordList

if TYPE_CHECKING:
    from attacks.transformations.inserted_words import Side
    from attacks.victims.distribution_settings import CausalLM

Number = TypeVar("Number", int, float)


class RecipeParts:
    """Makes the parts of a recipe.

    Numbers in the calls are the published ones: a setting of the user replaces them, and `compat`
    reaches each part.
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
        """Return the attack that parts make; see `Attack`.

        The settings `ranking` and `shortlist` change a greedy search, which needs gradients if it
        ranks by them.
        """
        if isinstance(search, Greedy):
            ranking = self.settings.ranking or search.ranking
            search = replace(search, ranking=ranking, shortlist=self.settings.shortlist)
            white_box = ranking == "gradient"
        return Attack(
            name=self.settings.recipe,
            transformation=transformation,
            search=search,
            goal=goal or Untargeted(),
            pre_constraints=pre_constraints,
            constraints=constraints,
            compat=self.compat,
            white_box=white_box,
            surrogate=self.settings.surrogate,
            cut=self.resources.cut(self.language),
        )

    def whole_texts(self, variants: Sequence[Variant]) -> Attack:
        """Return the attack that writes texts in several ways; the setting `variants` selects some.

        Raises:
            ValueError: the setting names another way.
        """
        chosen = self._chosen([variant.name for variant in variants])
        used = [variant for variant in variants if variant.name in chosen]
        words = not all(variant.indivisible for variant in used)
        return self.attack(
            transformation=Variants(used),
            search=WholeTexts(stages=len(used), words=words),
            # Stop words may change as well: a reader needs them least.
            pre_constraints=self.columns(),
        )

    def random_noise(self, kinds: Sequence[Noise], *, share: float) -> Attack:
        """Return the attack by random noise; `variants` selects some kinds, `p` is their share.

        Raises:
            ValueError: `variants` names another kind.
        """
        chosen = self._chosen([kind.name for kind in kinds])
        used = [kind for kind in kinds if kind.name in chosen]
        return self.attack(
            transformation=RandomNoise(used, _choose(self.settings.p, share)),
            # One text of each kind, as it was drawn: the noise is the attack.
            search=WholeTexts(stages=len(used), words=False),
            pre_constraints=self.columns(),
        )

    def _chosen(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of the setting `variants`, all names without it."""
        chosen = names if self.settings.variants is None else self.settings.variants
        if not chosen or (strange := sorted({*chosen} - {*names})):
            msg = (
                f"got variants {', '.join(strange) if chosen else 'without a name'} for "
                f"{self.settings.recipe}, expected some of {', '.join(names)}"
            )
            raise ValueError(msg)
        return chosen

    def candidates(self, published: int) -> int:
        """Return the number of replacements that are tried for a word."""
        return _choose(self.settings.candidates, published)

    def pool(self) -> list[str] | None:
        """Return the words or texts of the setting `pool`; None without it.

        Raises:
            DataError: the file cannot be read, or has no words.
        """
        path = self.settings.pool
        return None if path is None else _lines(path, "a word or a text on each line")

    def translations(self) -> dict[str, list[str]]:
        """Return the translations of each text, of the file of the setting `translations`.

        Raises:
            DataError: the file cannot be read, or a line has no tab.
            ValueError: no file.
        """
        path = self.settings.translations
        expected = "a text, a tab and its translation on each line"
        if path is None:
            msg = (
                f"got no translations, expected a file with {expected}: --attack.translations FILE"
            )
            raise ValueError(msg)
        pairs: dict[str, list[str]] = {}
        for line in _lines(path, expected):
            text, tab, translation = line.partition("\t")
            if not tab or not translation.strip():
                msg = f"{path}: got the line {brief(line, 80)}, expected {expected}"
                raise DataError(msg)
            pairs.setdefault(text.strip(), []).append(translation.strip())
        return pairs

    def paraphrases(self) -> dict[str, list[str]]:
        """Return the paraphrases of each text, of the file of the setting `paraphrases`.

        Raises:
            DataError: not such a file.
            ValueError: no file.
        """
        from attacks.resources.paraphrases import read_paraphrases

        if self.settings.paraphrases is None:
            msg = (
                "got no paraphrases, expected a file that `steadfast resources paraphrases` has "
                "written: --attack.paraphrases FILE"
            )
            raise ValueError(msg)
        return read_paraphrases(self.settings.paraphrases)

    def causal_lm(self) -> "CausalLM | None":
        """Return the language model of the setting `causal_lm`; None without it.

        Raises:
            ValueError: it cannot be loaded, or is not causal.
        """
        path = self.settings.causal_lm
        if path is None:
            return None
        from attacks.validity.fluency import ModelFluency
        from attacks.victims.distribution_settings import CausalLM
        from text.token_pieces import read_pieces

        loaded = ModelFluency.load(path)
        backend = getattr(loaded.tokenizer, "backend_tokenizer", None)
        if loaded.masked or backend is None:
            msg = (
                f"got {path}, a masked language model or a slow tokenizer, expected a causal one "
                "with a fast tokenizer: --attack.causal_lm FOLDER"
            )
            raise ValueError(msg)
        return CausalLM(loaded.model, read_pieces(backend))

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

        A word may lose `drop` nats, or the setting `fluency`; `top` words are kept at a position.
        """
        loss = self.settings.fluency
        if loss == 0:
            return []
        from attacks.constraints.fluency import Fluency

        return [Fluency(*self.resources.masked_lm(), drop=drop if loss is None else loss, top=top)]


def _lines(path: str, expected: str) -> list[str]:
    """Return the lines of a file that are not empty."""
    with reading(path, expected):
        read = [line.strip() for line in read_text(Path(path)).split("\n")]
    lines = [line for line in read if line]
    if not lines:
        msg = f"{path}: got an empty file, expected {expected}"
        raise DataError(msg)
    return lines


def _choose(setting: Number | None, published: Number) -> Number:
    return published if setting is None else setting
