"""Certificates against each kind of set, by brute force on raw strings through the front end."""

from collections.abc import Callable, Iterable
from random import Random

import pytest
import torch

from certify.threats import (
    ChainedSets,
    DeletedStopWords,
    InsertedStopWords,
    ReadWords,
    SameForm,
    SameFormCertifier,
    Substitutions,
    Typos,
    WordSet,
    is_same_form,
)
from certify.threats.substitutions import distinct_rows
from certify.words.score_certifiers import SynonymCertifier
from tests.unit.certify.words.test_substitutions import (
    FRONT,
    Listed,
    Phrases,
    count_held,
    model,
    predict,
    typos,
)
from tests.unit.text.test_typo_kinds import KINDS
from text import CanonicalForm, Vocabulary, WordSettings, WordTokenizer
from text.typo_kinds import InnerTypos, KeyboardTypos

STOPS = ("a", "at", "go")
LOOKALIKE = str.maketrans(
    "aeocpxyi", "\u0430\u0435\u043e\u0441\u0440\u0445\u0443\u0456"
)  # Cyrillic
NEAR = {"o": "pl", "g": "fb", "d": "s", "b": "g", "a": "s", "t": "r"}


def disguises(word: str) -> set[str]:
    """Strings that look like a word."""
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in word)
    return {
        word.upper(),
        word.translate(LOOKALIKE),
        "\u200b".join(word),
        "\u0301".join([*word, ""]),
        wide,
    }


def slips(word: str) -> set[str]:
    """The slips of a finger in a word, on the keyboard of `NEAR`."""
    kept = {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}
    kept |= {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)}
    for i, char in enumerate(word):
        kept |= {word[:i] + key + word[i + 1 :] for key in NEAR.get(char, "")}
        for key in char + NEAR.get(char, ""):
            kept |= {word[:i] + key + word[i:], word[: i + 1] + key + word[i + 1 :]}
    return kept - {""}


def inner(word: str) -> set[str]:
    """The typos that leave the first and the last character."""
    ends = (new for new in typos(word, splits=False) if len(new) > 1 and len(word) > 1)
    return {new for new in ends if (new[0], new[-1]) == (word[0], word[-1])}


def listed(surface: str) -> list[str]:
    return list(Listed().replacements(surface))


def read(word: str) -> str:
    """A word without marks, as the model reads it."""
    return word.replace("'", "").replace("-", "")


Changes = Callable[[str, str], Iterable[str]]
SETS: dict[str, tuple[tuple[WordSet, ...], Changes]] = {
    "canonical": ((SameForm(FRONT),), lambda surface, word: disguises(surface)),
    # A typo and a look-alike in one word.
    "canonical,typos": (
        (SameForm(FRONT), Typos(FRONT)),
        lambda surface, word: {
            new for typo in typos(word, splits=False) for new in disguises(typo)
        },
    ),
    "keyboard": ((Typos(FRONT, kind=KeyboardTypos(NEAR)),), lambda surface, word: slips(word)),
    "inner": ((Typos(FRONT, kind=InnerTypos()),), lambda surface, word: inner(word)),
    "listed-and-typos": (
        (ChainedSets("listed-and-typos", Listed(), Typos(FRONT)),),
        lambda surface, word: {
            typo for new in (word, *map(read, listed(surface))) for typo in typos(new, splits=False)
        },
    ),
    "listed-and-listed": (
        (ChainedSets("twice", Listed(), Phrases()),),
        lambda surface, word: {
            last
            for new in (surface, *listed(surface))
            for last in (new, *Phrases().replacements(new))
        },
    ),
    "delete": (
        (DeletedStopWords("delete", frozenset(STOPS)),),
        lambda surface, word: [""] if surface in STOPS else [],
    ),
    "insert": (
        (InsertedStopWords("insert", STOPS),),
        lambda surface, word: [f"{surface} {s}" for s in STOPS] + [f"{s} {surface}" for s in STOPS],
    ),
    "delete,typos-splits,insert": (
        (
            DeletedStopWords("delete", frozenset(STOPS)),
            Typos(FRONT, splits=True),
            InsertedStopWords("insert", STOPS),
        ),
        lambda surface, word: {
            *typos(word, splits=True),
            *([""] if surface in STOPS else []),
            *(f"{s} {surface}" for s in STOPS),
        },
    ),
}
TEXTS = ("good bat", "a gud film", "don't go at", "god at", "zz god", "a", "w\u00e9ll b\u0430d")


@pytest.mark.parametrize("name", SETS)
def test_certificates_equal_brute_force(name: str) -> None:
    sets, changes = SETS[name]
    threat = Substitutions(words=FRONT, sets=sets)
    assert sum(count_held(model(2, seed), threat, TEXTS, changes) for seed in range(2)) > 0


@pytest.mark.parametrize("name", SETS)
def test_a_set_contains_all_its_strings_and_other_sets_do_not(name: str) -> None:
    sets, changes = SETS[name]
    threat = Substitutions(words=FRONT, sets=sets, k=1)
    for surface in ("good", "don't", "at", "film"):
        for new in changes(surface, read(surface)):
            assert threat.contains(f"zzz {surface}", f"zzz {new}"), new
        assert not threat.contains(surface, "zzz"), name
    assert not threat.contains("film", "fxlzm")
    assert threat.contains("film", "") is False
    assert threat.contains("at film", "film") == ("delete" in name)
    assert threat.contains("film", "go film") == ("insert" in name)
    assert not threat.contains("film", "go film a")


def test_a_chain_is_more_than_the_union() -> None:
    chain = ChainedSets("chain", Listed(), Typos(FRONT))
    union = Substitutions(words=FRONT, sets=(Listed(), Typos(FRONT)))
    assert union.contains("good", "fine")
    assert union.contains("good", "god")
    assert not union.contains("good", "fibe")
    assert Substitutions(words=FRONT, sets=(chain,)).contains("good", "fibe")


def test_a_chain_has_the_words_of_its_first_set() -> None:
    chain = ChainedSets("chain", Listed(), DeletedStopWords("delete", frozenset()))
    assert chain.contains("zz", ("film",))
    assert not chain.contains("zz", ("good",))


def test_a_stop_word_is_inserted_on_both_sides() -> None:
    tokenizer = model(1, 0).tokenizer
    rows = InsertedStopWords("insert", STOPS).reach(["film"], tokenizer).ids.tolist()
    (own,) = tokenizer.ids(["film"])
    stops = tokenizer.ids(STOPS)
    assert rows[0] == [own, -1]
    assert {*map(tuple, rows[1:])} == {*((own, s) for s in stops), *((s, own) for s in stops)}


def test_a_split_loses_one_character_at_most() -> None:
    split = Typos(FRONT, splits=True)
    for parts, inside in ((("mor", "ning"), True), (("mor", "ing"), True), (("mor", "ng"), False)):
        assert split.contains("morning", parts) == inside


def test_each_result_of_a_word_is_kept_once() -> None:
    random = Random(0)
    for _ in range(50):
        words = [
            [(random.randrange(4), random.randrange(-1, 4)) for _ in range(random.randrange(1, 9))]
            for _ in range(3)
        ]
        owner = torch.tensor([i for i, rows in enumerate(words) for _ in rows])
        ids = torch.tensor([row for rows in words for row in rows])
        kept = distinct_rows(owner, ids, 3)
        parts = torch.split(kept.ids, kept.starts.diff().tolist())
        assert [[*map(tuple, part.tolist())] for part in parts] == [
            [*dict.fromkeys(rows)] for rows in words
        ]


def test_one_set_without_turned_words_is_refused_in_a_union() -> None:
    words = WordSettings(
        split="joined", front_end="spelling", canonical=CanonicalForm(display=True)
    )
    assert Substitutions(words=words, sets=(Typos(words),)).covers_form
    with pytest.raises(ValueError, match="for substitutions, expected none of its options"):
        Substitutions(words=words, sets=(Typos(words), Listed()))


def test_words_that_the_model_does_not_read_are_not_looked_up() -> None:
    threat = Substitutions(words=FRONT, sets=(Listed(),))
    read = ReadWords(threat, model(1, 0, max_length=3).tokenizer)(["at film good film", "bad"])
    assert [[read.words[i] for i in row if i >= 0] for row in read.rows.tolist()] == [
        ["at", "film", "good"],
        ["bad"],
    ]


def test_a_deletion_in_a_text_that_is_cut_certifies_nothing() -> None:
    threat = Substitutions(words=FRONT, sets=(DeletedStopWords("delete", frozenset(STOPS)),))
    scorer = model(2, 0, max_length=3)
    (cut, whole) = SynonymCertifier(scorer, threat)(
        ["a film film bad", "a film film"], (0, 1, None)
    )
    assert (cut.kind, whole.kind) == ("lower bound", "exact")
    assert cut.holds[1:] == (False, False)
    assert cut.certified == 0


def test_an_insertion_near_the_end_of_what_the_model_reads_certifies_nothing() -> None:
    threat = Substitutions(words=FRONT, sets=(InsertedStopWords("insert", STOPS),))
    (found,) = SynonymCertifier(model(2, 0, max_length=4), threat)(["film film film"], (1, 2))
    assert found.kind == "lower bound"
    assert not found.holds[1]


@pytest.mark.parametrize(
    "words",
    [
        FRONT,
        WordSettings(split="joined", front_end="canonical"),
        WordSettings(split="alphanumeric", front_end="canonical"),
    ],
    ids=("spelling", "joined", "alphanumeric"),
)
def test_strings_of_one_form_are_one_input(words: WordSettings) -> None:
    # Without a corrector, which would hide a look-alike that is left out.
    vocabulary = ("good", "god", "taxi", "copy", "bat", "at", "a")
    tokenizer = WordTokenizer(Vocabulary(dict.fromkeys(vocabulary, 1)), words=words)
    threat = Substitutions(words=words, sets=(SameForm(words),))
    for text in ("a good bat", "copy at taxi", "yes"):
        for raw in disguises(text):
            assert tokenizer.encode([raw]) == tokenizer.encode([text]), raw
            assert threat.contains(text, raw)


def test_same_form_certifies_any_model_behind_a_front_end() -> None:
    words = WordSettings(split="alphanumeric", front_end="canonical")
    threat = Substitutions(words=FRONT, sets=(SameForm(FRONT),))
    assert is_same_form(threat)
    assert not is_same_form(Substitutions(words=FRONT, sets=(SameForm(FRONT), Typos(FRONT))))
    scorer = model(2, 0)
    certifier = SameFormCertifier(
        lambda texts: predict(scorer, texts[0]).unsqueeze(0), scorer.tokenizer, threat
    )
    (found,) = certifier(["good zz"], (0, 3, None))
    assert found.prediction == int(predict(scorer, "good zz").argmax())
    assert found.holds == (True, True, True)
    assert (found.certified, found.unknown, found.cut) == (None, 1, False)
    other = Substitutions(words=words, sets=(SameForm(words),))
    with pytest.raises(ValueError, match="expected the words of the model"):
        SameFormCertifier(lambda texts: predict(scorer, texts[0]), scorer.tokenizer, other)
    with pytest.raises(ValueError, match="got canonical for words\\.front_end=none"):
        SameForm(WordSettings())


def test_digests_tell_the_sets_apart() -> None:
    sets = [part for parts, _ in SETS.values() for part in parts] + [
        Typos(FRONT, kind=KINDS["keyboard"][0])
    ]
    threats = [Substitutions(words=FRONT, sets=(part,)) for part in dict.fromkeys(sets)]
    assert len({threat.digest for threat in threats}) == len(threats)
    assert all(threat.statement for threat in threats)
