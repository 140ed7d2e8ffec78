"""Recipes that probe a model: gradients, missing words, forms, names, numbers."""

from attacks.composition import Attack
from attacks.constraints import PartOfSpeech, WordsChanged, WordSimilarity
from attacks.constraints.preconstraints import RepeatModification
from attacks.constraints.thought_vectors import ThoughtVectors
from attacks.goals import Unchanged, Unsure, Untargeted
from attacks.recipe_parts import fluency, given, pre_constraints
from attacks.recipe_settings import RecipeSettings
from attacks.resources.catalogue import Resources
from attacks.search import Beam
from attacks.strategies import FlipBeam, RankedReduction, Reduction
from attacks.transformations import (
    Composite,
    Contract,
    DeleteWord,
    EmbeddingSwap,
    Expand,
    Inflect,
    OtherName,
    OtherNumber,
    OtherPlace,
)


def hotflip(resources: Resources, settings: RecipeSettings) -> Attack:
    """Ebrahimi et al., "HotFlip", 2018, its attack on words (section 5).

    Paper and reference take the flip with the largest gradient of all words of the victim, and then
    ask for a cosine of 0.8 and the same part of speech, which few of them have. Here the neighbours
    of a word are candidates from the start, in the order of the gradient.
    """
    neighbours = resources.neighbours()
    return Attack(
        name="hotflip",
        transformation=EmbeddingSwap(neighbours, given(settings.candidates, 50)),
        search=FlipBeam(width=10, flips=2),
        pre_constraints=pre_constraints(resources, settings),
        constraints=[
            WordsChanged(maximum=2),
            WordSimilarity(neighbours.vectors, given(settings.word_similarity, 0.8)),
            PartOfSpeech(resources.tagger(), allow_verb_noun_swap=False),
        ],
        white_box=True,
    )


def input_reduction(resources: Resources, settings: RecipeSettings) -> Attack:
    """Feng et al., "Pathologies of Neural Models Make Interpretations Difficult", 2018.

    It succeeds where a word can go and the prediction stays; the figure that counts is the share of
    words that went. Paper and code rank the words anew after each step, by the gradient, with a
    beam of 5, and so does this; without gradients it leaves out each word. Code and AllenNLP differ
    in the weight of a token: the code takes the product of the gradient and the embedding, AllenNLP
    the gradient's L2 norm, with a beam of 3; here it is the L1 norm of the word's mean gradient.
    The reference ranks the words once, by what the score loses without them.
    """
    reference = settings.compat == "textattack"
    kept = (
        part
        for part in pre_constraints(resources, settings)
        if type(part).__name__ not in ("StopWords", "RepeatModification")
    )
    return Attack(
        name="input-reduction",
        transformation=DeleteWord(compat=settings.compat),
        search=RankedReduction() if reference else Reduction(width=5),
        goal=Unchanged(),
        pre_constraints=[*kept],
        compat=settings.compat,
    )


def kuleshov(resources: Resources, settings: RecipeSettings) -> Attack:
    """Kuleshov et al., "Adversarial Examples for Natural Language Classification Problems", 2018.

    The paper looks for another class with a probability of 0.7. In the reference it is enough that
    the gold class has less than 0.7, also where it is still predicted; here an attack ends with the
    first wrong prediction. Paper and this bound the distance of thought vectors by 0.2, the
    reference its square. The language model may lose 2 nats; that of the reference is GPT-2.
    """
    compat, neighbours = settings.compat, resources.neighbours()
    goal = Unsure(bound=0.7) if compat == "textattack" else Untargeted()
    return Attack(
        name="kuleshov",
        transformation=EmbeddingSwap(neighbours, given(settings.candidates, 15), compat=compat),
        search=Beam(width=1),
        goal=goal,
        pre_constraints=pre_constraints(resources, settings),
        constraints=[
            WordsChanged(share=0.5, compat=compat),
            ThoughtVectors(neighbours.vectors, 0.2, compat=compat),
            *fluency(resources, settings, drop=2.0),
        ],
        compat=compat,
    )


def checklist(resources: Resources, settings: RecipeSettings) -> Attack:
    """Ribeiro et al., "Beyond Accuracy: Behavioral Testing of NLP Models with CheckList", 2020.

    Changes that should leave the prediction as it is: names, places, numbers, contractions. The
    paper tests many texts with one change each; the reference and this look for a change that
    matters. Stop words change, too: contractions are made of them.
    """
    kept = (
        one
        for one in pre_constraints(resources, settings)
        if type(one).__name__ not in ("StopWords", "RepeatModification")
    )
    return Attack(
        name="checklist",
        transformation=Composite([Expand(), Contract(), OtherName(), OtherNumber(), OtherPlace()]),
        search=Beam(width=1),
        pre_constraints=[RepeatModification(), *kept],
    )


def morpheus(resources: Resources, settings: RecipeSettings) -> Attack:
    """Tan et al., "It's Morphin' Time!", 2020: other inflected forms of words.

    Paper and reference attack translation, with BLEU as the goal; here it is the class.
    """
    return Attack(
        name="morpheus",
        transformation=Inflect(resources.inflected()),
        search=Beam(width=1),
        pre_constraints=pre_constraints(resources, settings),
    )


RECIPES = {
    "hotflip": hotflip,
    "input-reduction": input_reduction,
    "kuleshov": kuleshov,
    "checklist": checklist,
    "morpheus": morpheus,
}
HAS: dict[str, tuple[str, ...]] = {
    "hotflip": ("candidates", "word_similarity"),
    "kuleshov": ("candidates", "fluency"),
}
DIFFERS = {
    "input-reduction": "",
    "kuleshov": "GPT-2 as its language model, which is left out here: `fluency` has to be 0",
}
REFUSED = {
    "hotflip": "it takes the one word of the victim's vocabulary that the gradient likes best",
    "checklist": "it knows names and places by a model of named entities",
    "morpheus": "it attacks translations, with other inflected forms",
}
NEEDS: dict[str, tuple[str, ...]] = {
    "hotflip": ("neighbours", "tagger"),
    "input-reduction": (),
    "kuleshov": ("neighbours", "masked-lm"),
    "checklist": (),
    "morpheus": ("wordnet",),
}
