"""What is proposed in the place of a word."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.composition import Job
from attacks.document import Document
from attacks.resources.neighbours import ListedNeighbours, VectorNeighbours
from attacks.resources.vectors import WordVectors
from attacks.resources.wordnet import WordNet
from attacks.transformations import Composite, EmbeddingSwap, WordNetSwap
from attacks.transformations.case import in_case_of
from tests.unit.attacks.lexicon import small_vectors, write_wordnet, zipped
from text import Text


def job(text: Text, *indices: int) -> Job:
    document = Document.of(text)
    return Job(document, document, indices or range(len(document)), Random(0), 0)


def texts(transformation: EmbeddingSwap | WordNetSwap | Composite, *jobs: Job) -> list[list[Text]]:
    return [[one.text for one in found] for found in transformation.propose(jobs)]


@pytest.mark.parametrize(
    ("word", "model", "expected"),
    [
        ("Film", "movie", "film"),
        ("film", "MOVIE", "FILM"),
        ("film", "Movie", "Film"),
        ("film", "mOvie", "film"),
        ("iPhone", "mOvie", "iPhone"),
        ("you", "I", "you"),
        ("five", "5", "five"),
        ("straße", "WEG", "STRASSE"),
        ("élan", "Été", "Élan"),
    ],
)
def test_case(word: str, model: str, expected: str) -> None:
    assert in_case_of(word, model) == expected


# Neighbours


def exact(vectors: WordVectors, word: str, k: int) -> list[str]:
    """By brute force, in double precision."""
    matrix = vectors.matrix.astype(np.float64)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    cosines = unit @ unit[vectors.index[word]]
    order = np.argsort(-cosines, kind="stable").tolist()
    return [vectors.words[i] for i in order if vectors.words[i] != word][:k]


@given(st.integers(2, 40), st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_neighbours_are_the_nearest_by_cosine(count: int, width: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(count, width)).astype(np.float32)
    vectors = WordVectors([f"w{i}" for i in range(count)], matrix, digest="random")
    neighbours = VectorNeighbours(vectors, limit=5)
    for word in vectors.words:
        assert list(neighbours.of(word, 5)) == exact(vectors, word, 5)


def test_equally_near_words_come_in_the_order_of_the_vocabulary() -> None:
    matrix = np.array([[1, 0], [1, 1], [2, 2], [1, -1], [1, 1]], dtype=np.float32)
    vectors = WordVectors(["a", "e", "d", "c", "b"], matrix, digest="ties")
    assert VectorNeighbours(vectors).of("a", 4) == ["e", "d", "c", "b"]


def test_more_neighbours_than_at_first_and_words_without() -> None:
    neighbours = VectorNeighbours(small_vectors(), limit=1)
    assert list(neighbours.of("film", 1)) == ["movie"]
    assert list(neighbours.of("film", 2)) == ["movie", "u.s."]
    assert len(neighbours.of("film", 99)) == 7
    assert list(neighbours.of("unheard", 3)) == []


def test_neighbours_of_a_single_word() -> None:
    vectors = WordVectors(["a"], np.ones((1, 2), dtype=np.float32), digest="one")
    assert list(VectorNeighbours(vectors).of("a", 5)) == []


def test_a_vector_of_zeros_is_near_to_nothing() -> None:
    matrix = np.array([[0, 0], [1, 0], [1, 1]], dtype=np.float32)
    vectors = WordVectors(["nothing", "a", "b"], matrix, digest="zero")
    assert list(VectorNeighbours(vectors).of("a", 1)) == ["b"]


# Embedding


def test_neighbours_in_the_case_of_the_word() -> None:
    swap = EmbeddingSwap(VectorNeighbours(small_vectors()), 2)
    assert texts(swap, job("Good, GOOD film!", 0, 1)) == [
        ["Fine, GOOD film!", "Great, GOOD film!", "Good, FINE film!", "Good, GREAT film!"]
    ]


def test_only_words_take_the_place_of_words_but_for_the_reference() -> None:
    neighbours = VectorNeighbours(small_vectors())
    ours = EmbeddingSwap(neighbours, 4)
    assert [one.word for one in ours.propose([job("so good", 1)])[0]] == ["fine", "great"]
    theirs = EmbeddingSwap(neighbours, 4, compat="textattack")
    assert [one.word for one in theirs.propose([job("so good", 1)])[0]] == [
        "fine",
        "great",
        ",",
        "u.s.",
    ]
    # A comma takes the space before it away.
    assert texts(theirs, job("so good film", 1))[0][2] == "so, film"


def test_lists_of_neighbours() -> None:
    lists = ListedNeighbours({"film": ["movie", "motion picture", "film", "movies"]}, name="lists")
    swap = EmbeddingSwap(lists, 50)
    assert texts(swap, job("a film")) == [["a movie", "a movies"]]
    assert lists.vectors is None
    assert texts(EmbeddingSwap(ListedNeighbours({}, name="empty"), 5), job("a film")) == [[]]


def test_words_of_a_pair() -> None:
    swap = EmbeddingSwap(ListedNeighbours({"film": ["movie"]}, name="lists"), 50)
    assert texts(swap, job(("a film", "film")), job("film")) == [
        [("a movie", "film"), ("a film", "movie")],
        ["movie"],
    ]


def test_at_least_one_neighbour() -> None:
    with pytest.raises(ValueError, match="got k=0, expected at least 1"):
        EmbeddingSwap(VectorNeighbours(small_vectors()), 0)


# WordNet


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> WordNet:
    return WordNet(write_wordnet(tmp_path_factory.mktemp("data")))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("film", {"movie", "shoot", "take"}),  # noun and verb; no phrases
        ("Film", {"movie", "film", "shoot", "take"}),  # as written, it is another word
        ("films", {"movie", "film", "shoot", "take"}),  # the ending comes off
        ("went", {"go", "travel"}),  # by the list of exceptions
        ("better", {"good", "well", "unspoiled"}),
        ("good", {"well", "unspoiled"}),  # without the mark where it stands
        ("bigger", set()),  # "bigg" is no word
        ("unheard", set()),
        ("", set()),
    ],
)
def test_synonyms(wordnet: WordNet, word: str, expected: set[str]) -> None:
    assert set(wordnet.synonyms(word)) == expected


def test_wordnet_in_an_archive(tmp_path: Path, wordnet: WordNet) -> None:
    packed = WordNet(zipped(write_wordnet(tmp_path)))
    for word in ("film", "went", "good"):
        assert packed.synonyms(word) == wordnet.synonyms(word)


def test_wordnet_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "wordnet.zip").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"wordnet\.zip: could not read index\.noun"):
        WordNet(tmp_path / "wordnet.zip")
    with pytest.raises(ValueError, match=r"could not read index\.noun"):
        WordNet(tmp_path)
    broken = write_wordnet(tmp_path)
    (broken / "data.noun").write_text("  1 truncated")
    with pytest.raises(ValueError, match="got no sense at"):
        WordNet(broken).synonyms("film")


def test_synonyms_in_the_case_of_the_word(wordnet: WordNet) -> None:
    ours = texts(WordNetSwap(wordnet), job("Film it", 0))[0]
    assert ours == ["Movie it", "Shoot it", "Take it"]
    theirs = texts(WordNetSwap(wordnet, compat="textattack"), job("Film it", 0))[0]
    assert sorted(map(str, theirs)) == ["film it", "movie it", "shoot it", "take it"]


class Names:
    def synonyms(self, word: str) -> Sequence[str]:
        return ["Hollywood", "motion_picture", "film", "dot.com", word]


def test_proper_names_keep_their_capitals() -> None:
    assert texts(WordNetSwap(Names()), job("cinema")) == [["Hollywood", "film"]]
    assert texts(WordNetSwap(Names()), job("CINEMA")) == [["Hollywood", "FILM"]]


# Several


def test_each_text_once_and_in_order() -> None:
    first = EmbeddingSwap(ListedNeighbours({"film": ["movie", "picture"]}, name="one"), 5)
    second = EmbeddingSwap(ListedNeighbours({"film": ["cinema", "movie"]}, name="two"), 5)
    both = Composite([first, second])
    assert texts(both, job("film"), job("no")) == [["movie", "picture", "cinema"], []]
    with pytest.raises(ValueError, match="expected at least one"):
        Composite([])


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.filterwarnings("ignore:The multilingual functions are not available")
def test_the_vocabulary_as_nltk_reads_it(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nltk = pytest.importorskip("nltk")
    # It reads nothing outside of its folders.
    monkeypatch.setattr(nltk.data, "path", [str(data_dir / "nltk")])
    theirs = nltk.corpus.reader.wordnet.WordNetCorpusReader(
        nltk.data.find("corpora/wordnet.zip/wordnet/"), None
    )
    ours = WordNet(data_dir / "nltk" / "corpora" / "wordnet.zip")
    words = list(theirs.all_lemma_names())[::40] + "went better films men LEAVES axes oxen".split()
    assert len(words) > 3000
    for word in words:
        names = {name for sense in theirs.synsets(word) for name in sense.lemma_names()}
        assert set(ours.synonyms(word)) == {n for n in names if n != word and "_" not in n}, word
