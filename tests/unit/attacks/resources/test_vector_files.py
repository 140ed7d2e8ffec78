"""Files of word vectors are read once, and then mapped from the cache."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from attacks.resources import vector_files
from attacks.resources.vector_files import read_vectors

LINES = "one 1 2\ntwo 3 4\none 5 6\nthree 7 8\n"


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("cached", [False, True])
def test_the_first_of_repeated_words_counts(tmp_path: Path, cached: bool, ending: str) -> None:
    path = tmp_path / f"v.txt{ending}"
    path.write_bytes(gzip.compress(LINES.encode()) if ending else LINES.encode())
    found = read_vectors(path, cache=tmp_path / "cache" if cached else None)
    assert (found.words, found.repeated) == (["one", "two", "three"], 1)
    np.testing.assert_array_equal(found.matrix, [[1, 2], [3, 4], [7, 8]])


def test_vectors_of_the_cache_stay_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "cache"
    rows = np.random.default_rng(0).normal(size=(2000, 50)).astype(np.float32)
    path.write_text("".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(rows)))
    read_vectors(path, cache=cache)
    (array,) = cache.glob("*.npy")
    np.testing.assert_array_equal(np.load(array), rows)
    monkeypatch.setattr(vector_files, "_collect", lambda *_: pytest.fail("read again"))
    tracemalloc.start()
    found = read_vectors(path, cache=cache)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows.nbytes
    np.testing.assert_array_equal(found.matrix, rows)
    assert not found.matrix.flags.writeable


def test_a_broken_file_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "cache"
    path.write_text(f"{LINES}four 9\n")
    with pytest.raises(
        ValueError, match=r"line 5: got 1 finite numbers at the end of 'four 9', expected a word"
    ):
        read_vectors(path, cache=cache)
    assert not list(cache.iterdir())


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "cache"
    path.write_text(LINES)
    cache.write_text("a file, where a folder is wanted")
    assert read_vectors(path, cache=cache).words == ["one", "two", "three"]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path, cache = tmp_path / "v.txt", tmp_path / "cache"
    path.write_text(LINES)
    first = read_vectors(path, cache=cache)
    path.write_text("four 1 2\n")
    second = read_vectors(path, cache=cache)
    assert (first.words[0], second.words[0]) == ("one", "four")
    assert first.digest != second.digest
