"""Unseen characters, keys, names, numbers, contractions, forms, inserted and merged words."""

import unicodedata
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from attacks.composition import Group, Job
from attacks.constraints.fluency import Fluency
from attacks.constraints.preconstraints import WordLength
from attacks.constraints.thought_vectors import ThoughtVectors
from attacks.document import Document
from attacks.resources.inflected import Inflected
from attacks.resources.segmenters import LongestWords, characters
from attacks.resources.word_forms import WordForms
from attacks.resources.word_scores import MaskedWordScorer
from attacks.transformations import (
    Composite,
    Contract,
    DeleteWord,
    Expand,
    Inflect,
    InsertInvisible,
    NeighbourKey,
    OtherName,
    OtherNumber,
    OtherPlace,
    Reorder,
    Stages,
    SwapTwins,
    TypeAndDelete,
)
from attacks.transformations.inserted_words import MaskedLMInsert, MaskedLMMerge
from attacks.transformations.keys import find_neighbours
from attacks.transformations.subwords import SubwordSwap, combinations
from attacks.transformations.unseen import TWINS
from tests.unit.attacks.lexicon import small_tagger, small_vectors, write_wordnet
from tests.unit.attacks.transformations.test_expected_words import (
    PIECES,
    preferring,
    random_model,
    wordpiece,
)


def texts(
    transformation: Any, text: str, *indices: int, seed: int = 0, stage: int = 0
) -> list[str]:
    document = Document.of(text)
    chosen = indices or range(len(document))
    job = Job(document, document, list(chosen), Random(seed), 0, stage)
    return [str(one.text) for one in transformation.propose([job])[0]]


# Unseen


def test_invisible_characters_are_the_only_difference() -> None:
    (changed,) = texts(InsertInvisible(), "film")
    (added,) = set(changed) - set("film")
    assert unicodedata.category(added) == "Cf"
    assert changed.replace(added, "") == "film"
    assert changed[0] == "f"
    assert changed[-1] == "m"
    assert len(texts(InsertInvisible(one=False), "film")) == 3
    assert texts(InsertInvisible(), "a") == []


def test_twins_are_other_characters() -> None:
    assert all(one != other and len(other) == 1 for one, other in TWINS.items())
    assert len(texts(SwapTwins(one=False), "Film")) == 3  # of F there is none
    assert texts(SwapTwins(), "\u7535\u5f71") == []


def shown(text: str) -> str:
    """The characters as the two swapped ones are shown: from right to left inside the override."""
    inner = text[text.index("\u202e") + 1 :]
    letters = [one for one in inner if one not in "\u202c\u2066\u2069"]
    return text[: text.index("\u202d")] + "".join(reversed(letters[:2])) + "".join(letters[2:])


def test_reordered_characters_are_shown_in_their_order() -> None:
    for changed in texts(Reorder(one=False), "film"):
        assert shown(changed) == "film"
        plain = "".join(one for one in changed if one.isalpha())
        assert plain != "film"
        assert sorted(plain) == sorted("film")


def test_a_letter_that_is_deleted_where_it_is_shown() -> None:
    (changed,) = texts(TypeAndDelete(), "film")
    at = changed.index("\u0008")
    assert changed[: at - 1] + changed[at + 1 :] == "film"


# Keys


def test_keys_beside_each_other() -> None:
    near = find_neighbours("qwerty")
    assert set(near["g"]) == set("fhtyvb")
    assert set(near["q"]) == set("wa")
    assert all(key in near[other] for key, others in near.items() for other in others)
    assert "z" in find_neighbours("qwertz")["t"]
    assert "\u00f6" in find_neighbours("qwertz")["l"]
    assert "\u00f1" in find_neighbours("spanish")["l"]
    changed = texts(NeighbourKey(one=False, keep_first=True, keep_last=True), "fIg")
    assert set(changed) == {"fUg", "fOg", "fJg", "fKg"}
    assert texts(NeighbourKey(layout="azerty"), "\u00e9") == []
    with pytest.raises(ValueError, match="layout"):
        NeighbourKey(layout="dvorak")  # type: ignore[arg-type] # refused
    assert WordLength(4).allowed(Document.of("a film with it"), columns=("text",)) == {1, 2}


# CheckList


def test_names_places_and_numbers() -> None:
    assert len(texts(OtherName(), "Robert saw robert")) == 3
    assert all(one.startswith("in ") for one in texts(OtherPlace(), "in Paris"))
    assert texts(OtherPlace(), "a French film")
    digits = texts(OtherNumber(count=20), "12 films")
    assert digits
    assert all(1 <= int(one.split()[0]) <= 24 for one in digits)
    assert texts(OtherNumber(), "4 or two or zero films") == []
    assert all(one.split()[0].istitle() for one in texts(OtherNumber(), "Seven films"))
    assert texts(OtherName(), "nobody") == []


def test_contractions() -> None:
    assert texts(Contract(), "It is not bad, I am not.") == [
        "It's not bad, I am not.",
        "It isn't bad, I am not.",
        "It is not bad, I'm not.",
    ]
    assert texts(Contract(), "is, not") == []
    assert texts(Expand(), "It isn't bad") == ["It is not bad"]
    assert texts(Expand(), "Isn't it?") == ["Is not it?"]
    assert texts(Expand(), "Peter's film") == []
    document = Document.of("it is not bad")
    (made,) = Contract().propose([Job(document, document, [1, 2], Random(0), 0)])[0]
    assert document.accept(made).words == ["it", "isn't", "bad"]


# Words that go, and stages


def test_the_last_word_stays() -> None:
    assert texts(DeleteWord(), "a film") == ["film", "a"]
    assert texts(DeleteWord(), "film") == []


def test_stages_are_taken_in_turn() -> None:
    stages = Stages([DeleteWord(), OtherName(count=1)])
    assert texts(stages, "a film", stage=0) == ["film", "a"]
    assert texts(stages, "a film", stage=1) == []
    with pytest.raises(ValueError, match="at least one"):
        Stages([])


# Inflections


@pytest.fixture
def inflected(tmp_path: Path) -> Inflected:
    return Inflected(WordForms(write_wordnet(tmp_path)))


def test_forms(inflected: Inflected) -> None:
    assert {"goes", "going", "went"} <= set(inflected.of("go"))
    assert "goed" not in inflected.of("go")
    assert {"go", "goes", "going"} <= set(inflected.of("went"))
    assert set(inflected.of("films")) == {"film", "filmed", "filming"}
    assert set(inflected.of("big")) == {"bigger", "biggest"}
    assert inflected.of("nothing-like-it") == ()
    assert "Films" in {one.split()[-1] for one in texts(Inflect(inflected), "the Film")}


@pytest.mark.parametrize(
    ("base", "part", "expected"),
    [
        ("box", "noun", "boxes"),
        ("city", "noun", "cities"),
        ("day", "noun", "days"),
        ("echo", "verb", "echoes echoing echoed"),
        ("coo", "verb", "coos cooing cooed"),
        ("try", "verb", "tries trying tried"),
        ("die", "verb", "dies dying died"),
        ("see", "verb", "sees seeing seed"),
        ("stop", "verb", "stops stopping stopped"),
        ("fix", "verb", "fixes fixing fixed"),
        ("make", "verb", "makes making maked"),
        ("happy", "adj", "happier happiest"),
        ("nice", "adj", "nicer nicest"),
        ("beautiful", "adj", ""),
    ],
)
def test_rules(inflected: Inflected, base: str, part: str, expected: str) -> None:
    assert inflected.made(base, part) == expected.split()


# Masked language models


def test_words_are_inserted_on_both_sides() -> None:
    model = preferring("dull", "bad")
    assert texts(MaskedLMInsert(model, wordpiece(), 1), "the film.", 1) == [
        "the dull film.",
        "the film dull.",
    ]
    left = MaskedLMInsert(model, wordpiece(), 2, side="left")
    assert texts(left, "film") == ["dull film", "bad film"]


def test_words_are_merged_by_their_parts_of_speech() -> None:
    model = preferring("plot", "dull", "film")
    found = texts(MaskedLMMerge(model, wordpiece(), None, 2), "good film. good")
    assert found == ["plot. good", "dull. good", "good plot", "good dull"]
    by_tag = MaskedLMMerge(model, wordpiece(), small_tagger(), 1)
    assert texts(by_tag, "good film") == ["plot"]
    assert texts(by_tag, "to film") == []
    assert texts(MaskedLMMerge(model, wordpiece(), None, 2), "good film", 0) == []


def test_words_far_from_the_mask_do_not_matter() -> None:
    insert = MaskedLMInsert(random_model(), wordpiece(), 3, max_length=8)
    near = "the film is good " * 5
    assert len(texts(insert, near, 10)) == 6


def test_pieces_are_replaced_together() -> None:
    model = preferring("film", "##ing", "dull", "##ful")
    assert texts(SubwordSwap(model, wordpiece(), 2), "the good", 1) == ["the film", "the dull"]
    swap = SubwordSwap(model, wordpiece(), 6)
    both = texts(swap, "goodful film", 0)  # two pieces: one word of two pieces at most
    assert "filming film" in both
    assert "dullful film" in both
    assert all("#" not in one for one in both)
    assert texts(SubwordSwap(preferring("film"), wordpiece(), 2, pieces=1), "goodful") == []
    long = "good " * 200
    assert texts(swap, long, 150)


def test_words_as_the_reference_takes_them() -> None:
    model, pieces = preferring("film", "##ing", "dull", "##ful"), wordpiece()
    swap = SubwordSwap(model, pieces, 4, compat="textattack")
    assert texts(swap, "the Good", 1) == ["the film", "the dull"]  # no case, no parts of words
    both = texts(swap, "goodful film", 0)
    # The first of all combinations differ in their last piece only.
    assert both == ["filmfilm film", "filming film", "filmdull film", "filmful film"]
    insert = MaskedLMInsert(model, pieces, 3, side="left", compat="textattack")
    # Neither before the first word nor the word itself; beside any other.
    assert texts(insert, "the film good", 0) == [
        *("the ing film good", "the dull film good"),
        *(f"the film {one} good" for one in ("film", "ing", "dull")),
    ]
    merge = MaskedLMMerge(model, pieces, None, 1, compat="textattack")
    # Wherever, but at the ends; marks stay.
    assert texts(merge, "the good, film bad", 0) == ["the film, bad"]
    assert texts(merge, "good film", 0) == []


def test_combinations_come_in_the_order_of_their_sums() -> None:
    options = [[(0.0, "a"), (-3.0, "b")], [(-1.0, "x"), (-1.5, "y"), (-9.0, "z")]]
    found = combinations(options, limit=4)
    assert found == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    assert combinations([[], [(0.0, "a")]], limit=4) == []


def test_scores_are_log_probabilities() -> None:
    model = random_model()
    scores = MaskedWordScorer(model, wordpiece(), batch_size=2)
    asked: Any = [(("the", "film"), ["good", "goodful"]), (("", "is bad"), ["plot"])]
    found = scores(asked)
    ids = torch.tensor([[2, PIECES.index("the"), 4, PIECES.index("film"), 3]])
    with torch.no_grad():
        table = model(input_ids=ids).logits[0, 2].log_softmax(-1)
    assert found[0][0] == pytest.approx(float(table[PIECES.index("good")]), rel=1e-4)
    ids = torch.tensor([[2, PIECES.index("the"), 4, 4, PIECES.index("film"), 3]])
    with torch.no_grad():
        tables = model(input_ids=ids).logits[0].log_softmax(-1)
    mean = (tables[2, PIECES.index("good")] + tables[3, PIECES.index("##ful")]) / 2
    assert found[0][1] == pytest.approx(float(mean), rel=1e-4)
    long = "film " * 300
    assert len(scores([((long, long), ["good"])])[0]) == 1
    ((spoken,),) = scores([(("the", "[MASK]"), ["good"])])  # a mask of the text's own
    with torch.no_grad():
        table = model(input_ids=torch.tensor([[2, PIECES.index("the"), 4, 4, 3]])).logits[0, 2]
    expected = table.log_softmax(-1)[PIECES.index("good")]
    assert spoken == pytest.approx(float(expected), rel=1e-4)


def test_less_memory_than_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    asked: Any = [(("the", end), ["good", "goodful"]) for end in ("film", "film film", "bad")]
    documents = [Document.of(text) for text in ("the good", "good film plot", "bad", "the film")]
    jobs = [Job(one, one, list(range(len(one))), Random(0), 0, 0) for one in documents]

    def answers() -> tuple[list[list[float]], list[list[str]]]:
        proposed = SubwordSwap(model, wordpiece(), 3).propose(jobs)
        words = [[str(one.text) for one in candidates] for candidates in proposed]
        return MaskedWordScorer(model, wordpiece())(asked), words

    scores, words = answers()
    forward, sizes = model.forward, []

    def tight(*, input_ids: torch.Tensor, **others: Any) -> Any:
        sizes.append(len(input_ids))
        if len(input_ids) > 2:
            msg = "CUDA out of memory"
            raise torch.cuda.OutOfMemoryError(msg)
        return forward(input_ids=input_ids, **others)

    monkeypatch.setattr(model, "forward", tight)
    again = answers()
    assert max(sizes) > 2
    assert again[1] == words
    assert [*chain(*again[0])] == pytest.approx([*chain(*scores)], rel=1e-4)


def test_fluent_words() -> None:
    model = preferring("good", "film", "bad", "dull")
    document = Document.of("the good film")
    group = Group(document, document, document.replace_by(1, ["bad", "dull", "film", "two words"]))
    assert Fluency(model, wordpiece(), drop=2.5).keep([group]) == [[True, False, True, False]]
    assert Fluency(model, wordpiece(), top=1).keep([group]) == [[False, False, True, False]]
    assert Fluency(model, wordpiece()).keep([group, group])[1] == [True, True, True, False]
    with pytest.raises(ValueError, match="drop"):
        Fluency(model, wordpiece(), drop=-1.0)


def test_thoughts() -> None:
    document = Document.of("a good film")
    group = Group(document, document, document.replace_by(1, ["fine", "bad"]))
    assert ThoughtVectors(small_vectors(), 0.2).keep([group]) == [[True, False]]
    assert ThoughtVectors(None).keep([group]) == [[True, True]]
    joined = Composite([DeleteWord()])
    assert texts(joined, "a film") == ["film", "a"]


# Runs without spaces


def test_characters_and_longest_words() -> None:
    run = "\u6211\u559c\u6b22iPhone\u7535\u5f71\u3042\u3099"
    cut = [run[a:b] for a, b in characters(run)]
    assert cut == ["\u6211", "\u559c", "\u6b22", "iPhone", "\u7535", "\u5f71", "\u3042\u3099"]
    words = LongestWords(["\u559c\u6b22", "\u7535\u5f71", "\u7535"])
    assert [run[a:b] for a, b in words(run)] == [
        "\u6211",
        "\u559c\u6b22",
        "iPhone",
        "\u7535\u5f71",
        "\u3042\u3099",
    ]
    assert characters("abc") == [(0, 3)]
    assert words.about() != LongestWords([]).about()
