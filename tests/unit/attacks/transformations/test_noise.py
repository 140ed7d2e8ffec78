"""Random noise: what each kind may do to a word, and how much of a text it changes."""

import unicodedata
from random import Random
from typing import Any

import pytest

import attacks
from attacks.composition import Job
from attacks.document import Document
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.transformations.noise import (
    add_diacritic,
    described_neighbours,
    disemvowel,
    intrude,
    shuffle_all,
    shuffle_inside,
    truncate,
)
from text import Text

TEXT = "A gorgeous, witty and seductive movie; what's more it is fun!"


def noisy(recipe: str, kind: str, text: Text = TEXT, seed: int = 0, **settings: Any) -> Text:
    attack = build(RecipeSettings(recipe=recipe, variants=[kind], **settings))
    document = Document.of(text)
    job = Job(document, document, list(range(len(document))), Random(seed), 1, 1)
    ((candidate,),) = attack.transformation.propose([job])
    return candidate.text


def test_visual_neighbours_share_letter_and_case() -> None:
    for letter in "abyzAZ":
        neighbours, weights = described_neighbours(letter)
        assert 0 < len(neighbours) == len(weights) <= 20
        assert letter not in neighbours
        case = "CAPITAL" if letter.isupper() else "SMALL"
        for other in neighbours:
            words = unicodedata.name(other).split()
            assert {"LATIN", letter.upper(), case} <= set(words)
    # "A" differs from "A WITH GRAVE" by two words.
    neighbours, weights = described_neighbours("A")
    assert weights[neighbours.index("À")] == pytest.approx(2.718281828 ** -(2**0.5 / 2))
    assert described_neighbours("1") == described_neighbours("мир"[0]) == ((), ())


def test_a_diacritic_is_one_character() -> None:
    marked = [add_diacritic(letter, Random(0)) for letter in "abcdefghijklmnopqrstuvwxyz"]
    assert "".join(marked)[:7] == "âḃĉḋêḟĝ"
    bare = [unicodedata.normalize("NFD", letter)[0] for letter in marked]
    assert bare == [*"abcdefghijklmnopqrstuvwxyz"]
    assert add_diacritic("7", Random(0)) == "7"


@pytest.mark.parametrize("seed", range(5))
def test_each_kind_of_word(seed: int) -> None:
    random = Random(seed)
    for word in ("a", "of", "the", "film", "aaaa", "seductive"):
        inner, full = shuffle_inside(word, random), shuffle_all(word, random)
        assert sorted(inner) == sorted(full) == sorted(word)
        assert (inner[0], inner[-1]) == (word[0], word[-1])
        assert (inner != word) == (word in {"film", "seductive"})
        assert (full != word) == (word in {"the", "film", "seductive"})
        spied = intrude(word, random, share=0.3)
        # All intruders are the same sign.
        signs = {char for char in spied if not char.isalnum()}
        assert len(signs) == (len(word) > 1)
        assert "".join(char for char in spied if char not in signs) == word
        assert truncate(word, random) == (word[:-1] if len(word) > 3 else word)
    assert [disemvowel(w, random) for w in ("of", "eau", "AUDIO", "Film")] == [
        *("of", "eau", "D", "Flm")
    ]


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_the_share_of_the_words(p: float) -> None:
    before = Document.of(TEXT)
    for kind, able in (("truncate", 6), ("full-shuffle", 8), ("disemvowel", 8)):
        after = Document.of(noisy("zeroe", kind, p=p))
        changed = sum(a != b for a, b in zip(before.words, after.words, strict=True))
        # Rounded up; at most the words that this noise can change.
        assert changed == min(-int(-p * len(before) // 1), able)


def test_the_share_of_the_letters_and_spaces() -> None:
    text = "the same words " * 400
    letters = text.replace(" ", "")
    seen = str(noisy("viper", "dces", text, p=0.3)).replace(" ", "")
    share = sum(a != b for a, b in zip(letters, seen, strict=True)) / len(letters)
    assert abs(share - 0.3) < 0.03
    joined = noisy("zeroe", "segment", text, p=0.3)
    assert abs((len(text) - len(joined)) / 1199 - 0.3) < 0.05
    assert noisy("zeroe", "segment", p=1.0) == (
        "Agorgeous, wittyandseductivemovie; what'smoreitisfun!"
    )
    assert noisy("viper", "eces", "a é q", p=1.0) == "â é q"
    assert noisy("zeroe", "segment", ("a b", "c d"), p=1.0) == ("ab", "cd")


def test_recipes_ask_once_for_each_kind() -> None:
    def classify(texts: list[Text]) -> list[list[float]]:
        return [[0.0, 1.0] for _ in texts]

    for recipe, kinds in (("viper", 2), ("zeroe", 8)):
        outcome = attacks.attack(classify, [(TEXT, 1)], recipe=recipe, progress=False)
        assert outcome.records[0].queries == 1 + kinds
    (record,) = attacks.attack(classify, [(TEXT, 1)], recipe="viper", p=0.0).records
    # Without noise there is no text to ask about.
    assert (record.outcome, record.queries) == ("failed", 1)
    copies = attacks.augment([TEXT], "zeroe", 3, share=0.5)
    assert len(copies[0]) == 3


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match=r"got p=1\.5, expected a finite"):
        RecipeSettings(recipe="viper", p=1.5)
    with pytest.raises(ValueError, match="got variants phonetic for zeroe, expected some of inner"):
        build(RecipeSettings(recipe="zeroe", variants=["phonetic"]))
    with pytest.raises(ValueError, match="got p for charmer"):
        build(RecipeSettings(recipe="charmer", p=0.5))
