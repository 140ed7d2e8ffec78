"""What may stand in the place of a word."""

import logging
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from attacks.composition import Group
from attacks.constraints import (
    EditDistance,
    PartOfSpeech,
    WordDistance,
    WordsChanged,
    WordSimilarity,
    edit_distance,
)
from attacks.document import Candidate, Document
from attacks.resources.tagger import Tagger
from attacks.resources.tags import END, START, UNIVERSAL, WordContext, features, normalise
from attacks.transformations.variants import changed_text
from tests.unit.attacks.lexicon import (
    KNOWN,
    TAGS,
    WEIGHTS,
    small_tagger,
    small_vectors,
    write_tagger,
    zipped,
)
from text import Text


def group(text: Text, index: int, *words: str, original: Text | None = None) -> Group:
    document = Document.of(text)
    return Group(
        document if original is None else Document.of(original),
        document,
        document.replace_by(index, words),
    )


# The tagger


def naive(weights: dict[str, dict[str, float]], words: list[str]) -> list[str]:
    """Word by word, in the order of the original, with its way of deciding ties."""
    context = [*START, *map(normalise, words), *END]
    near, far = START
    tags = []
    for i, word in enumerate(words):
        tag = KNOWN.get(word)
        if tag is None:
            place = WordContext(
                (context[i], context[i + 1]), word, (context[i + 3], context[i + 4])
            )
            scores = dict.fromkeys(TAGS, 0.0)
            for feature in features((far, near), place):
                for label, weight in weights.get(feature, {}).items():
                    scores[label] += weight
            tag = max(TAGS, key=lambda label: (scores[label], label))
        tags.append(tag)
        far, near = near, tag
    return [UNIVERSAL[tag] for tag in tags]


WORDS = st.lists(
    st.sampled_from("the a to run running good big play film wood x-ray 1999 7up Paris -".split()),
    max_size=6,
)


@pytest.mark.long
@given(words=WORDS)
def test_tags_of_a_text(words: list[str]) -> None:
    assert small_tagger().tag(words) == naive(WEIGHTS, words)


@pytest.mark.long
@given(before=WORDS, tried=WORDS.filter(bool), after=WORDS)
def test_words_tried_in_a_place(before: list[str], tried: list[str], after: list[str]) -> None:
    tagger = small_tagger()
    found = [tagger.universal[i] for i in tagger.attempt(before, tried, after)]
    assert found == [naive(WEIGHTS, [*before, word, *after])[len(before)] for word in tried]


@pytest.mark.long
@given(before=WORDS, tried=WORDS.filter(bool), after=WORDS, seed=st.integers(0, 2**16))
def test_ties_and_rounding_as_in_the_original(
    before: list[str], tried: list[str], after: list[str], seed: int
) -> None:
    # A tenth cannot be written exactly: sums depend on their order, and many are nearly equal.
    generator = np.random.default_rng(seed)
    weights = {
        feature: {tag: float(generator.integers(-2, 3)) / 10 for tag in TAGS}
        for feature in (
            *("bias", "i suffix ing", "i pref1 r", "i word good", "i word film", "i-1 tag NN"),
            *("i-2 tag NN", "i tag+i-2 tag NN NN", "i-1 word film", "i+1 word film"),
            *("i+1 suffix ilm", "i+2 word film", "i-1 suffix ood", "i-2 word good"),
            *("i-1 tag+i word NN film", "i-1 tag+i word VB good", "i+2 word good"),
        )
    }
    tagger = Tagger(weights, KNOWN, TAGS)
    assert tagger.tag([*before, *after]) == naive(weights, [*before, *after])
    found = [tagger.universal[i] for i in tagger.attempt(before, tried, after)]
    assert found == [naive(weights, [*before, word, *after])[len(before)] for word in tried]


def test_many_words_are_met(tmp_path: Path) -> None:
    tagger = Tagger.read(zipped(write_tagger(tmp_path)))
    words = [f"word{i}ing" for i in range(3000)]
    assert set(tagger.attempt(["the"], words, [])) == {tagger.universal.index("VERB")}


def test_a_tagger_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="could not read"):
        Tagger.read(tmp_path)
    folder = write_tagger(tmp_path)
    (folder / f"{folder.name}.tagdict.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="got no tagger in it"):
        Tagger.read(folder)


@pytest.mark.slow
@pytest.mark.data
def test_tags_as_nltk_gives_them(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nltk = pytest.importorskip("nltk")
    monkeypatch.setattr(nltk.data, "path", [str(data_dir / "nltk")])
    monkeypatch.setattr(nltk.tag.mapping, "_UNIVERSAL_DATA", "taggers/universal_tagset")
    theirs = nltk.tag.PerceptronTagger()
    ours = Tagger.read(data_dir / "nltk/taggers/averaged_perceptron_tagger_eng.zip")

    def tags(words: list[str]) -> list[str]:
        fine = [tag for _, tag in theirs.tag(words)]
        return [nltk.tag.map_tag("en-ptb", "universal", tag) for tag in fine]

    for tag in theirs.classes:
        assert UNIVERSAL.get(tag, "X") == nltk.tag.map_tag("en-ptb", "universal", tag)
    lines = (data_dir / "sst2_sentences" / "test.tsv").read_text().splitlines()[1:200]
    texts = [line.split("\t")[0].split() for line in lines]
    for i, words in enumerate(texts):
        assert ours.tag(words) == tags(words)
        place = i % len(words)
        before, after = words[max(0, place - 4) : place], words[place + 1 : place + 4]
        tried = texts[i - 1]
        found = [ours.universal[tag] for tag in ours.attempt(before, tried, after)]
        assert found == [tags([*before, word, *after])[len(before)] for word in tried]


# Part of speech


def test_the_same_part_of_speech() -> None:
    # "running" is a verb, "wood" a noun here, "good" and "big" are adjectives.
    one = group("the good story", 1, "big", "running", "wood")
    assert PartOfSpeech(small_tagger()).keep([one]) == [[True, False, False]]


def test_verbs_and_nouns() -> None:
    one = group("we like wood", 2, "running", "good")
    assert PartOfSpeech(small_tagger()).keep([one]) == [[True, False]]
    strict = PartOfSpeech(small_tagger(), allow_verb_noun_swap=False)
    assert strict.keep([one]) == [[False, False]]


def test_several_groups_and_places() -> None:
    document = Document.of("good wood")
    mixed = Group(
        document, document, [*document.replace_by(0, ["big", "the"]), document.replace(1, "big")]
    )
    found = PartOfSpeech(small_tagger()).keep([mixed, group("wood", 0, "running")])
    assert found == [[True, False, False], [True]]


def test_more_than_a_word_is_none() -> None:
    one = group("the good film", 1, "very big", ",", "big")
    assert PartOfSpeech(small_tagger()).keep([one]) == [[False, False, True]]
    assert WordSimilarity(small_vectors(), -1).keep([one]) == [[False, False, True]]


def test_the_reference_compares_word_by_word() -> None:
    # "big" with "good", "wood" with "film"; nothing with a comma; and nothing beyond the end.
    one = group("the good film", 1, "big wood", ",", "big good", "big wood wood")
    assert PartOfSpeech(small_tagger(), compat="textattack").keep([one]) == [
        [True, True, False, False]
    ]


def test_surroundings_end_with_the_text_of_a_pair() -> None:
    # Behind "to" everything is a verb; but that is the end of the other text.
    one = group(("we want to", "play good"), 3, "wood")
    verbs = PartOfSpeech(small_tagger(), allow_verb_noun_swap=False)
    assert verbs.keep([one]) == [[True]]
    joined = group("we want to play good", 3, "wood")
    assert verbs.keep([joined]) == [[True]]
    tagger = small_tagger()
    assert tagger.universal[tagger.attempt(["to"], ["play"], [])[0]] == "VERB"
    assert tagger.universal[tagger.attempt([], ["play"], [])[0]] == "NOUN"


def test_the_reference_reads_where_a_word_stands_first() -> None:
    # "big" is an adjective; "run" behind "to" a verb, and without it a noun.
    text = "run fast to run"
    strict: dict[str, list[list[bool]]] = {}
    modes = ("none", "textattack")
    for compat in modes:
        constraint = PartOfSpeech(small_tagger(), allow_verb_noun_swap=False, compat=compat)
        strict[compat] = constraint.keep([group(text, 3, "wood", "play")])
    tagger = small_tagger()
    assert tagger.tag(text.split())[::3] == ["NOUN", "VERB"]
    assert strict["none"] == [[True, True]]
    assert strict["textattack"] == [[False, False]]


def test_the_reference_looks_at_the_original() -> None:
    changed = group("to good film", 1, "running", original="the running film")
    constraint = PartOfSpeech(small_tagger(), compat="textattack")
    assert constraint.keep([changed]) == [[True]]
    assert PartOfSpeech(small_tagger()).keep([changed]) == [[False]]


# Similarity of words


def test_a_minimum_cosine() -> None:
    one = group("a GOOD film", 1, "fine", "Great", "bad", "unheard")
    assert WordSimilarity(small_vectors(), 0.95).keep([one]) == [[True, False, False, True]]
    assert WordSimilarity(small_vectors(), 0.9).keep([one]) == [[True, True, False, True]]
    unheard = group("unheard of", 0, "bad")
    assert WordSimilarity(small_vectors(), 0.9).keep([unheard]) == [[True]]


def test_exactly_the_minimum() -> None:
    import torch

    vectors = small_vectors()
    good, fine = (torch.from_numpy(vectors.matrix[i]) for i in (0, 1))
    cosine = float(torch.nn.functional.cosine_similarity(good, fine, dim=0))
    vectors.matrix.flags.writeable = False  # as it comes from the cache
    one = group("good", 0, "fine")
    assert WordSimilarity(vectors, cosine).keep([one]) == [[True]]
    assert WordSimilarity(vectors, np.nextafter(cosine, 2)).keep([one]) == [[False]]


def test_words_of_the_reference() -> None:
    # Words are compared with those of the original in the same position.
    one = group("so good", 0, "fine film", ",", "fine good u.s", original="good film")
    assert WordSimilarity(small_vectors(), 0.9, compat="textattack").keep([one]) == [
        [True, True, False]
    ]


def test_without_vectors_nothing_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        constraint = WordSimilarity(None, 0.5)
    assert "is not tested" in caplog.text
    assert constraint.keep([group("good", 0, "bad", "fine film")]) == [[True, False]]


def test_a_minimum_that_is_no_cosine() -> None:
    with pytest.raises(ValueError, match=r"got minimum=1\.5, expected a cosine"):
        WordSimilarity(None, 1.5)


# Edit distance


def test_characters_that_differ() -> None:
    near = group("a good film", 1, "god", "fine", "g")
    assert EditDistance(1).keep([near]) == [[True, False, False]]
    assert EditDistance(3).keep([near, near]) == [[True, False, True]] * 2


def test_distance_from_the_original() -> None:
    drifted = group("a gxxd film", 1, "gxxx", original="a good film")
    assert EditDistance(2).keep([drifted]) == [[False]]
    assert EditDistance(3).keep([drifted]) == [[True]]
    assert EditDistance(0).keep([group(("ab", "c"), 1, "d")]) == [[False]]


def random_candidates(document: Document, random: Random) -> list[Candidate]:
    """Return a change of each kind that a document offers, each in a random place."""
    index = random.randrange(len(document))
    words = ["", ",", "x", "xyz uvw", document.words[index][::-1], " ", "a" * random.randrange(40)]
    made = [document.replace(index, word) for word in words]
    made += [document.delete(index), document.insert(index, "new"), document.insert(0, "")]
    made.append(document.insert(index, "one two", after=True))
    if index + 1 < len(document) and document.column_of(index) == document.column_of(index + 1):
        made += [document.merge(index, "merged"), document.merge(index, "")]
    return made


@pytest.mark.parametrize("seed", range(40))
def test_verdicts_are_those_about_whole_texts(seed: int) -> None:
    random = Random(seed)
    drawn = ["".join(random.choices("ab -',", k=random.randint(6, 60))) + " a b" for _ in range(2)]
    original = Document.of(drawn[0] if seed % 2 else (drawn[0], drawn[1]))
    groups, current, other = [], original, original
    for _ in range(12):
        found = random_candidates(current, random) + random_candidates(other, random)
        groups.append(Group(original, current, found))
        other, current = current, current.accept(random.choice(random_candidates(current, random)))
        if not len(current):
            break
    whole = "\n".join(original.columns)
    for maximum in (0, 1, 2, 5, 13, 30):
        assert EditDistance(maximum).keep(groups) == [
            [Levenshtein.distance(whole, "\n".join(one.columns)) <= maximum for one in g.candidates]
            for g in groups
        ]


def test_a_text_of_one_word_that_is_written_anew() -> None:
    document = Document.of("free")
    found = [changed_text(document, (text,), [0]) for text in ("free " * 50, "frees", "")]
    assert EditDistance(5).keep([Group(document, document, found)]) == [[False, True, True]]


def test_whole_texts_are_compared_only_near_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def distance(first: str, second: str, **settings: Any) -> int:
        compared.append(second)
        return Levenshtein.distance(first, second, **settings)

    recording = SimpleNamespace(distance=distance)
    monkeypatch.setattr(edit_distance, "Levenshtein", recording)
    document = Document.of("a good film " * 50)
    candidates = [document.replace(i, "x") for i in range(len(document))]
    assert all(EditDistance(30).keep([Group(document, document, candidates)])[0])
    assert compared == [document.text]


def test_distances_are_not_negative() -> None:
    with pytest.raises(ValueError, match="got maximum=-1"):
        EditDistance(-1)


# Distances, and the number of words


def test_distances_are_squared() -> None:
    vectors = small_vectors()
    one = group("a good film", 1, "fine", "great", "bad", "unknown")
    far = {
        word: float(np.square(vectors.matrix[vectors.index[word]] - vectors.matrix[0]).sum())
        for word in ("fine", "great", "bad")
    }
    assert WordDistance(vectors, far["fine"] + 1e-6).keep([one]) == [[True, False, False, True]]
    assert WordDistance(vectors, 10.0).keep([one]) == [[True] * 4]
    assert WordDistance(None).keep([one]) == [[True] * 4]
    with pytest.raises(ValueError, match="at least 0"):
        WordDistance(vectors, -1.0)


def test_distances_from_the_original_do_not_add_up() -> None:
    vectors = small_vectors()
    drifted = group("a great film", 1, "fine", original="a bad film")
    near = 0.3
    assert WordDistance(vectors, near, against="current").keep([drifted]) == [[True]]
    assert WordDistance(vectors, near).keep([drifted]) == [[False]]


def test_insertions_and_merged_words_have_no_word_to_compare_with() -> None:
    document = Document.of("a good film")
    changes = [document.insert(1, "bad"), document.merge(1, "bad")]
    one = Group(document, document, changes)
    for constraint in (
        WordSimilarity(small_vectors(), 0.99),
        WordDistance(small_vectors(), 0.0),
        PartOfSpeech(small_tagger()),
    ):
        assert constraint.keep([one]) == [[True, True]]


def test_words_that_may_differ() -> None:
    current = Document.of("a good film, good plot")
    current = current.accept(current.replace(1, "bad"))
    original = Document.of("a good film, good plot")
    one = Group(original, current, [current.replace(2, "movie"), current.replace(1, "good")])
    assert WordsChanged(maximum=1).keep([one]) == [[False, True]]
    assert WordsChanged(share=0.2).keep([one]) == [[False, True]]
    assert WordsChanged(share=0.21).keep([one]) == [[True, True]]
    assert WordsChanged(maximum=2).admits(original, Document.of("a good, good plot x y")) is False
