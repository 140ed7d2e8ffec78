"""The set of a recipe has all that the recipe proposes."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from attacks.composition import Attack, Job
from attacks.document import Document
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, recipe_names
from attacks.resources.catalogue import Resources
from attacks.set_names import ADDED, check_names, check_threat, title
from attacks.word_sets import find_sets, find_threat, recipe_set
from certify.threats import ADDITIONS, Additions, Substitutions
from certify.words.score_certifiers import ScoreModel, SynonymCertifier
from layers.ngram_scores import NgramScores
from tests.unit.attacks.lexicon import write_resources
from tests.unit.certify.words.test_substitutions import predict, typos
from text import Vocabulary, WordSettings, WordTokenizer

FRONT = WordSettings(split="joined", front_end="spelling")
LISTABLE = ("pwws", "textfooler", "textbugger", "deepwordbug", "pruthi")
TEXTS = (
    "The film was good, well-made and didn't stop.",
    "A big MOVIE about Hollywood; they went 12 times to the U.S.",
    "good user@host film's end_of go",
)


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    neighbours = {"good": ["fine", "great", "top-notch"], "film": ["movie"], "big": ["large"]}
    return Resources(write_resources(tmp_path, neighbours))


def proposed(attack: Attack, text: str, draw: int) -> Sequence[str]:
    """All texts that the transformation makes of a text, at the words that may change."""
    document = Document.of(text)
    indices = set(range(len(document)))
    for condition in attack.pre_constraints:
        indices &= set(condition.allowed(document, columns=("text",)))
    job = Job(document, document, sorted(indices), Random(draw), 0)
    (candidates,) = attack.transformation.propose([job])
    return [candidate.columns[0] for candidate in candidates]


@pytest.mark.long
@pytest.mark.parametrize("recipe", LISTABLE)
def test_a_set_has_what_its_recipe_proposes(recipe: str, resources: Resources) -> None:
    settings = RecipeSettings(
        recipe=recipe, similarity=0 if recipe in ("textfooler", "textbugger") else None
    )
    attack = build(settings, resources)
    threat = Substitutions(words=FRONT, sets=(recipe_set(attack, FRONT),), k=1)
    count = 0
    for text in TEXTS:
        for draw in range(20):
            for changed in proposed(attack, text, draw):
                assert threat.contains(text, changed), (text, changed)
                count += threat.split(text) != threat.split(changed)
    assert count > 20


@pytest.mark.parametrize("recipe", LISTABLE)
def test_the_ids_of_a_proposal_are_in_the_reach(recipe: str, resources: Resources) -> None:
    words = ["the", "film", "was", "good", "go", "movie", "gd", "fine", "big", "times"]
    tokenizer = WordTokenizer(Vocabulary(dict.fromkeys(words, 1)), words=FRONT)
    threat = find_sets(recipe, FRONT, resources)
    attack = build(
        RecipeSettings(
            recipe=recipe, similarity=0 if recipe in ("textfooler", "textbugger") else None
        ),
        resources,
    )
    changes = 0
    for text in TEXTS:
        own = threat.split(text)
        reach = threat.reach(own, tokenizer)
        for draw in range(20):
            for changed in proposed(attack, text, draw):
                new = threat.split(changed)
                place = next((i for i, w in enumerate(own) if i >= len(new) or new[i] != w), None)
                if place is None:
                    continue
                size = 1 + len(new) - len(own)
                ids = [*tokenizer.ids(new[place : place + size]), -1][:2]
                rows = reach.ids[reach.starts[place] : reach.starts[place + 1]].tolist()
                assert ids in rows, (text, changed)
                changes += ids != rows[0]
    assert changes > 10


def test_a_witness_is_in_the_set(resources: Resources) -> None:
    tokenizer = WordTokenizer(
        Vocabulary(dict.fromkeys(["film", "movie", "good", "go", "od"], 1)), words=FRONT
    )
    threat = find_sets("textbugger,pwws,typos-splits", FRONT, resources)
    for word in ("film", "good", "the"):
        ids, _ = threat.reach([word], tokenizer)
        for row in ids.tolist():
            pair = tuple(i for i in row if i >= 0)
            text = threat.witness(word, pair, tokenizer)
            assert text is not None, (word, pair)
            assert tuple(tokenizer.ids(text.split(" "))) == pair
            assert threat.contains(word, text)


def test_stop_words_stay_where_the_recipe_keeps_them(resources: Resources) -> None:
    recipe = find_sets("deepwordbug", FRONT, resources)
    typos = find_sets("typos", FRONT, resources)
    assert typos.contains("the film", "teh film")
    assert not recipe.contains("the film", "teh film")
    assert recipe.contains("the film", "the flim")


def test_constraints_on_single_words_narrow_the_set(tmp_path: Path) -> None:
    folder = write_resources(tmp_path, {})
    vectors = folder / "vectors.txt"
    rows = {"good": (1.0, 0.0), "fine": (0.9, 0.3), "bad": (0.1, 1.0), "film": (0.0, -1.0)}
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in rows.items()]
    vectors.write_text("\n".join(lines) + "\n")
    resources = Resources(folder, vectors=vectors)
    threat = find_sets("textfooler", FRONT, resources)
    cosine = np.dot(rows["good"], rows["bad"]) / np.linalg.norm(rows["bad"])
    assert cosine < 0.5
    assert threat.contains("good", "fine")
    assert not threat.contains("good", "bad")
    assert find_sets("neighbours", FRONT, resources).contains("good", "bad")
    assert not find_sets("neighbours:1", FRONT, resources).contains("good", "bad")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checklist", "depends on more than the word"),
        ("iga", "may change a word twice"),
        ("nosuch", "got perturbation set 'nosuch', expected recipes"),
        ("pwws,", "got perturbation set '', expected recipes"),
        ("neighbours:0", "got perturbation set 'neighbours:0'"),
    ],
)
def test_sets_that_cannot_be_listed_are_refused(
    name: str, message: str, resources: Resources
) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        find_sets(name, FRONT, resources)


def test_every_recipe_has_a_set_or_is_refused(resources: Resources) -> None:
    listable = []
    for name in recipe_names():
        check_names(name)
        try:
            find_sets(name, FRONT, resources)
        except (ValueError, OSError):
            continue
        listable.append(name)
    assert set(LISTABLE) <= set(listable)


def test_a_file_of_lists_is_a_set(tmp_path: Path, resources: Resources) -> None:
    path = tmp_path / "lists.json"
    path.write_text('{"film": ["movie"], "good": ["bad"]}')
    threat = find_threat(f"{path},typos", lists=None, k=2, words=FRONT, resources=resources)
    assert threat.title == title(f"{path}, typos") == "lists+typos"
    assert threat.contains("a good film", "a bad movie")
    assert not threat.at(1).contains("a good film", "a bad movie")
    with pytest.raises(ValueError, match="or their file as a set"):
        find_threat("typos", lists=str(path), k=2, words=FRONT, resources=resources)


def test_the_part_of_speech_in_the_text_selects_synonyms(resources: Resources) -> None:
    every, tagged = (find_sets(name, FRONT, resources) for name in ("wordnet", "wordnet-pos"))
    # A verb after "to", a noun after "the" (`lexicon.WEIGHTS`).
    for text, noun, verb in (("the film", True, False), ("to film", False, True)):
        first = text.split()[0]
        assert every.contains(text, f"{first} movie")
        assert every.contains(text, f"{first} shoot")
        assert tagged.contains(text, f"{first} movie") == noun
        assert tagged.contains(text, f"{first} shoot") == verb
    # The tagger reads the text as it is written: it does not know "TO".
    assert tagged.occurrences("TO film") == ("to\tADJ", "film\tVERB")
    # Training does not know the part of speech.
    assert set(tagged.listed("film")) == set(every.listed("film"))


@pytest.mark.long
@pytest.mark.parametrize("names", ["wordnet-pos", "wordnet-pos-and-typos", "wordnet-pos,delete"])
def test_certificates_by_part_of_speech_equal_brute_force(names: str, resources: Resources) -> None:
    vocabulary = ("film", "movie", "shoot", "to", "the", "mo", "hoot", "move")
    tokenizer = WordTokenizer(
        Vocabulary({word: 9 - i for i, word in enumerate(vocabulary)}), words=FRONT
    )
    noun, verb = ("movie",), ("shoot", "take")
    stop_words = resources.stop_words()
    threat, held = find_sets(names, FRONT, resources), 0
    for seed in range(12):
        scores = NgramScores(tokenizer.vocab_size, 2)
        drawn = torch.randint(
            -8, 9, scores.words.shape, generator=torch.Generator().manual_seed(seed)
        )
        with torch.no_grad():
            scores.words.copy_(drawn / 8)
        scorer = ScoreModel(scores.eval().requires_grad_(requires_grad=False), tokenizer)
        for text in ("the film to Film", "to film the film"):
            (found,) = SynonymCertifier(scorer, threat)([text], (None,))
            options = []
            previous = ""
            for word in text.lower().split():
                own = [word, *((noun if previous == "the" else verb) * (word == "film"))]
                if "typos" in names:
                    own = sorted({typo for new in own for typo in typos(new, splits=False)})
                if "delete" in names and word in stop_words:
                    own.append("")
                distinct = {tuple(tokenizer.ids(new.split())): new for new in own}
                options.append(list(distinct.values()))
                previous = word
            texts = [" ".join(words) for words in product(*options)]
            logits = torch.stack([predict(scorer, changed) for changed in texts])
            leads = logits[:, found.prediction] - logits[:, 1 - found.prediction]
            assert found.holds == (bool((leads > 0).all()),), text
            held += found.holds[0]
            if found.witness is not None:
                assert threat.contains(text, found.witness)
    assert held > 0


@pytest.mark.parametrize("name", ["wordnet", "neighbours:1", "inflections"])
def test_a_typo_in_a_listed_word(name: str, resources: Resources) -> None:
    threat = find_sets(f"{name}-and-typos", FRONT, resources)
    word = {"wordnet": "movie", "neighbours:1": "movie", "inflections": "films"}[name]
    for changed in ("film", "fil", word, word[1:], f"x{word}"):
        assert threat.contains("film", changed), changed
    assert not threat.contains("film", word[2:])
    assert not find_sets(f"{name},typos", FRONT, resources).contains("film", word[1:])
    assert threat.title == title(f"{name}-and-typos") == f"{name}-and-typos"


def test_a_recipe_of_synonyms_and_a_file_begin_a_chain(
    tmp_path: Path, resources: Resources
) -> None:
    path = tmp_path / "lists.json"
    path.write_text('{"good": ["bad"]}')
    threat = find_sets(f"pwws-and-{path}-and-typos", FRONT, resources)
    assert threat.title == title(f"pwws-and-{path}-and-typos") == "pwws-and-lists-and-typos"
    assert threat.contains("film", "moovie")
    assert threat.contains("well", "bd")  # well, good, bad
    assert not find_sets("pwws-and-typos", FRONT, resources).contains("well", "bd")
    with pytest.raises(ValueError, match="expected a set of synonyms before -and-"):
        find_sets("deepwordbug-and-wordnet", FRONT, resources)


def test_a_least_cosine_of_neighbours(tmp_path: Path) -> None:
    folder = write_resources(tmp_path, {})
    vectors = folder / "vectors.txt"
    rows = {"good": (1.0, 0.0), "fine": (0.9, 0.3), "bad": (0.5, 0.9), "film": (0.0, -1.0)}
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in rows.items()]
    vectors.write_text("\n".join(lines) + "\n")
    for name, words in (("neighbours@0.9", "fine"), ("neighbours@0.4", "fine bad")):
        threat = find_sets(name, FRONT, Resources(folder, vectors=vectors))
        assert threat.sets[0].listed("good") == tuple(words.split())
        assert threat.title == title(name) == name
    # Stored lists have no cosines.
    with pytest.raises(ValueError, match="ready lists of neighbours, expected word vectors"):
        find_sets("neighbours:8@0.5", FRONT, Resources(folder))


@pytest.mark.parametrize(
    "words",
    [
        WordSettings(),
        WordSettings(split="alphanumeric"),
        WordSettings(split="joined", front_end="canonical"),
        FRONT,
    ],
    ids=["clitics", "alphanumeric", "canonical", "spelling"],
)
@pytest.mark.parametrize("name", ["neighbours", "hard-label", "neighbours-and-inflections"])
def test_a_replacement_is_what_the_model_reads_of_it(
    name: str, words: WordSettings, tmp_path: Path
) -> None:
    listed = ("fine", "top-notch", "clich\u00e9", "Great")
    resources = Resources(write_resources(tmp_path, {"good": listed}))
    # A word with an accent may be in a vocabulary, though a front end writes it without.
    known = ("good", "fine", "cliche", "clich\u00e9", "great", "top", "-", "notch", "topnotch")
    tokenizer = WordTokenizer(Vocabulary(dict.fromkeys(known, 1)), words=words)
    threat = find_sets(name, words, resources)
    ids, _ = threat.reach(["good"], tokenizer)
    single = [new for new in listed if len(threat.split(new)) == 1]
    assert len(single) == (4 if words.split == "joined" else 3)
    expected = {tuple(tokenizer.encode([new])[0].input_ids) for new in ("good", *single)}
    assert {(first,) for first, second in ids.tolist() if second < 0} >= expected
    if "-and-" not in name:
        assert {(first,) for first, _ in ids.tolist()} == expected
    assert all(threat.contains("good", new) == (new in single) for new in listed)
    assert ("one word of the model" in threat.statement) == (words.split != "joined")


def test_stop_words_of_a_language(resources: Resources) -> None:
    threat = find_sets("delete:german,insert:german", FRONT, resources)
    # In canonical form, as the model reads words.
    assert threat.at(1).contains("Film f\u00fcr alle", "film alle")
    assert threat.at(1).contains("Film gut", "Film \u00fcber gut")
    assert not threat.at(1).contains("the film", "film")


def test_keyboards_of_languages(resources: Resources) -> None:
    english, german = (
        find_sets(f"typos-keyboard{language}", FRONT, resources) for language in ("", ":german")
    )
    assert english.contains("film", "fikm")
    assert english.contains("type", "tupe")
    assert not german.contains("type", "tupe")
    assert german.contains("type", "txpe")


@pytest.mark.parametrize(
    ("language", "word", "slip"),
    [
        ("german", "oper", "o\u00fcer"),
        ("german", "f\u00fcr", "fpr"),
        ("spanish", "film", "fi\u00f1m"),
    ],
)
def test_keys_with_an_accent_are_keys(
    language: str, word: str, slip: str, resources: Resources
) -> None:
    # The model reads them without: "ouer", "fur", "finm".
    threat = find_sets(f"typos-keyboard:{language}", FRONT, resources)
    tokenizer = WordTokenizer(
        Vocabulary(dict.fromkeys(threat.split(f"{word} {slip}"), 1)), words=FRONT
    )
    ids, _ = threat.reach(threat.split(word), tokenizer)
    assert tokenizer.encode([slip])[0].input_ids[0] in ids[:, 0]
    assert threat.contains(word, slip)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wordnt", r"'wordnt' \(did you mean wordnet\?\), expected recipes"),
        ("typos:2", r"'typos:2' \(did you mean typos\?\)"),
        ("typo-keyboard", "did you mean typos-keyboard"),
        ("neighbours:x", "got perturbation set 'neighbours:x'"),
        ("neighbours:8@", "got perturbation set 'neighbours:8@'"),
        ("neighbours@2", "got perturbation set 'neighbours@2'"),
        ("wordnet:german", "a language without resources, expected one of english, or a JSON file"),
        ("delete:latin", "expected one of english, german, french, spanish"),
        ("typos-and-wordnet", "expected a set of words before -and-: wordnet"),
        ("delete-and-typos", "expected a set of words before -and-: wordnet"),
        ("wordnet-and-", "got perturbation set ''"),
        ("wordnet-and-wordnet-pos", "expected wordnet-pos first or alone"),
        ("wordnet-and-canonical", "expected canonical first or alone"),
    ],
)
def test_wrong_names_are_refused_before_anything_is_read(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_names(name)


@pytest.mark.parametrize(
    "name", ["typos-keyboard", "typos-inner", "typos-splits", "wordnet-and-typos", "canonical"]
)
def test_sets_of_a_front_end_are_refused_without_it(name: str, resources: Resources) -> None:
    with pytest.raises(ValueError, match=r"words\.front_end=none, expected a model with"):
        find_sets(name, WordSettings(), resources)


def test_added_text_is_a_threat_alone_and_in_front_of_sets(resources: Resources) -> None:
    assert ADDED == ADDITIONS
    alone, both, plain = (
        find_threat(name, lists=None, k=1, words=FRONT, resources=resources)
        for name in ("append", "insert-any, typos,pwws", "append,canonical")
    )
    assert isinstance(alone, Additions)
    assert alone.changes is None
    assert isinstance(both, Additions)
    assert both.changes is not None
    assert (both.title, both.k, both.changes.k) == ("insert-any+typos+pwws", 1, 1)
    # Added text may be written in any string of the same canonical form anyway.
    assert plain.digest == alone.digest != both.digest
    assert both.contains("good film", "zz god zz film zz")
    assert not both.contains("good film", "zz god zz fylm zz")
    assert both.at(None).contains("good film", "zz god zz fylm zz")
    assert not alone.contains("good film", "good zz film")
    for name in ("append", "append,typos"):
        check_threat(name)
    # Of a part of a text the tagger may find other parts of speech.
    find_threat("append,wordnet-pos", lists=None, k=1, words=FRONT, resources=resources)
    with pytest.raises(ValueError, match="got wordnet-pos with append-glued, expected append"):
        find_threat("append-glued,wordnet-pos", lists=None, k=1, words=FRONT, resources=resources)
    for name in ("typos,append", "append,", "apend"):
        with pytest.raises(ValueError, match="perturbation set"):
            check_threat(name)
