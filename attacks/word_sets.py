"""Perturbation sets of words, derived from recipes and resources.

The set of a recipe has all texts that the recipe can reach if it splits a text into the words of
the model, so that accuracy under the recipe is at least the certified accuracy. It comes from the
objects that the recipe is composed of: what its transformation may do to a word, and which of its
conditions judge single words. Other conditions only make an attack weaker. The recipe must change
no word twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from attacks.composition import Attack, Constraint, Group, PreConstraint, Transformation
from attacks.constraints.preconstraints import RepeatModification, StopWords, WordLength
from attacks.constraints.word_distance import WordDistance
from attacks.constraints.word_similarity import WordSimilarity
from attacks.document import Document
from attacks.fingerprint import describe
from attacks.recipe_parts import RecipeParts
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe
from attacks.resources.catalogue import Resources
from attacks.resources.lemmas import PARTS_OF_TAGS
from attacks.resources.tagger import Tagger
from attacks.resources.wordnet import WordNet
from attacks.set_names import AND, check_names, file_title, is_file, read_name, title
from attacks.transformations import Composite, EmbeddingSwap, Inflect, WordNetSwap
from attacks.transformations.keys import LAYOUTS, Layout, find_neighbours
from attacks.transformations.word_swap import WordSwap
from certify.threats import (
    ADDITIONS,
    THREATS,
    Additions,
    ChainedSets,
    DeletedStopWords,
    InsertedStopWords,
    ListedWords,
    SameForm,
    Substitutions,
    Synonyms,
    Threat,
    Typos,
    WordSet,
    is_same_form,
    parse_threat,
)
from certify.threats.substitutions import TAG, Words, unite
from text import WordSettings, WordTokenizer
from text.canonical import canonical
from text.corrector import Reach
from text.typo_kinds import InnerTypos, KeyboardTypos
from text.word_splitter import WordSplitter


class SwapSet(ListedWords):
    """The replacements of a transformation that depend on the word alone.

    Replacements are written as the model reads them. Those that it reads as several words are left
    out: "top-notch" where hyphens are words of their own.

    Args:
        name: of the set.
        swap: the transformation.
        statement: see `WordSet`.
        words: the words of the model.
        pre_constraints: select the words; those that depend on more than the word are left out.
        constraints: judge the replacements; the same.
    """

    def __init__(
        self,
        name: str,
        swap: WordSwap,
        statement: str,
        words: WordSettings,
        *,
        pre_constraints: Sequence[PreConstraint] = (),
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.name, self.swap, self.words = name, swap, words
        self.statement = f"{statement}{_alone(words)}"
        self.pre_constraints = [c for c in pre_constraints if isinstance(c, StopWords | WordLength)]
        self.constraints = [c for c in constraints if isinstance(c, WordSimilarity | WordDistance)]
        self._known: dict[str, tuple[str, ...]] = {}

    @cached_property
    def content(self) -> Any:
        """See `WordSet`."""
        parts = (self.swap, self.pre_constraints, self.constraints)
        return [self.name, *map(describe, parts)]

    def replacements(self, word: str) -> tuple[str, ...]:
        """See `ListedWords`; each word is looked up once."""
        listed = self._known.get(word)
        if listed is None:
            listed = self._known[word] = self._replace(word)
        return listed

    def _replace(self, word: str) -> tuple[str, ...]:
        document = Document.of(word)
        # A word of the model that is none of the attack's, or several, is replaced as it is.
        if document.words != [word] or not changes(word, self.pre_constraints):
            return ()
        words = [new for new in self.swap.replacements(word, Random(0)) if new != word]
        candidates = document.replace_by(0, words)
        for constraint in self.constraints:
            (flags,) = constraint.keep([Group(document, document, candidates)])
            candidates = [c for c, fits in zip(candidates, flags, strict=True) if fits]
        # Not `lower`: behind a front end "caf\u00e9" is read as "cafe".
        read = [self._splitter.split(candidate.word) for candidate in candidates]
        return tuple(dict.fromkeys(own[0] for own in read if len(own) == 1 and own != [word]))

    @cached_property
    def _splitter(self) -> WordSplitter:
        return WordSplitter(self.words)


def _alone(words: WordSettings) -> str:
    """Return what a statement adds where the words of attacks may be several of the model."""
    return "" if words.split == "joined" else ", by one word of the model"


@dataclass(frozen=True)
class RecipeSet(WordSet):
    """The words that a recipe may substitute for a word.

    Attributes:
        name: of the recipe.
        parts: sets of its transformations.
        pre_constraints: select the words.
        words: the words of the model.
    """

    name: str
    parts: tuple[WordSet, ...]
    pre_constraints: tuple[PreConstraint, ...]
    words: WordSettings

    @property
    def splits(self) -> bool:  # type: ignore[override] # made of the parts
        """See `WordSet`."""
        return any(part.splits for part in self.parts)

    @property
    def listable(self) -> bool:  # type: ignore[override] # made of the parts
        """See `WordSet`."""
        return all(part.listable for part in self.parts)

    @property
    def statement(self) -> str:  # type: ignore[override] # made of the name
        """See `WordSet`."""
        return f"as {self.name} may replace it{_alone(self.words)}"

    @property
    def change(self) -> str:
        """See `WordSet`."""
        listable = {part.listable for part in self.parts}
        noun = "change" if len(listable) > 1 else "synonym" if self.listable else "typo"
        return f"a {noun} of {self.name}"

    @property
    def content(self) -> Any:
        """See `WordSet`."""
        words = [c for c in self.pre_constraints if isinstance(c, StopWords | WordLength)]
        return [self.name, [part.content for part in self.parts], describe(words)]

    def contains(self, word: str, changed: Words) -> bool:
        """See `WordSet`."""
        return changes(word, self.pre_constraints) and any(
            part.contains(word, changed) for part in self.parts
        )

    def listed(self, word: str) -> Sequence[str]:
        """See `WordSet`."""
        if not changes(word, self.pre_constraints):
            return ()
        return [text for part in self.parts for text in part.listed(word)]

    def reach(self, words: Sequence[str], tokenizer: WordTokenizer) -> Reach:
        """See `WordSet`."""
        full = unite([part.reach(words, tokenizer) for part in self.parts])
        return only(full, [changes(word, self.pre_constraints) for word in words])

    def witness(self, word: str, ids: tuple[int, ...], tokenizer: WordTokenizer) -> str | None:
        """See `WordSet`."""
        if not changes(word, self.pre_constraints):
            return word if tokenizer.ids([word]) == list(ids) else None
        texts = (part.witness(word, ids, tokenizer) for part in self.parts)
        return next((text for text in texts if text is not None), None)


def changes(word: str, pre_constraints: Sequence[PreConstraint]) -> bool:
    """Return True if conditions on single words let a word be replaced."""
    document = Document.of(word)
    return all(
        len(document) == 0 or bool(set(condition.allowed(document, columns=("text",))))
        for condition in pre_constraints
        if isinstance(condition, StopWords | WordLength)
    )


def changes_of(part: WordSet, word: str) -> tuple[Sequence[str], bool]:
    """Return the texts that a set lists for a word, and True if it allows any typo in it.

    Raises:
        ValueError: a set of other changes: kinds of typos, chains.
    """
    if isinstance(part, SameForm):
        return (), False
    if isinstance(part, ListedWords):
        return part.replacements(word), False
    if isinstance(part, Typos) and part.kind is None and not part.splits:
        return (), True
    if isinstance(part, RecipeSet):
        if not changes(word, part.pre_constraints):
            return (), False
        parts = [changes_of(inner, word) for inner in part.parts]
        return [text for texts, _ in parts for text in texts], any(typed for _, typed in parts)
    msg = f"got {part.name}, expected sets of listed words, and typos of every kind"
    raise ValueError(msg)


def only(reach: Reach, keep: Sequence[bool]) -> Reach:
    """Return a set that leaves some words as they are."""
    import torch

    counts = reach.starts.diff()
    owner = torch.arange(len(keep)).repeat_interleave(counts)
    first = torch.zeros(len(reach.ids), dtype=torch.bool)
    # The first entry of a word is the word itself, which stays in the set.
    first[reach.starts[:-1]] = True
    chosen = first | torch.tensor(keep, dtype=torch.bool)[owner]
    starts = torch.zeros_like(reach.starts)
    starts[1:] = torch.bincount(owner[chosen], minlength=len(keep)).cumsum(0)
    return Reach(reach.ids[chosen], starts)


def find_sets(names: str, words: WordSettings, resources: Resources) -> Substitutions:
    """Return the union of perturbation sets.

    Args:
        names: names of recipes, of `OWN_SETS` and of JSON files with lists, with commas between.
        words: the words of the model.
        resources: WordNet, word vectors.

    Raises:
        ValueError: an unknown name, a recipe that depends on more than the word, or typos for
            words without a corrector.
        ResourceError: something is missing.
    """
    check_names(names)
    sets = [_find(name.strip(), words, resources) for name in names.split(",")]
    return Substitutions(words=words, sets=tuple(sets))


def find_threat(
    name: str, *, lists: str | None, k: int | None, words: WordSettings, resources: Resources
) -> Threat:
    """Return the threat that `--threat` names.

    Args:
        name: one of `THREATS`, or names of perturbation sets with commas between; in front of them,
            or alone, one of `ADDED`.
        lists: file of synonyms.
        k: number of changes; None for any number.
        words: the words of the model.
        resources: WordNet and word vectors, for perturbation sets.

    Raises:
        ValueError: see `parse_threat` and `find_sets`.
        OSError: a file or resource is missing.
    """
    if name in THREATS:
        return parse_threat(name, lists=lists, k=k, words=words)
    if lists is not None:
        msg = f"got lists for {name}, expected them for synonyms, or their file as a set"
        raise ValueError(msg)
    first, _, rest = name.partition(",")
    kind = next((kind for kind in ADDITIONS if kind == first.strip()), None)
    if kind is None:
        return find_sets(name, words, resources).at(k)
    sets = find_sets(rest, words, resources).at(k) if rest else None
    if sets is not None and is_same_form(sets):
        # Added text already comes with each string of the same canonical form.
        sets = None
    return Additions(words=words, k=k, kind=kind, changes=sets)


def is_endless(name: str) -> bool:
    """Return True if a threat of `find_threat` allows any number of changes."""
    return THREATS.get(name, Substitutions).endless


def _find(name: str, words: WordSettings, resources: Resources) -> WordSet:
    first, *rest = name.split(AND)
    part = _find_one(first, words, resources)
    for second in rest:
        if not part.listable:
            msg = f"got {name}, expected a set of synonyms before {AND}: {first} has typos"
            raise ValueError(msg)
        part = ChainedSets(title(name), part, _find_one(second, words, resources))
    return part


def _find_one(name: str, words: WordSettings, resources: Resources) -> WordSet:
    parts = RecipeParts(resources, RecipeSettings())
    kind, number, cosine, language = read_name(name)

    def stop_words() -> list[str]:
        # In the form of the model's words; those that it splits are left out.
        split = WordSplitter(words).split
        own = (split(word) for word in sorted(resources.stop_words(language)))
        return list(dict.fromkeys(word[0] for word in own if len(word) == 1))

    own_sets: dict[str, Callable[[], WordSet]] = {
        "canonical": lambda: SameForm(words),
        "wordnet": lambda: SwapSet(name, parts.wordnet_swap(), "by a synonym of WordNet", words),
        "wordnet-pos": lambda: TaggedSynonyms(name, resources.wordnet(), resources.tagger(), words),
        "neighbours": lambda: _neighbours(name, parts.embedding_swap(number), cosine, words),
        "inflections": lambda: SwapSet(
            name, Inflect(resources.inflected()), "by another form of it", words
        ),
        "typos": lambda: Typos(words),
        "typos-splits": lambda: Typos(words, splits=True, name=name),
        "typos-keyboard": lambda: Typos(
            words, kind=KeyboardTypos(_read_keys(LAYOUTS[language])), name=name
        ),
        "typos-inner": lambda: Typos(words, kind=InnerTypos(), name=name),
        "delete": lambda: DeletedStopWords(name, frozenset(stop_words())),
        "insert": lambda: InsertedStopWords(name, tuple(stop_words())),
    }
    if kind in own_sets:
        return own_sets[kind]()
    if is_file(name):
        return FileSet(Synonyms.read(name, words=words), Path(name).name)
    # These conditions depend on more than the word: without them no model is loaded.
    has = find_recipe(name).settings
    settings = RecipeSettings(
        recipe=name,
        similarity=0.0 if "similarity" in has else None,
        fluency=0.0 if "fluency" in has else None,
    )
    return recipe_set(build(settings, resources), words)


def _neighbours(
    name: str, swap: EmbeddingSwap, cosine: float | None, words: WordSettings
) -> SwapSet:
    statement, vectors = f"by one of the {swap.k} nearest words", swap.neighbours.vectors
    if cosine is None:
        return SwapSet(name, swap, statement, words)
    if vectors is None:
        msg = f"got {name} with ready lists of neighbours, expected word vectors for a cosine"
        raise ValueError(msg)
    near = [WordSimilarity(vectors, cosine)]
    statement = f"{statement}, of a cosine of {cosine} or more"
    return SwapSet(name, swap, statement, words, constraints=near)


def _read_keys(layout: Layout) -> dict[str, str]:
    """Return the neighbours of the keys of a keyboard, as a model with a front end reads them.

    What is read as "u" may have been typed by that key or by "\u00fc".
    """
    keys: dict[str, str] = {}
    for key, near in find_neighbours(layout).items():
        own = canonical(key)
        keys[own] = keys.get(own, "") + canonical(near)
    return keys


class _OnePart:
    """The synonyms of one part of speech; see `SynonymSource`."""

    def __init__(self, wordnet: WordNet, part: str) -> None:
        self.wordnet, self.part = wordnet, part

    def synonyms(self, word: str) -> Sequence[str]:
        """See `SynonymSource`."""
        return self.wordnet.synonyms(word, (self.part,))


class TaggedSynonyms(ListedWords):
    """Synonyms of WordNet with the part of speech that a tagger gives the word in its text.

    Words of other parts of speech than nouns, verbs, adjectives and adverbs have none. Training,
    which tags no text, takes those of all parts of speech. The tagger reads the words of the
    original text, as they are written.
    """

    tags = True

    def __init__(self, name: str, wordnet: WordNet, tagger: Tagger, words: WordSettings) -> None:
        self.name, self.tagger = name, tagger
        statement = "by a synonym of WordNet of the part of speech that it has in the text"
        self.statement = f"{statement}{_alone(words)}"
        self._parts = {
            tag: SwapSet(tag, WordNetSwap(_OnePart(wordnet, part)), "", words)
            for tag, part in PARTS_OF_TAGS.items()
        }

    @cached_property
    def content(self) -> Any:
        """See `WordSet`."""
        return [self.name, describe(self.tagger), *(part.content for part in self._parts.values())]

    def tag(self, words: Sequence[str]) -> Sequence[str]:
        """See `WordSet`; the tagger keeps its latest texts."""
        return self.tagger.tag(words)

    def replacements(self, word: str) -> Sequence[str]:
        """See `ListedWords`."""
        own, _, tag = word.partition(TAG)
        parts = [self._parts[tag]] if tag in self._parts else []
        listed = (part.replacements(own) for part in (parts if tag else self._parts.values()))
        return list(dict.fromkeys(new for words in listed for new in words))


class FileSet(ListedWords):
    """The lists of a file, for words."""

    def __init__(self, lists: Synonyms, name: str) -> None:
        self.lists, self.name = lists, file_title(name)
        self.statement = f"by a word that {name} lists for it"

    @property
    def content(self) -> Any:
        """See `WordSet`."""
        return self.lists.content

    def replacements(self, word: str) -> Sequence[str]:
        """See `ListedWords`."""
        return self.lists.of_word(word)[1:]


def recipe_set(attack: Attack, words: WordSettings) -> RecipeSet:
    """Return the set of the words that an attack may use.

    Raises:
        ValueError: the attack may change a word twice, or its replacements depend on the sentence.
    """
    if not any(isinstance(c, RepeatModification) for c in attack.pre_constraints):
        msg = f"got {attack.name}, which may change a word twice, expected a recipe that does not"
        raise ValueError(msg)
    steps: list[Transformation] = [attack.transformation]
    parts: dict[Any, WordSet] = {}
    while steps:
        step = steps.pop(0)
        if isinstance(step, Composite):
            steps = [*step.transformations, *steps]
            continue
        span = step.span if isinstance(step, WordSwap) else None
        if span is None:
            msg = (
                f"got {attack.name}, whose {type(step).__name__} depends on more than the word, "
                "expected a recipe whose replacements can be listed: pwws, textfooler, ..."
            )
            raise ValueError(msg)
        if span == "listed":
            assert isinstance(step, WordSwap)  # it has a span
            part: WordSet = SwapSet(
                type(step).__name__, step, "by a listed word", words, constraints=attack.constraints
            )
            # Numbers as keys: sets of listed words all stay, equal sets of typos are one.
            parts[len(parts)] = part
        else:
            part = Typos(words, splits=span == "split")
            parts[span] = part
    # Splits include typos.
    if "split" in parts:
        parts.pop("typo", None)
    return RecipeSet(attack.name, tuple(parts.values()), tuple(attack.pre_constraints), words)
