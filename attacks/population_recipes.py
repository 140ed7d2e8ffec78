"""Recipes that search with a population of texts, and one that asks for classes only."""

from attacks.composition import Attack, Constraint
from attacks.constraints import PartOfSpeech, WordDistance, WordsChanged, WordSimilarity
from attacks.constraints.preconstraints import RepeatModification
from attacks.recipe_parts import NO_COUNTERPART, fluency, given, pre_constraints
from attacks.recipe_settings import RecipeSettings
from attacks.resources.catalogue import Resources
from attacks.strategies import Genetic, HardLabel, Swarm
from attacks.transformations import EmbeddingSwap, WordNetSwap


def alzantot(resources: Resources, settings: RecipeSettings) -> Attack:
    """Alzantot et al., "Generating Natural Language Adversarial Examples", 2018."""
    return _genetic(
        "alzantot",
        resources,
        settings,
        # Of the 8 neighbours the 4 that a language model finds likeliest. Paper and code have one
        # of the "1 Billion Words"; the reference the same; here it is the masked language model.
        fluency(resources, settings, top=4),
        # The code draws 20 generations, and so do the reference and this. Its class has 20
        # neighbours and the 5 likeliest of them by default, where the paper has 8 and 4.
        Genetic(population=60, generations=20),
        drift=True,
    )


def faster_alzantot(resources: Resources, settings: RecipeSettings) -> Attack:
    """Jia et al., "Certified Robustness to Adversarial Word Substitutions", 2019, appendix A.3.

    Distances are measured from the original words, so that meaning cannot drift, and the language
    model may lose 5 nats in a window of 6 words. The paper computes both once for the original
    text; reference and this, for each change.
    """
    return _genetic(
        "faster-alzantot",
        resources,
        settings,
        fluency(resources, settings, drop=5.0),
        Genetic(population=60, generations=40),
    )


def iga(resources: Resources, settings: RecipeSettings) -> Attack:
    """Wang, Jin, He, "Natural Language Adversarial Attack and Defense in Word Level", 2019."""
    neighbours = resources.neighbours()
    return Attack(
        name="iga",
        transformation=EmbeddingSwap(neighbours, given(settings.candidates, 50)),
        # M = 20 generations of S = 60; a word may change five times.
        search=Genetic(population=60, generations=20, crossover="point", changes=5),
        # A word may change again: there is no RepeatModification.
        pre_constraints=[
            one
            for one in pre_constraints(resources, settings)
            if not isinstance(one, RepeatModification)
        ],
        constraints=[
            WordsChanged(share=0.2),
            WordDistance(neighbours.vectors, 0.5, against="current"),
        ],
    )


def pso(resources: Resources, settings: RecipeSettings) -> Attack:
    """Zang et al., "Word-level Textual Adversarial Attacking as Combinatorial Optimization", 2020.

    The paper replaces words by those with the same sememes in HowNet, and so does the reference,
    with a list that it downloads. HowNet is not among our resources: words are replaced by the
    synonyms of WordNet, the paper's own comparison (section 5.3). The code counts a success only
    with at most a quarter of the words changed; neither the reference nor this does.
    """
    return Attack(
        name="pso",
        transformation=WordNetSwap(resources.wordnet()),
        search=Swarm(population=60, generations=20),
        pre_constraints=pre_constraints(resources, settings),
    )


def hard_label(resources: Resources, settings: RecipeSettings) -> Attack:
    """Maheshwary et al., "Generating Natural Language Attacks in a Hard Label Setting", 2021.

    The reference has no such attack. Neighbours and constraints are TextFooler's, as in the paper.
    The code changes nouns, verbs, adjectives and adverbs of three letters and more, and chooses
    texts by their sentence similarity; here it is the number of changed words.
    """
    neighbours = resources.neighbours()
    return Attack(
        name="hard-label",
        transformation=EmbeddingSwap(neighbours, given(settings.candidates, 50)),
        search=HardLabel(),
        pre_constraints=pre_constraints(resources, settings, "textfooler"),
        constraints=[
            WordSimilarity(neighbours.vectors, given(settings.word_similarity, 0.5)),
            PartOfSpeech(resources.tagger()),
        ],
    )


def _genetic(
    name: str,
    resources: Resources,
    settings: RecipeSettings,
    model: list[Constraint],
    search: Genetic,
    *,
    drift: bool = False,
) -> Attack:
    """Builds Alzantot's attack or its faster version.

    Args:
        name: of the recipe.
        resources: vectors and language model.
        settings: of the recipe.
        model: the language model as a constraint.
        search: the genetic search.
        drift: distances are those from the current word, not from the original one.
    """
    neighbours = resources.neighbours()
    return Attack(
        name=name,
        transformation=EmbeddingSwap(neighbours, given(settings.candidates, 8)),
        search=search,
        pre_constraints=pre_constraints(resources, settings),
        constraints=[
            # At most 20 % of the words; children keep that here, and not in the reference.
            WordsChanged(share=0.2),
            WordDistance(neighbours.vectors, 0.5, against="current" if drift else "original"),
            *model,
        ],
    )


RECIPES = {
    "alzantot": alzantot,
    "faster-alzantot": faster_alzantot,
    "iga": iga,
    "pso": pso,
    "hard-label": hard_label,
}
HAS: dict[str, tuple[str, ...]] = {
    "alzantot": ("candidates", "fluency"),
    "faster-alzantot": ("candidates", "fluency"),
    "iga": ("candidates",),
    "hard-label": ("candidates", "word_similarity"),
}
_AGAIN = "it bills a text for each member with it"
REFUSED = {
    "alzantot": f"it has a language model of the 1 Billion Words, and {_AGAIN}",
    "faster-alzantot": f"it has a language model of films, and {_AGAIN}",
    "iga": f"it begins with a member for each stop word, too, and {_AGAIN}",
    "pso": f"it takes words from HowNet, and {_AGAIN}",
    "hard-label": NO_COUNTERPART,
}
NEEDS: dict[str, tuple[str, ...]] = {
    "alzantot": ("neighbours", "masked-lm"),
    "faster-alzantot": ("neighbours", "masked-lm"),
    "iga": ("neighbours",),
    "pso": ("wordnet",),
    "hard-label": ("neighbours", "tagger"),
}
