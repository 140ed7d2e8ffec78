"""Threats: which texts they contain, and which files they refuse."""

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from rapidfuzz.distance import Levenshtein

from attacks.composition import Group
from attacks.constraints import InsideThreat
from attacks.document import Document
from certify.threats import L2, Additions, Characters, Synonyms, WordEditDistance, parse_threat
from certify.threats.additions import AdditionKind
from certify.threats.parsing import parse_k
from certify.threats.text_certificate import largest
from lit_modules import TextClassifier
from text import Vocabulary, WordSettings, WordTokenizer

LISTS = {"good": ["fine", "great"], "film": ["movie"], "bad": []}
BY_TEXT = {"a good film , it 's great": {"1": ["fine"], "2": [], "6": ["fine", "good"]}}


def synonyms(k: int | None = None) -> Synonyms:
    return Synonyms.of(LISTS, k=k)


def test_the_set_of_lists_is_their_product() -> None:
    places = synonyms().candidates("a good film")
    assert places == [("a",), ("good", "fine", "great"), ("film", "movie")]
    inside = {" ".join(words) for words in product(*places)}
    others = {"a bad film", "good film", "a good film .", "a film good", "a good good film"}
    for text in inside | others:
        assert synonyms().contains("a good film", text) == (text in inside)


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("append", ("x a b", "a b x"), ("a x b", "a", "b a")),
        ("append-lines", ("x\na b\ny", "a b"), ("a\nb", "a x b")),
        ("insert-any", ("a x b", "x a b y"), ("b a", "a")),
    ],
)
def test_additions_keep_the_words_in_their_order(
    kind: AdditionKind, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    added = Additions(kind=kind)
    assert all(added.contains("a b", text) for text in inside)
    assert not any(added.contains("a b", text) for text in outside)
    assert added.contains("", "")
    assert added.contains("", "a")


def test_k_counts_replaced_words() -> None:
    assert synonyms(1).contains("a good film", "a fine film")
    assert not synonyms(1).contains("a good film", "a fine movie")
    assert synonyms(2).contains("a good film", "a fine movie")
    assert synonyms(0).contains("A GOOD  film", "a good film")  # case and spaces change no word


def test_a_word_may_stay_though_its_list_does_not_name_it() -> None:
    assert synonyms().of_word("good")[0] == "good"
    assert Synonyms.of({"good": ["good", "fine"]}).of_word("good") == ("good", "fine")


def test_listed_words_that_no_text_has_are_dropped() -> None:
    assert Synonyms.of({"good": ["very good", "Fine", "fine"]}).of_word("good") == ("good", "fine")


def test_lists_of_a_text_and_its_positions() -> None:
    threat = Synonyms.of(BY_TEXT, k=1)
    subject = threat.subject("A good film, it's <br /> GREAT")
    assert subject == next(iter(BY_TEXT))
    assert threat.subject("another film") is None
    assert threat.candidates(subject)[6] == ("great", "fine", "good")
    assert threat.contains(subject, "a good film, it's fine")
    # Listed for the word of another position only.
    assert not threat.contains(subject, "a great film, it's great")
    with pytest.raises(ValueError, match=r"expected a text of subject\(\)"):
        threat.candidates("another film")


def test_a_token_of_the_file_that_is_several_words_here_has_no_list() -> None:
    threat = Synonyms.of({"well-made fun": {"0": [], "1": ["joy"]}})
    assert threat.candidates("well-made fun") == [("well",), ("-",), ("made",), ("fun", "joy")]


@pytest.mark.parametrize("packed", [False, True])
def test_reading_a_file(tmp_path: Path, packed: bool) -> None:
    content = json.dumps(LISTS).encode()
    path = tmp_path / "lists"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert Synonyms.read(path) == synonyms()
    assert parse_threat("synonyms", lists=str(path), k=None) == synonyms()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"good: fine", "cannot be read"),
        (b"\x1f\x8bgood", "cannot be read"),
        (b"[]", "other JSON"),
        (b"{}", "other JSON"),
        (b'{"good": "fine"}', "other JSON"),
        (b'{"good": [1]}', "other JSON"),
        (b'{"a good film": {"1": "fine"}}', "other JSON"),
        (b'{"Good": ["fine"]}', "not one word in lower case"),
        (b'{"very good": ["fine"]}', "not one word in lower case"),
        (b'{"good": {"1": ["fine"]}}', "only 1 words"),
        (b'{"good": {"first": ["fine"]}}', "position 'first'"),
        (b'{"well-made": {"0": ["fine"]}}', "'well-made', expected lists of one word"),
    ],
)
def test_wrong_files(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "lists.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        Synonyms.read(path)


def test_characters_count_in_the_string_as_given() -> None:
    original = "Café x"
    for changed in ("cafe\u0301 x", "Cafe\u0301 x", "Café  x", "Cfé x", "Café x", "İCafé x", ""):
        for k in (0, 1, 2):
            expected = Levenshtein.distance(original, changed) <= k
            assert Characters(k=k).contains(original, changed) == expected
    assert not Characters(k=1).contains("é", "e\u0301")


def test_words_count_words() -> None:
    assert WordEditDistance(k=1).contains("a good film", "A film")
    assert WordEditDistance(k=1).contains("a good film", "a good, film")
    assert not WordEditDistance(k=1).contains("a good film", "a fine new film")
    assert not WordEditDistance(k=1).contains("a good film", "good a film")
    assert WordEditDistance(k=2).contains("a good film", "good a film")


def test_larger_k_has_more_texts_and_another_statement() -> None:
    assert Characters(k=1).at(2) == Characters(k=2)
    assert Characters(k=1).statement != Characters(k=2).statement
    assert synonyms(1).statement != synonyms().statement


def test_digests_tell_lists_apart() -> None:
    others = [Synonyms.of({**LISTS, "bad": ["poor"]}), Synonyms.of(BY_TEXT), Characters(k=1)]
    others.append(Synonyms.of(LISTS, words=WordSettings(split="alphanumeric")))
    assert len({threat.digest for threat in (synonyms(), *others)}) == 5
    assert synonyms(1).digest == synonyms().digest


def test_wrong_settings() -> None:
    for threat in (Characters, WordEditDistance):
        with pytest.raises(ValueError, match="got k=all"):
            threat(k=None)
        with pytest.raises(ValueError, match="got k=-1"):
            threat(k=-1)
    with pytest.raises(ValueError, match="got k=-1"):
        synonyms(-1)
    with pytest.raises(ValueError, match=r"got words\.lemmas=noun"):
        WordEditDistance(k=1, words=WordSettings(lemmas="noun"))
    for name, lists in (("synonyms", None), ("words", "lists.json"), ("typos", None)):
        with pytest.raises(ValueError, match="expected"):
            parse_threat(name, lists=lists, k=1)
    for wrong in ("-1", "1.5", "many"):
        with pytest.raises(ValueError, match="or all"):
            parse_k(wrong)
    assert (parse_k("2"), parse_k("all")) == (2, None)
    for radius in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="radius"):
            L2(radius=radius)
    with pytest.raises(ValueError, match="no texts"):
        L2(radius=1.0).contains("a", "b")


def test_lists_that_are_missing_name_their_option() -> None:
    with pytest.raises(ValueError, match=r"got no lists for synonyms, .*\(--lists FILE\)"):
        parse_threat("synonyms", lists=None, k=1)


def test_the_largest_number_of_changes() -> None:
    assert largest([True, True, False], [1, 2, None]) == 2
    assert largest([False, True], [1, 2]) == 0
    assert largest([True, True], [1, None]) is None


def test_an_attack_stays_inside() -> None:
    original = Document.of("a good film")
    current = original.replace(1, "fine")
    candidates = [Document(current.columns).replace(2, word) for word in ("movie", "picture")]
    group = Group(original, Document(current.columns), candidates)
    assert InsideThreat(synonyms()).keep([group]) == [[True, False]]
    assert InsideThreat(synonyms(1)).keep([group]) == [[False, False]]
    with pytest.raises(ValueError, match="threat l2"):
        InsideThreat(L2(radius=1.0))
    pair = Document.of(("a good film", "it is fine"))
    with pytest.raises(ValueError, match="single texts"):
        InsideThreat(synonyms()).keep([Group(pair, pair, [pair.replace(0, "the")])])


def test_a_model_without_certificate_names_those_that_have_one() -> None:
    with pytest.raises(ValueError, match=r"got TextClassifier, .* for synonyms, expected"):
        TextClassifier().text_certifier(synonyms())


def test_lists_that_come_with_the_program_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "configs/word_scores/reviews_synonyms.json"
    shipped = Synonyms.read(name)
    assert len(shipped.lists) > 1
    # A file that is there wins.
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text('{"good": ["fine"]}')
    assert Synonyms.read(name).lists == {"good": ["fine"]}
    with pytest.raises(ValueError, match="not found"):
        Synonyms.read("configs/word_scores/none.json")


@pytest.mark.parametrize("front_end", ["canonical", "spelling"])
def test_accents_of_lists_are_read_as_the_model_reads_them(
    front_end: Literal["canonical", "spelling"],
) -> None:
    words = WordSettings(split="joined", front_end=front_end)
    lists = {
        "caf\u00e9": ["bar"],
        "cafe": ["pub"],
        "bad": ["clich\u00e9", "cliche\u0301", "Bad", "x y"],
    }
    threat = Synonyms.of(lists, words=words)
    assert threat.candidates("A CAF\u00c9") == [("a",), ("cafe", "pub", "bar")]
    assert threat.contains("a caf\u00e9", "a bar")
    assert threat.of_word("bad") == ("bad", "cliche")
    tokenizer = WordTokenizer(Vocabulary(dict.fromkeys(("bad", "bar", "cafe"), 1)), words=words)
    ids, _ = threat.reach(["cafe"], tokenizer)
    assert tokenizer.encode(["bar"])[0].input_ids[0] in ids[:, 0]
    # Without a front end "cafe" is another word.
    assert Synonyms.of(lists).candidates("caf\u00e9 cafe") == [
        ("caf\u00e9", "bar"),
        ("cafe", "pub"),
    ]
