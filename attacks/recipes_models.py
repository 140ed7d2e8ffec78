"""The recipes that need a language model or gradients: BAE, A2T and A2T-MLM; see `recipes`."""

from attacks.composition import Attack, Constraint, Transformation
from attacks.constraints import PartOfSpeech, WordSimilarity
from attacks.constraints.preconstraints import MaxModificationRate
from attacks.recipe_settings import Settings, given, pre_constraints, sentence_similarity
from attacks.resources.catalogue import Resources
from attacks.search import Greedy
from attacks.transformations import EmbeddingSwap


def bae(resources: Resources, settings: Settings) -> Attack:
    """Garg and Ramakrishnan, "BAE: BERT-based Adversarial Examples", 2020, its variant BAE-R."""
    from attacks.transformations.expected_words import MaskedLMSwap

    compat = settings.compat
    constraints: list[Constraint] = [PartOfSpeech(resources.tagger(), compat=compat)]
    # 0.9363 is a cosine in the reference. It was derived as 1 - 0.2 / pi, an angular similarity
    # that stands for the 0.8 of the paper: so the reference asks for more than the paper does
    # (a cosine of 0.936 is an angular similarity of 0.886). Ours is mapped from the reference's.
    constraints += sentence_similarity(
        resources, settings, "bae", window=15, against="original", skip_short=True
    )
    return Attack(
        name="bae",
        # Replacement only; the paper also inserts. It keeps words of GloVe's vocabulary, which
        # drops word pieces; the reference takes pieces for words; here whole words are proposed.
        transformation=MaskedLMSwap(
            *resources.masked_lm(), given(settings.candidates, 50), compat=compat
        ),
        # Ranked without the word; the paper says so too.
        search=Greedy(ranking="delete"),
        goal=settings.goal,
        # Stop words are the reference's idea; the paper has none.
        pre_constraints=pre_constraints(
            settings, resources.stop_words("english"), keeps_premise=False
        ),
        constraints=constraints,
        compat=compat,
    )


def a2t(resources: Resources, settings: Settings) -> Attack:
    """Yoo and Qi, "Towards Improving Adversarial Training of NLP Models", 2021 (A2T)."""
    neighbours = resources.neighbours()
    least = given(settings.word_similarity, 0.8)
    # The reference asks the sentence encoder first and the word vectors last, which keeps the same
    # words at many times the cost: here cheap constraints come first (`Constraint.cost`).
    near: Constraint = WordSimilarity(neighbours.vectors, least, compat=settings.compat)
    swap = EmbeddingSwap(neighbours, given(settings.candidates, 20), compat=settings.compat)
    return _a2t("a2t", resources, settings, swap, [near])


def a2t_mlm(resources: Resources, settings: Settings) -> Attack:
    """A2T with the words that a masked language model expects."""
    from attacks.transformations.expected_words import MaskedLMSwap

    model, tokenizer = resources.masked_lm()
    candidates = given(settings.candidates, 20)
    swap = MaskedLMSwap(model, tokenizer, candidates, compat=settings.compat)
    return _a2t("a2t-mlm", resources, settings, swap, [])


def _a2t(
    name: str,
    resources: Resources,
    settings: Settings,
    transformation: Transformation,
    constraints: list[Constraint],
) -> Attack:
    """What the two have in common."""
    compat = settings.compat
    return Attack(
        name=name,
        transformation=transformation,
        # One gradient of the loss against the model's own prediction, which costs no query. The
        # reference takes it in training mode, with dropout: its order of words is random.
        search=Greedy(ranking="gradient"),
        goal=settings.goal,
        pre_constraints=[
            *pre_constraints(settings, resources.stop_words("english"), keeps_premise=True),
            MaxModificationRate(0.1, 4),
        ],
        constraints=[
            *constraints,
            # No verb for a noun, unlike TextFooler.
            PartOfSpeech(resources.tagger(), allow_verb_noun_swap=False, compat=compat),
            # By a DistilBERT trained on human similarity (STS-B): its 0.9 is what people call 4.5
            # of 5, and so is ours.
            *sentence_similarity(
                resources, settings, name, window=None, against="original", skip_short=False
            ),
        ],
        compat=compat,
        white_box=True,
    )
