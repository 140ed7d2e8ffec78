"""The settings of an attack on texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attacks.compat import CompatName
from attacks.goals import Score
from attacks.recipes import recipe_names
from text import check_range

Ranking = Literal["delete", "unk", "weighted-saliency", "gradient", "random"]
Language = Literal["english", "german", "french", "spanish", "chinese"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The number of texts that an attack may ask the victim about.

    Attributes:
        query_budget: texts the model may be asked about for one sample, the clean one included; no
            limit if null. Most recipes ask about each word before they replace any.
        budget_per_word: texts the model may be asked about per word of the sample; the smaller of
            the two budgets counts.
    """

    query_budget: int | None = None
    budget_per_word: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range({"query_budget": self.query_budget}, least=1)
        check_range({"budget_per_word": self.budget_per_word}, above=0)

    def budget(self, words: int) -> float:
        """Return the budget of a sample of so many words: at least 1, for the clean text."""
        per_word = float("inf") if self.budget_per_word is None else self.budget_per_word * words
        # None is no limit.
        per_sample = float("inf") if self.query_budget is None else self.query_budget
        budget = min(per_sample, per_word)
        # Rounded first: 0.29 * 100 is less than 29.
        return budget if budget == float("inf") else max(1, int(round(budget, 9)))


@dataclass(frozen=True, kw_only=True)
class RecipeSettings(Budget):
    """An attack on texts: its recipe, its resources and its cost.

    Attributes:
        recipe: name of the attack: RECIPES (docs/attacks.md). The command `attack` also takes
            several with commas between them, `all` for textfooler, textbugger, bae, deepwordbug,
            pwws and a2t, `worst` or `worst:NAMES` for several that are tried on each text until one
            succeeds, or a YAML file with an attack of your own (configs/attack/custom.yaml); there,
            `--attack NAME` is short for `--attack.recipe NAME`.
        batch_size: most texts per forward pass of the attack; halved when memory runs out. On a CPU
            it is 64 at most, where more are slower.
        score: value that the search follows: the `margin` between logits, or the `probability` of
            the gold class, which is blind where the model is very confident. If null, margin, and
            probability with `compat: textattack`.
        compat: program to reproduce: `textattack` is TextAttack 0.3.11, its faults included
            (docs/attacks.md).
        resources: folder with word vectors, WordNet and the like (docs/attacks.md);
            `python -m steadfast resources` fills one.
        vectors: file of word vectors, or of lists of neighbours, instead of those found.
        sentence_encoder: folder or hub name of the model that compares sentences;
            sentence-transformers/all-MiniLM-L6-v2 if null.
        masked_lm: folder or hub name of the model that bae and a2t-mlm take words from;
            bert-base-uncased if null.
        similarity: least sentence similarity; the recipe's own if null; 0 does without a sentence
            encoder. Like word_similarity and candidates, it changes the recipes that have it; a
            recipe without it refuses it.
        word_similarity: least cosine of the vectors of a word and its replacement.
        candidates: replacements that are tried for a word; of charmer, the most frequent characters
            that it tries.
        fluency: nats that a word may be less likely than the one it replaces, by the masked
            language model; the recipe's own if null; 0 does without the model.
        pool: file with a word or a text on each line, which append-benign and split add, and whose
            characters charmer tries; learned from the training split of a run, or from the
            --dataset of a --victim, if null.
        added_words: words that append-benign (10) and split (800) add at most.
        side: the place of the words that append-benign adds: `front`, `end` or `both`.
        selection: choice of these words from their pool: `greedy`, the best one at each step;
            `ranked`, the best ones of the clean text; or `random`.
        variants: names of the ways to write a text that unicode, spacing, leetspeak, case,
            encodings, viper and zeroe try; all of them if null.
        translations: file with a text, a tab and its translation on each line, for translate.
        paraphrases: file of `resources paraphrases`, for paraphrase.
        edits: characters that charmer changes at most (10).
        positions: positions of a text that charmer tries at each step (20), or `all`.
        ranking: order of the words, for recipes that rank them: by the score without a word
            (`delete`), with [UNK] instead (`unk`), that and the best replacement
            (`weighted-saliency`), by the `gradient`, or `random`; the recipe's own if null.
        surrogate: a run, or hf:FOLDER, of the same classes: it ranks words and candidates first,
            which saves queries and loses no success (docs/attacks.md).
        shortlist: candidates of a word that the surrogate leaves over (2).
        p: share of the letters that viper changes (0.4), and of the words, letters or spaces that
            zeroe changes (0.5).
        causal_lm: folder of a causal language model with the tokenizer of the victim, by which gbda
            measures fluency and similarity; without it fluency does not count.
        language: language of the texts; it selects stop words, letters, keys, and how Chinese is
            cut into words (docs/attacks.md). English if null. Vectors, WordNet and models have to
            fit it.
        columns: names of the texts of a pair that may be changed; by the task if null.
    """

    recipe: str = "textfooler"
    batch_size: int = 256
    score: Score | None = None
    compat: CompatName = "none"
    resources: str | None = None
    vectors: str | None = None
    sentence_encoder: str | None = None
    masked_lm: str | None = None
    similarity: float | None = None
    word_similarity: float | None = None
    candidates: int | None = None
    fluency: float | None = None
    pool: str | None = None
    added_words: int | None = None
    side: Literal["front", "end", "both"] | None = None
    selection: Literal["greedy", "ranked", "random"] | None = None
    variants: Sequence[str] | None = None
    translations: str | None = None
    paraphrases: str | None = None
    edits: int | None = None
    positions: int | Literal["all"] | None = None
    ranking: Ranking | None = None
    surrogate: str | None = None
    shortlist: int | None = None
    p: float | None = None
    causal_lm: str | None = None
    language: Language | None = None
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range; `attacks.recipes` checks the rest."""
        super().__post_init__()
        check_range({"batch_size": self.batch_size, "candidates": self.candidates}, least=1)
        check_range({"added_words": self.added_words, "edits": self.edits}, least=1)
        if self.positions != "all":
            check_range({"positions": self.positions}, least=1)
        check_range({"similarity": self.similarity, "p": self.p}, least=0, most=1)
        check_range({"word_similarity": self.word_similarity}, least=-1, most=1)
        check_range({"fluency": self.fluency}, least=0)
        check_range({"shortlist": self.shortlist}, least=1)
        if self.shortlist is not None and self.surrogate is None:
            msg = (
                f"got shortlist {self.shortlist} without a surrogate, expected one that makes it: "
                "--attack.surrogate RUN"
            )
            raise ValueError(msg)


# The help of the command line shows this text; `python -OO` removes it.
if RecipeSettings.__doc__:
    RecipeSettings.__doc__ = RecipeSettings.__doc__.replace("RECIPES", ", ".join(recipe_names()))
