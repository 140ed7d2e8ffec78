"""The attacks of the literature, each composed of the same parts.

A recipe is a short function from resources and settings to an attack. Its comments say where the
paper, the code released with it, and TextAttack 0.3.11 ("the reference") differ, and what is done
here; `compat="textattack"` does what the reference does.
"""

from collections.abc import Sequence

from attacks.composition import Attack, Compat, Constraint
from attacks.constraints import EditDistance, PartOfSpeech, WordSimilarity
from attacks.goals import Goal, Untargeted
from attacks.recipe_settings import (
    Recipe,
    Settings,
    given,
    pre_constraints,
    sentence_similarity,
)
from attacks.recipes_models import a2t, a2t_mlm, bae
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


def build(
    name: str,
    resources: Resources,
    *,
    compat: Compat = "none",
    goal: Goal | None = None,
    candidates: int | None = None,
    word_similarity: float | None = None,
    similarity: float | None = None,
    columns: Sequence[str] | None = None,
) -> Attack:
    """An attack by its name.

    Args:
        name: one of `RECIPES`.
        resources: where word vectors and the like come from.
        compat: see `Settings`, as for all that follows.
        goal: any class but the gold one, by the margin of logits, if None.
        candidates: replacements per word.
        word_similarity: least cosine of words.
        similarity: least similarity of sentences; 0 for no sentence encoder.
        columns: texts of a pair that are rewritten.

    Raises:
        ValueError: an unknown recipe, or a setting that it does not have.
        ResourceError: something is missing.
    """
    if name not in RECIPES:
        msg = f"got recipe {name!r}, expected one of {', '.join(RECIPES)}"
        raise ValueError(msg)
    settings = Settings(
        compat=compat,
        goal=Untargeted() if goal is None else goal,
        candidates=candidates,
        word_similarity=word_similarity,
        similarity=similarity,
        columns=columns,
    )
    has = HAS.get(name, ())
    numbers = ("candidates", "word_similarity", "similarity")
    if strange := [one for one in numbers if getattr(settings, one) is not None and one not in has]:
        msg = f"got {strange} for {name}, expected only what it has: {list(has) or 'nothing'}"
        raise ValueError(msg)
    try:
        return RECIPES[name](resources, settings)
    except ResourceError as error:
        needs = [one for one in NEEDS[name] if similarity != 0 or one != "sentence-encoder"]
        if len(needs) == 1:
            raise
        msg = f"{error}; all that {name} needs: `python -m app resources {' '.join(needs)}`"
        raise ResourceError(msg) from error


def textfooler(resources: Resources, settings: Settings) -> Attack:
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
    constraints += sentence_similarity(
        resources, settings, "textfooler", window=15, against="current", skip_short=True
    )
    return Attack(
        name="textfooler",
        transformation=EmbeddingSwap(neighbours, given(settings.candidates, 50), compat=compat),
        # The code also adds how far the label changed to the importance of a word; the paper does
        # not say so, and neither the reference nor this does it.
        search=Greedy(ranking="delete"),
        goal=settings.goal,
        pre_constraints=pre_constraints(
            settings, resources.stop_words("textfooler"), keeps_premise=True
        ),
        constraints=constraints,
        compat=compat,
    )


def textbugger(resources: Resources, settings: Settings) -> Attack:
    """Li, Ji, Du, Li, Wang, "TextBugger", 2019, its black-box attack."""
    compat = settings.compat
    # The paper asks for a cosine of 0.8; the reference uses 0.8 as angular similarity, which is a
    # cosine of 0.809. It ranks sentences before words, which neither the reference nor this does.
    constraints = sentence_similarity(
        resources, settings, "textbugger", window=None, against="original", skip_short=False
    )
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
        goal=settings.goal,
        pre_constraints=pre_constraints(
            settings, resources.stop_words("english"), keeps_premise=False
        ),
        constraints=constraints,
        compat=compat,
    )


def deepwordbug(resources: Resources, settings: Settings) -> Attack:
    """Gao, Lanchantin, Soffa, Qi, "Black-box Generation of Adversarial Text Sequences", 2018."""
    return Attack(
        name="deepwordbug",
        # The paper makes one of these per word, and finds substitution best; the reference and this
        # try one of each and take the best.
        transformation=Composite(
            [SwapCharacters(), SubstituteCharacter(), DeleteCharacter(), InsertCharacter()]
        ),
        # The paper's combined score looks at the words before and behind by themselves.
        search=Greedy(ranking="unk"),
        goal=settings.goal,
        pre_constraints=pre_constraints(
            settings, resources.stop_words("english"), keeps_premise=False
        ),
        constraints=[EditDistance(30)],
        compat=settings.compat,
    )


def pwws(resources: Resources, settings: Settings) -> Attack:
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
        goal=settings.goal,
        pre_constraints=pre_constraints(
            settings, resources.stop_words("english"), keeps_premise=False
        ),
        compat=settings.compat,
    )


def random(resources: Resources, settings: Settings) -> Attack:
    """A baseline: neighbours of random words, in random order, ten times over.

    What an attack achieves beyond this comes from its search.
    """
    return Attack(
        name="random",
        transformation=EmbeddingSwap(
            resources.neighbours(), given(settings.candidates, 50), compat=settings.compat
        ),
        search=RandomSearch(tries=10),
        goal=settings.goal,
        pre_constraints=pre_constraints(
            settings, resources.stop_words("textfooler"), keeps_premise=True
        ),
        compat=settings.compat,
    )


RECIPES: dict[str, Recipe] = {
    "textfooler": textfooler,
    "textbugger": textbugger,
    "bae": bae,
    "deepwordbug": deepwordbug,
    "pwws": pwws,
    "a2t": a2t,
    "a2t-mlm": a2t_mlm,
    "random": random,
}
"""By name."""

HAS: dict[str, tuple[str, ...]] = {
    "textfooler": ("candidates", "word_similarity", "similarity"),
    "textbugger": ("candidates", "similarity"),
    "bae": ("candidates", "similarity"),
    "a2t": ("candidates", "word_similarity", "similarity"),
    "a2t-mlm": ("candidates", "similarity"),
    "random": ("candidates",),
}
"""Which settings a recipe has beside those that all have."""

NEEDS: dict[str, tuple[str, ...]] = {
    "textfooler": ("neighbours", "tagger", "sentence-encoder"),
    "textbugger": ("neighbours", "sentence-encoder"),
    "bae": ("tagger", "masked-lm", "sentence-encoder"),
    "deepwordbug": (),
    "pwws": ("wordnet",),
    "a2t": ("neighbours", "tagger", "sentence-encoder"),
    "a2t-mlm": ("masked-lm", "tagger", "sentence-encoder"),
    "random": ("neighbours",),
}
"""What `python -m app resources` has to get for a recipe; nothing for `deepwordbug`."""
