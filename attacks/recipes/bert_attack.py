"""Li et al., "BERT-ATTACK: Adversarial Attack Against BERT Using BERT", 2020."""

from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.recipe_parts import RecipeParts
from attacks.recipes import OTHER_ENCODER, RANKED, recipe
from attacks.resources.thresholds import PublishedThreshold
from attacks.search import Greedy
from text.stop_words import StopWordList

# A cosine of 0.2 of the whole text in the reference; the authors set it by corpus.
SIMILARITY = PublishedThreshold(0.2, "cosine", "use")


@recipe(
    needs=("masked-lm", "sentence-encoder"),
    settings=("candidates", "similarity", *RANKED),
    differs=OTHER_ENCODER,
)
def bert_attack(parts: RecipeParts) -> Attack:
    """Compose BERT-ATTACK."""
    from attacks.transformations.subwords import SubwordSwap

    reference = parts.compat.reference
    # The code has the list of TextFooler, for the words that it replaces and for the substitutes;
    # the reference has nltk's, for the former alone.
    names: StopWordList = "english" if reference else "textfooler"
    substitutes = () if reference else parts.resources.stop_words(parts.settings.language or names)
    return parts.attack(
        # K = 48 in paper and code; the reference takes 8, which is faster. The code asks the model
        # once about the original text, drops single pieces of a small logit, and of words with
        # several pieces tries the first 24 combinations of 4 pieces each: the reference and this
        # ask about the current text, and drop none.
        transformation=SubwordSwap(
            *parts.resources.masked_lm(),
            parts.candidates(8 if reference else 48),
            stop_words=substitutes,
            compat=parts.compat,
        ),
        # The paper replaces a word by [MASK] to rank it; its code, the reference and this by
        # [UNK]. The code adds how far the label changed, never changes the last word, and takes
        # the first substitute that reaches the goal instead of the best one.
        search=Greedy(ranking="unk"),
        pre_constraints=parts.pre_constraints(names),
        constraints=[
            # At most 40 % of the words; the code also drops antonyms in sentiment analysis.
            WordsChanged(share=0.4, compat=parts.compat),
            *parts.sentence_similarity(SIMILARITY, window=None),
        ],
    )
