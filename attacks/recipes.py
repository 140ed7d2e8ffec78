"""Recipes: the attacks of the literature, composed of the same parts.

A recipe is a short function from resources and settings to an attack. Its comments say where the
paper, the code released with it, and TextAttack 0.3.11 ("the reference") differ, and what is done
here; `compat="textattack"` does what the reference does.
"""

from collections.abc import Callable
from dataclasses import replace

from attacks import character_recipes, model_recipes, population_recipes, probing_recipes
from attacks.composition import Attack, Constraint, Transformation
from attacks.constraints import EditDistance, PartOfSpeech, WordSimilarity
from attacks.constraints.preconstraints import MaxModificationRate
from attacks.goals import Goal, make_goal
from attacks.recipe_parts import (
    NO_COUNTERPART,
    OTHER_ENCODER,
    given,
    pre_constraints,
    sentence_similarity,
)
from attacks.recipe_settings import RecipeSettings
from attacks.resources.catalogue import ResourceError, Resources
from attacks.search import Greedy, RandomSearch
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    EmbeddingSwap,
    Homoglyphs,
    InsertCharacter,
    InsertSpace,
    SubstituteCharacter,
    SwapCharacters,
    WordNetSwap,
)
from attacks.transformations.characters import letters_of

Recipe = Callable[[Resources, RecipeSettings], Attack]
_NUMBERS = ("candidates", "word_similarity", "similarity", "fluency")


def check_recipe(settings: RecipeSettings) -> None:
    """Checks that there is such a recipe, and that it has the settings that are given.

    Raises:
        ValueError: an unknown recipe, or a setting that it does not have.
    """
    name = settings.recipe
    if name not in RECIPES:
        msg = f"got recipe {name!r}, expected one of {', '.join(RECIPES)}"
        raise ValueError(msg)
    has = HAS.get(name, ())
    if strange := [
        one for one in _NUMBERS if getattr(settings, one) is not None and one not in has
    ]:
        msg = (
            f"got {', '.join(strange)} for {name}, expected only what it has: "
            f"{', '.join(has) or 'nothing'}"
        )
        raise ValueError(msg)
    check_compat(name, settings)


def check_compat(name: str, settings: RecipeSettings) -> None:
    """Checks that a recipe can do as the reference does, where that is asked for.

    Raises:
        ValueError: it cannot, or not with these settings.
    """
    if settings.compat != "textattack":
        return
    if name in REFUSED:
        msg = (
            f"got compat textattack for {name}, expected none (--attack.compat none): TextAttack "
            f"0.3.11 is not repeated here: {REFUSED[name]}"
        )
        raise ValueError(msg)
    if "fluency" in HAS.get(name, ()) and settings.fluency != 0:
        msg = (
            f"got compat textattack and fluency {settings.fluency} for {name}, expected fluency 0 "
            f"(--attack.fluency 0): TextAttack 0.3.11 has {DIFFERS[name]}"
        )
        raise ValueError(msg)


def build(
    settings: RecipeSettings, resources: Resources | None = None, *, goal: Goal | None = None
) -> Attack:
    """Returns the attack of some settings.

    Args:
        settings: its recipe, and what is changed of it.
        resources: word vectors and the like; those that the settings name if None.
        goal: any class but the gold one if None.

    Raises:
        ValueError: an unknown recipe, or a setting that it does not have.
        ResourceError: something is missing.
    """
    check_recipe(settings)
    name = settings.recipe
    try:
        found = resources or Resources.of(settings)
        attack = RECIPES[name](found, settings)
        if (cut := found.cut(settings.language or "english")) is not None:
            attack = replace(attack, cut=cut)
    except ResourceError as error:
        needs = [
            one
            for one in NEEDS[name]
            if not (settings.similarity == 0 and one == "sentence-encoder")
            and not (
                settings.fluency == 0 and one == "masked-lm" and "fluency" in HAS.get(name, ())
            )
        ]
        if len(needs) == 1:
            raise
        msg = f"{error}; all that {name} needs: `python -m steadfast resources {' '.join(needs)}`"
        raise ResourceError(msg) from error
    return attack.aiming(goal or make_goal(score=settings.score, compat=settings.compat))


def textfooler(resources: Resources, settings: RecipeSettings) -> Attack:
    """Jin, Jin, Zhou, Szolovits, "Is BERT Really Robust?", 2020 (TextFooler)."""
    compat = settings.compat
    neighbours = resources.neighbours()
    constraints: list[Constraint] = [
        # The paper says 0.7, its code 0.5, and so does the reference.
        WordSimilarity(neighbours.vectors, given(settings.word_similarity, 0.5), compat=compat),
        # The code tags the changed text, the reference always the original one. Here it is the
        # text as it stands, for the old and the new word alike.
        PartOfSpeech(resources.tagger(), compat=compat),
    ]
    # 0.8408 = 1 - 0.5 / pi: the code compared the angle itself with 0.5. It compares with the text
    # before each change, so that the meaning may drift; and it leaves short texts a threshold of
    # 0.1, the reference none at all.
    constraints += sentence_similarity(resources, settings, "textfooler", against="current")
    return Attack(
        name="textfooler",
        transformation=EmbeddingSwap(neighbours, given(settings.candidates, 50), compat=compat),
        # The code also adds how far the label changed to the importance of a word; the paper does
        # not say so, and neither the reference nor this does it.
        search=Greedy(ranking="delete"),
        pre_constraints=pre_constraints(resources, settings, "textfooler", keeps_premise=True),
        constraints=constraints,
        compat=compat,
    )


def textbugger(resources: Resources, settings: RecipeSettings) -> Attack:
    """Li, Ji, Du, Li, Wang, "TextBugger", 2019, its black-box attack."""
    compat = settings.compat
    # The paper asks for a cosine of 0.8; the reference uses 0.8 as angular similarity, which is a
    # cosine of 0.809. It ranks sentences before words, which neither the reference nor this does.
    constraints = sentence_similarity(resources, settings, "textbugger", window=None)
    inner = {"keep_first": True, "keep_last": True}
    return Attack(
        name="textbugger",
        transformation=Composite(
            [
                InsertSpace(),
                DeleteCharacter(**inner),
                SwapCharacters(**inner),
                # Also neighbours on the keyboard, in the paper; the reference has only these.
                Homoglyphs(),
                # GloVe in the paper; the reference and this take counter-fitted vectors.
                EmbeddingSwap(resources.neighbours(), given(settings.candidates, 5), compat=compat),
            ]
        ),
        search=Greedy(ranking="delete"),
        pre_constraints=pre_constraints(resources, settings),
        constraints=constraints,
        compat=compat,
    )


def deepwordbug(resources: Resources, settings: RecipeSettings) -> Attack:
    """Gao, Lanchantin, Soffa, Qi, "Black-box Generation of Adversarial Text Sequences", 2018."""
    letters = letters_of(settings.language or "english")
    return Attack(
        name="deepwordbug",
        # The paper makes one of these per word, and finds substitution best; the reference and this
        # try one of each and take the best.
        transformation=Composite(
            [
                SwapCharacters(),
                SubstituteCharacter(letters=letters),
                DeleteCharacter(),
                InsertCharacter(letters=letters),
            ]
        ),
        # The paper's combined score looks at the words before and behind by themselves.
        search=Greedy(ranking="unk"),
        pre_constraints=pre_constraints(resources, settings),
        constraints=[EditDistance(30)],
        compat=settings.compat,
    )


def pwws(resources: Resources, settings: RecipeSettings) -> Attack:
    """Ren, Deng, He, Che, "Generating Natural Language Adversarial Examples", 2019 (PWWS)."""
    return Attack(
        name="pwws",
        # Of the synonyms, and also named entities of other classes in the paper.
        transformation=WordNetSwap(resources.wordnet(), compat=settings.compat),
        # The paper weighs by how much a replacement changes the probability, and then replaces each
        # word by what was best in the original text. The reference weighs by the probability
        # itself, and looks for the best replacement anew, in the text as it stands. Here the change
        # is weighed, and the replacement looked for anew.
        search=Greedy(ranking="weighted-saliency"),
        pre_constraints=pre_constraints(resources, settings),
        compat=settings.compat,
    )


def bae(resources: Resources, settings: RecipeSettings) -> Attack:
    """Garg and Ramakrishnan, "BAE: BERT-based Adversarial Examples", 2020, its variant BAE-R."""
    from attacks.transformations.expected_words import MaskedLMSwap

    compat = settings.compat
    constraints: list[Constraint] = [PartOfSpeech(resources.tagger(), compat=compat)]
    # 0.9363 is a cosine in the reference. It was derived as 1 - 0.2 / pi, an angular similarity
    # that stands for the 0.8 of the paper: so the reference asks for more than the paper does
    # (a cosine of 0.936 is an angular similarity of 0.886). Ours is mapped from the reference's.
    constraints += sentence_similarity(resources, settings, "bae")
    return Attack(
        name="bae",
        # Replacement only; the paper also inserts. It keeps words of GloVe's vocabulary, which
        # drops word pieces; the reference takes pieces for words; here whole words are proposed.
        transformation=MaskedLMSwap(
            *resources.masked_lm(), given(settings.candidates, 50), compat=compat
        ),
        # Ranked without the word; the paper says so too.
        search=Greedy(ranking="delete"),
        # Stop words are the reference's idea; the paper has none.
        pre_constraints=pre_constraints(resources, settings),
        constraints=constraints,
        compat=compat,
    )


def a2t(resources: Resources, settings: RecipeSettings) -> Attack:
    """Yoo and Qi, "Towards Improving Adversarial Training of NLP Models", 2021 (A2T)."""
    neighbours = resources.neighbours()
    least = given(settings.word_similarity, 0.8)
    # The reference asks the sentence encoder first and the word vectors last, which keeps the same
    # words at many times the cost: here cheap constraints come first (`Constraint.cost`).
    near: Constraint = WordSimilarity(neighbours.vectors, least, compat=settings.compat)
    swap = EmbeddingSwap(neighbours, given(settings.candidates, 20), compat=settings.compat)
    return _a2t("a2t", resources, settings, swap, [near])


def a2t_mlm(resources: Resources, settings: RecipeSettings) -> Attack:
    """A2T with the words that a masked language model expects."""
    from attacks.transformations.expected_words import MaskedLMSwap

    model, tokenizer = resources.masked_lm()
    candidates = given(settings.candidates, 20)
    swap = MaskedLMSwap(model, tokenizer, candidates, compat=settings.compat)
    return _a2t("a2t-mlm", resources, settings, swap, [])


def _a2t(
    name: str,
    resources: Resources,
    settings: RecipeSettings,
    transformation: Transformation,
    constraints: list[Constraint],
) -> Attack:
    """Builds A2T, whose two versions differ by their transformation."""
    compat = settings.compat
    return Attack(
        name=name,
        transformation=transformation,
        # One gradient of the loss against the model's own prediction, which costs no query. The
        # reference takes it in training mode, with dropout: its order of words is random.
        search=Greedy(ranking="gradient"),
        pre_constraints=[
            *pre_constraints(resources, settings, keeps_premise=True),
            MaxModificationRate(0.1, 4),
        ],
        constraints=[
            *constraints,
            # No verb for a noun, unlike TextFooler.
            PartOfSpeech(resources.tagger(), allow_verb_noun_swap=False, compat=compat),
            # By a DistilBERT trained on human similarity (STS-B): its 0.9 is what people call 4.5
            # of 5, and so is ours.
            *sentence_similarity(resources, settings, name, window=None),
        ],
        compat=compat,
        white_box=True,
    )


def random(resources: Resources, settings: RecipeSettings) -> Attack:
    """A baseline: neighbours of random words, in random order, ten times over.

    An attack that achieves more owes it to its search.
    """
    return Attack(
        name="random",
        transformation=EmbeddingSwap(resources.neighbours(), given(settings.candidates, 50)),
        search=RandomSearch(tries=10),
        pre_constraints=pre_constraints(resources, settings, "textfooler"),
    )


_FAMILIES = (population_recipes, character_recipes, model_recipes, probing_recipes)

RECIPES: dict[str, Recipe] = {
    one.__name__.replace("_", "-"): one
    for one in (textfooler, textbugger, bae, deepwordbug, pwws, a2t, a2t_mlm, random)
} | {name: recipe for family in _FAMILIES for name, recipe in family.RECIPES.items()}
"""The recipes by name."""

HAS: dict[str, tuple[str, ...]] = {
    **{name: has for family in _FAMILIES for name, has in family.HAS.items()},
    "textfooler": ("candidates", "word_similarity", "similarity"),
    "textbugger": ("candidates", "similarity"),
    "bae": ("candidates", "similarity"),
    "a2t": ("candidates", "word_similarity", "similarity"),
    "a2t-mlm": ("candidates", "similarity"),
    "random": ("candidates",),
}
"""The settings that a recipe has beside those that all have."""

_DRAWN = "other random places and letters"
_DROPOUT = "dropout while words are ranked"
DIFFERS: dict[str, str] = {
    "textfooler": OTHER_ENCODER,
    "textbugger": f"{OTHER_ENCODER}; {_DRAWN}",
    "bae": OTHER_ENCODER,
    "deepwordbug": _DRAWN,
    "pwws": "",
    "a2t": f"{OTHER_ENCODER}; {_DROPOUT}",
    "a2t-mlm": f"{OTHER_ENCODER}; {_DROPOUT}",
    **character_recipes.DIFFERS,
    **model_recipes.DIFFERS,
    **probing_recipes.DIFFERS,
}
"""The recipes that have `compat="textattack"`, and what still differs in the reference."""

REFUSED: dict[str, str] = {
    "random": NO_COUNTERPART,
    **{name: reason for family in _FAMILIES for name, reason in family.REFUSED.items()},
}
"""The recipes without it, and what the reference does instead."""

NEEDS: dict[str, tuple[str, ...]] = {
    **{name: needs for family in _FAMILIES for name, needs in family.NEEDS.items()},
    "textfooler": ("neighbours", "tagger", "sentence-encoder"),
    "textbugger": ("neighbours", "sentence-encoder"),
    "bae": ("tagger", "masked-lm", "sentence-encoder"),
    "deepwordbug": (),
    "pwws": ("wordnet",),
    "a2t": ("neighbours", "tagger", "sentence-encoder"),
    "a2t-mlm": ("masked-lm", "tagger", "sentence-encoder"),
    "random": ("neighbours",),
}
"""The resources that a recipe needs, by their names for `python -m steadfast resources`."""
