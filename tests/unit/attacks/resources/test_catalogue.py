"""What is found, what is read, and what is said when it is not."""

import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from attacks.resources.catalogue import ResourceError, Resources
from attacks.resources.neighbours import ListedNeighbours
from attacks.resources.vectors import WordVectors
from tests.unit.attacks.lexicon import VECTORS, vector_lines, write_tagger, write_wordnet, zipped


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found but what a test puts there, and nothing is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NLTK_DATA", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "python"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "resources"
    made.mkdir()
    return made


# Where things are found


@pytest.mark.parametrize("below", ["", "nltk"])
@pytest.mark.parametrize("packed", [False, True])
def test_nltk_data_in_the_folder(folder: Path, below: str, packed: bool) -> None:
    wordnet = write_wordnet(folder / below / "corpora")
    tagger = write_tagger(folder / below / "taggers")
    if packed:
        for path in (wordnet, tagger):
            zipped(path)
            for part in path.iterdir():
                part.unlink()
            path.rmdir()
    found = Resources(folder)
    assert "movie" in found.wordnet().synonyms("film")
    assert found.wordnet() is found.wordnet()
    assert found.tagger().tag(["the"]) == ["DET"]


@pytest.mark.parametrize("place", ["variable", "home", "default"])
def test_nltk_data_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    home = {
        "variable": tmp_path / "elsewhere",
        "home": tmp_path / "home" / "nltk_data",
        "default": tmp_path / "cache" / "steadfast" / "resources" / "nltk",
    }[place]
    if place == "variable":
        monkeypatch.setenv("NLTK_DATA", f"/nowhere:{home}")
    write_wordnet(home / "corpora")
    assert Resources().wordnet().synonyms("went") == ("go", "travel")


def test_the_english_stop_words_are_always_there(folder: Path) -> None:
    other = folder / "corpora" / "stopwords" / "english"
    other.parent.mkdir(parents=True)
    other.write_text("klingon\n")
    words = Resources(folder).stop_words("english")
    assert len(words) == 179
    assert {"the", "is", "has", "couldn't", "ain", "ma"} <= words
    assert not words & {"klingon", "could", "cannot", "however"}
    with pytest.raises(ValueError, match="got stop words 'klingon', expected one of english, text"):
        Resources().stop_words("klingon")  # type: ignore[arg-type] # what is tested


def test_the_stop_words_of_textfooler_are_always_there() -> None:
    words = Resources().stop_words("textfooler")
    assert len(words) == 266
    assert {"the", "empty", "couldn't", "is"} <= words
    assert not words & {"be", "has", "very", "will", "m"}


@pytest.mark.parametrize("ending", ["", ".gz", ".zip"])
@pytest.mark.parametrize("below", ["", "counterfit"])
def test_counter_fitted_vectors(folder: Path, ending: str, below: str) -> None:
    path = folder / below / f"counter-fitted-vectors.txt{ending}"
    path.parent.mkdir(exist_ok=True)
    if ending == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("counter-fitted-vectors.txt", vector_lines())
    else:
        data = vector_lines().encode()
        path.write_bytes(gzip.compress(data) if ending else data)
    (folder / "glove.6B.50d.txt").write_text("other 1 2\n")
    (folder / "counterfitted_neighbors.json").write_text("{}")
    found = Resources(folder)
    assert list(found.neighbours().of("good", 1)) == ["fine"]
    assert found.vectors() is found.neighbours().vectors


def test_lists_before_glove(folder: Path) -> None:
    (folder / "counterfit").mkdir()
    (folder / "counterfit" / "counterfitted_neighbors.json").write_text('{"film": ["movie"]}')
    (folder / "glove.6B.50d.txt").write_text(vector_lines())
    found = Resources(folder)
    assert list(found.neighbours().of("film", 50)) == ["movie"]
    assert found.vectors() is None


def test_the_largest_glove_where_there_is_nothing_else(folder: Path) -> None:
    (folder / "glove").mkdir()
    (folder / "glove" / "glove.6B.100d.sample.txt").write_text("other 1 2\n")
    (folder / "glove" / "glove.6B.50d.txt.gz").write_bytes(gzip.compress(vector_lines().encode()))
    vectors = Resources(folder).vectors()
    assert vectors is not None
    assert vectors.words == list(VECTORS)


def test_vectors_that_are_named(folder: Path, tmp_path: Path) -> None:
    (folder / "counterfitted_neighbors.json").write_text('{"film": ["movie"]}')
    mine = tmp_path / "mine.txt"
    mine.write_text(vector_lines())
    assert list(Resources(folder, vectors=mine).neighbours().of("good", 1)) == ["fine"]
    with pytest.raises(ResourceError, match="which is not there"):
        Resources(folder, vectors=tmp_path / "other.txt")


# What is missing


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="which is not there, expected the path of resources"):
        Resources(tmp_path / "typo")


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("neighbours", "neighbours"),
        ("vectors", "neighbours"),
        ("wordnet", "wordnet"),
        ("tagger", "tagger"),
        ("masked_lm", "masked-lm"),
    ],
)
def test_what_is_missing_is_said_with_the_command_that_gets_it(
    folder: Path, what: str, command: str
) -> None:
    with pytest.raises(
        ResourceError, match=f"python -m steadfast resources {command}` gets it"
    ) as error:
        getattr(Resources(folder), what)()
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_sentence_encoder_that_is_missing(folder: Path) -> None:
    with pytest.raises(
        ResourceError, match="python -m steadfast resources sentence-encoder` gets it"
    ):
        Resources(folder, sentence_encoder="nobody/nothing").sentence_encoder()


# Files of vectors


def test_a_header_and_words_with_spaces(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("3 2\na 1 2\n. . . 3 4\na 9 9\n\u0085 5 6\n", encoding="utf-8")
    vectors = WordVectors.read(path)
    assert vectors.words == ["a", ". . .", "\u0085"]
    np.testing.assert_array_equal(vectors.matrix, [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "got an empty file"),
        (
            "a 1 2\nb 1\n",
            r"line 2: got 1 finite numbers at the end of 'b 1', expected a word and 2 finite",
        ),
        ("a 1 2\nb 1 x\n", "line 2"),
        ("a 1 2\nb 1 nan\n", "line 2"),
        ("a 1 2\nb 1 2 3\n", "line 2: got 3 finite numbers"),
        ("a 1 2\nb 1 1e39\n", "line 2: got 0 finite numbers"),
        (
            "2 3\na 1 2\n",
            "line 2: got 2 finite numbers at the end of .* expected a word and 3 finite",
        ),
        ("3 2\na 1 2\nb 1 2\n", "got 2 vectors, expected 3 as its first line says"),
        ("3 2\n", "got an empty file"),
        ("a 1 2\n\n", "line 2"),
        ("word\n", "line 1"),
    ],
)
def test_files_that_are_no_vectors(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "v.txt"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        WordVectors.read(path)


def test_a_torn_archive(tmp_path: Path) -> None:
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(vector_lines().encode())[:-20])
    with pytest.raises(ValueError, match="broken or cut off"):
        WordVectors.read(path)
    with pytest.raises(ValueError, match="not found"):
        WordVectors.read(tmp_path / "none.txt")


def test_vectors_and_words_belong_together() -> None:
    with pytest.raises(ValueError, match="expected a vector for each"):
        WordVectors(["a", "a"], np.ones((2, 2), dtype=np.float32), digest="x")


@pytest.mark.parametrize("content", ["[1]", '{"a": "b"}', '{"a": [1]}', "{"])
def test_files_that_are_no_lists(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lists.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"lists\.json(: got|, which cannot be read)"):
        ListedNeighbours.read(path)


# The cache


def test_neighbours_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "kept"
    path.write_text(vector_lines())
    first = WordVectors.read(path, cache=cache)
    nearest = first.nearest(3, cache=cache)
    files = sorted(one.name for one in cache.iterdir())
    assert [name.split("-")[0] for name in files] == ["neighbours", "vectors", "vectors"]
    monkeypatch.setattr(
        "attacks.resources.vector_files._collect", lambda *_: pytest.fail("read again")
    )
    monkeypatch.setattr("numpy.argpartition", lambda *a, **k: pytest.fail("computed again"))
    second = WordVectors.read(path, cache=cache)
    assert second.words == first.words
    np.testing.assert_array_equal(second.matrix, first.matrix)
    np.testing.assert_array_equal(second.nearest(3, cache=cache), nearest)


@pytest.mark.parametrize("damage", [b"", b"PK torn", None])
def test_a_cache_that_is_broken_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "kept"
    path.write_text(vector_lines())
    expected = WordVectors.read(path).nearest(3)
    WordVectors.read(path, cache=cache).nearest(3, cache=cache)
    for one in cache.iterdir():
        one.write_bytes(one.read_bytes()[:200] if damage is None else damage)
    found = WordVectors.read(path, cache=cache)
    np.testing.assert_array_equal(found.nearest(3, cache=cache), expected)


def test_other_vectors_are_not_taken_for_these(tmp_path: Path) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "kept"
    path.write_text("a 1 0\nb 0 1\n")
    WordVectors.read(path, cache=cache)
    path.write_text("a 1 0\nc 0 1\n")
    assert WordVectors.read(path, cache=cache).words == ["a", "c"]


def test_without_a_place_for_the_cache(tmp_path: Path) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "file"
    path.write_text(vector_lines())
    cache.write_text("no folder")
    vectors = WordVectors.read(path, cache=cache)
    assert vectors.nearest(2, cache=cache).shape == (8, 2)


# What is in the shared folder


@pytest.mark.long
@pytest.mark.data
def test_real_resources(data_dir: Path) -> None:
    found = Resources(data_dir)
    assert "movies" in found.neighbours().of("film", 8)
    assert found.vectors() is None
    assert "movie" in found.wordnet().synonyms("film")
    assert found.tagger().tag("a very good film".split()) == ["DET", "ADV", "ADJ", "NOUN"]
    archive = zipfile.ZipFile(data_dir / "nltk" / "corpora" / "stopwords.zip")
    with archive, archive.open("stopwords/english") as stream:
        assert found.stop_words("english") == set(stream.read().decode().split())


@pytest.mark.long
@pytest.mark.data
def test_real_vectors(data_dir: Path) -> None:
    path = data_dir / "glove" / "glove.6B.50d.top10k.txt.gz"
    found = Resources(data_dir, vectors=path)
    vectors = found.vectors()
    assert vectors is not None
    assert vectors.matrix.shape == (10362, 50)
    unit = vectors.matrix.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for word in ("film", "good", "the"):
        order = np.argsort(-(unit @ unit[vectors.index[word]]))[1:51]
        assert list(found.neighbours().of(word, 50)) == [vectors.words[i] for i in order]


def test_json_is_read_compressed(tmp_path: Path) -> None:
    path = tmp_path / "lists.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"a": ["b"]}).encode()))
    assert list(ListedNeighbours.read(path).of("a", 5)) == ["b"]


def test_models_compute_where_they_are_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = []

    def encoder(name: str | Path, *, device: object) -> str:
        placed.append(device)
        return str(name)

    monkeypatch.setattr("attacks.resources.sentence_encoders.SentenceEncoder", encoder)
    (tmp_path / "sentence-encoder").mkdir()
    assert Resources(tmp_path, device="cpu").sentence_encoder().endswith("sentence-encoder")
    Resources(tmp_path).sentence_encoder()
    assert placed == ["cpu", None]
