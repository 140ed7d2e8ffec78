"""Recipes that take words from a masked language model, beside BAE-R and A2T-MLM."""

from attacks.composition import Attack, Constraint, Transformation
from attacks.constraints import PartOfSpeech, WordsChanged
from attacks.recipe_parts import (
    NO_COUNTERPART,
    OTHER_ENCODER,
    given,
    pre_constraints,
    sentence_similarity,
)
from attacks.recipe_settings import RecipeSettings
from attacks.resources.catalogue import Resources
from attacks.resources.stop_words import StopWordList
from attacks.search import Beam, Greedy
from attacks.strategies import RankedActions, StagedGreedy
from attacks.transformations import Actions, Composite, Stages


def bert_attack(resources: Resources, settings: RecipeSettings) -> Attack:
    """Li et al., "BERT-ATTACK: Adversarial Attack Against BERT Using BERT", 2020."""
    from attacks.transformations.subwords import SubwordSwap

    compat = settings.compat
    k = given(settings.candidates, 48 if compat == "none" else 8)
    # The code has the list of TextFooler, for the words that it replaces and for the substitutes;
    # the reference has nltk's, for the former alone.
    names: StopWordList = "textfooler" if compat == "none" else "english"
    stop_words = resources.stop_words(settings.language or names) if compat == "none" else ()
    return Attack(
        name="bert-attack",
        # K = 48 in paper and code; the reference takes 8, which is faster. The code asks the model
        # once about the original text, drops single pieces of a small logit, and of words with
        # several pieces tries the first 24 combinations of 4 pieces each: the reference and this
        # ask about the text as it stands, and drop none.
        transformation=SubwordSwap(*resources.masked_lm(), k, stop_words=stop_words, compat=compat),
        # The paper puts [MASK] in the place of a word to rank it; its code, the reference and this
        # [UNK]. The code adds how far the label changed, leaves the last word alone, and takes the
        # first substitute that reaches the goal in place of the best one.
        search=Greedy(ranking="unk"),
        pre_constraints=pre_constraints(resources, settings, names),
        constraints=[
            # At most 40 % of the words; the code also drops antonyms in sentiment analysis.
            WordsChanged(share=0.4, compat=compat),
            # A cosine of 0.2 of the whole text in the reference; the authors set it by corpus.
            *sentence_similarity(resources, settings, "bert-attack", window=None),
        ],
        compat=compat,
    )


def clare(resources: Resources, settings: RecipeSettings) -> Attack:
    """Li et al., "Contextualized Perturbation for Textual Adversarial Attack", 2021 (CLARE).

    The paper's model is a distilled RoBERTa, fine-tuned on the corpus; here it is the masked
    language model of the resources (`masked_lm`).
    """
    from attacks.transformations.expected_words import MaskedLMSwap
    from attacks.transformations.inserted_words import MaskedLMInsert, MaskedLMMerge, Side

    model, tokenizer = resources.masked_lm()
    k, compat = given(settings.candidates, 50), settings.compat
    tagger = resources.tagger()
    reference = compat == "textattack"
    side: Side = "left" if reference else "right"
    actions: list[Transformation] = [
        MaskedLMSwap(model, tokenizer, k, minimum_confidence=5e-4, compat=compat),
        # Behind a word in the paper, before it in the reference.
        MaskedLMInsert(model, tokenizer, k, side=side, compat=compat),
        MaskedLMMerge(model, tokenizer, tagger, k, minimum_confidence=5e-3, compat=compat),
    ]
    return Attack(
        name="clare",
        transformation=Composite(actions) if reference else Actions(actions),
        # Paper and code rank the actions of all places once, in the original text, as here. The
        # reference looks for the best action of the whole text after each change. The code never
        # merges the first five words, which is not repeated.
        search=Beam(width=1) if reference else RankedActions(),
        # In the code stop words are kept from replacement alone, and in some corpora adjectives,
        # adverbs and auxiliary verbs are, too.
        pre_constraints=pre_constraints(resources, settings),
        # The code compares with the text as it stands, with thresholds by corpus and action.
        constraints=sentence_similarity(resources, settings, "clare"),
        compat=compat,
    )


def bae_i(resources: Resources, settings: RecipeSettings) -> Attack:
    """BAE-I of Garg and Ramakrishnan, 2020: inserts a word to the left or right of a word."""
    return _bae("bae-i", resources, settings, _insert(resources, settings))


def bae_ri(resources: Resources, settings: RecipeSettings) -> Attack:
    """BAE-R/I: replaces a word, or inserts one beside it, whatever is better."""
    parts = [_replace(resources, settings), _insert(resources, settings)]
    return _bae("bae-ri", resources, settings, Composite(parts))


def bae_r_then_i(resources: Resources, settings: RecipeSettings) -> Attack:
    """BAE-R+I: replaces a word, then inserts one beside it."""
    parts = [_replace(resources, settings), _insert(resources, settings)]
    return _bae("bae-r-then-i", resources, settings, Stages(parts), StagedGreedy(stages=2))


def _replace(resources: Resources, settings: RecipeSettings) -> Transformation:
    from attacks.transformations.expected_words import MaskedLMSwap

    return MaskedLMSwap(*resources.masked_lm(), given(settings.candidates, 50))


def _insert(resources: Resources, settings: RecipeSettings) -> Transformation:
    from attacks.transformations.inserted_words import MaskedLMInsert

    return MaskedLMInsert(*resources.masked_lm(), given(settings.candidates, 50))


def _bae(
    name: str,
    resources: Resources,
    settings: RecipeSettings,
    transformation: Transformation,
    search: Greedy | None = None,
) -> Attack:
    """Builds a version of BAE that inserts; the reference only has BAE-R.

    Part of speech is asked of replacements only, as in the paper. The threshold is that of BAE-R.
    """
    constraints: list[Constraint] = [PartOfSpeech(resources.tagger())]
    constraints += sentence_similarity(resources, settings, "bae")
    return Attack(
        name=name,
        transformation=transformation,
        search=search or Greedy(ranking="delete"),
        pre_constraints=pre_constraints(resources, settings),
        constraints=constraints,
    )


RECIPES = {
    "bert-attack": bert_attack,
    "clare": clare,
    "bae-i": bae_i,
    "bae-ri": bae_ri,
    "bae-r-then-i": bae_r_then_i,
}
HAS: dict[str, tuple[str, ...]] = dict.fromkeys(RECIPES, ("candidates", "similarity"))
DIFFERS = {
    "bert-attack": OTHER_ENCODER,
    "clare": f"{OTHER_ENCODER}; flair's tagger; `masked_lm` is distilroberta-base",
}
REFUSED = dict.fromkeys(("bae-i", "bae-ri", "bae-r-then-i"), NO_COUNTERPART)
NEEDS: dict[str, tuple[str, ...]] = dict.fromkeys(
    RECIPES, ("tagger", "masked-lm", "sentence-encoder")
) | {"bert-attack": ("masked-lm", "sentence-encoder")}
