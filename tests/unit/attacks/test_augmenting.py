"""Changed copies of texts: as many words as asked for, from the seed and the number alone."""

from collections.abc import Sequence
from typing import Any

import pytest

import attacks
from attacks.augmenting import Augmenter, augment
from attacks.composition import Attack
from attacks.constraints import WordsChanged
from attacks.constraints.preconstraints import Columns
from attacks.document import Document, words_of
from attacks.outcome import words_changed
from attacks.search import Greedy
from tests.unit.attacks.toys import Letters, Once, Synonyms
from text import Text

TEXTS: list[Text] = ["a good film, good plot", "fine", "", "nothing here", "good " * 30]


def toy(**settings: Any) -> Attack:
    parts: dict[str, Any] = {"transformation": Synonyms(), "pre_constraints": [Once()], **settings}
    return Attack(name="toy", search=Greedy(), **parts)


def test_copies_differ_from_their_text_and_each_other() -> None:
    made = augment(TEXTS, toy(), 6, share=0.4, seed=1)
    assert [len(copies) for copies in made][2:4] == [0, 0]
    for text, copies in zip(TEXTS, made, strict=True):
        assert text not in copies
        assert len(set(copies)) == len(copies) <= 6
    assert all(1 <= changes(TEXTS[0], copy) <= 2 for copy in made[0])
    assert any(changes(TEXTS[0], copy) == 2 for copy in made[0])
    assert attacks.augment is augment


def changes(text: Text, copy: Text) -> int:
    assert isinstance(text, str)
    assert isinstance(copy, str)
    pairs = zip(words_of(text), words_of(copy), strict=True)
    return sum(old != new for old, new in pairs)


def test_a_text_has_the_same_copies_in_any_company() -> None:
    def same(attack: Attack) -> None:
        made = Augmenter(attack, copies=3, share=0.5, seed=2)
        together = list(made.run(TEXTS))
        alone = [next(made.run([text], first=i)) for i, text in enumerate(TEXTS)]
        assert together == alone
        assert together != list(Augmenter(attack, copies=3, share=0.5, seed=3).run(TEXTS))
        many: Sequence[Text] = TEXTS * 30
        assert list(made.run(many))[:5] == together

    same(toy())
    same(toy(transformation=Letters()))


def test_constraints_and_pairs() -> None:
    bound = toy(constraints=[WordsChanged(maximum=1)])
    for copy in augment(TEXTS, bound, 5, share=1.0)[4]:
        assert words_changed(Document.of(TEXTS[4]), Document.of(copy), compat="none") == 1
    pair: Text = ("good film", "good plot")
    kept = toy(pre_constraints=[Once(), Columns()])
    for copy in augment([pair], kept, 4, share=1.0, columns=("premise", "hypothesis"))[0]:
        assert isinstance(copy, tuple)
        assert copy[0] == "good film"
    assert augment([], toy(), 2) == []


def test_recipes_by_name() -> None:
    found = augment(["a wonderful evening in the city"], "deepwordbug", 5, seed=4)
    assert len(found[0]) == 5
    assert found == augment(["a wonderful evening in the city"], "deepwordbug", 5, seed=4)
    with pytest.raises(ValueError, match="got recipe 'nothing'"):
        augment(["a film"], "nothing")
    with pytest.raises(ValueError, match="share"):
        augment(["a film"], toy(), share=0.0)
    with pytest.raises(ValueError, match="copies"):
        augment(["a film"], toy(), 0)
