"""`python -m app resources counter-fit`, from files to a file."""

import gzip
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from attacks.resources.vector_files import read_vectors
from tests.run_command import run_command

main = partial(run_command, "resources counter-fit")

WORDS = ("good", "fine", "bad", "film", "movie")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(len(WORDS), 4)) + 1
    lines = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True))
    Path("v.txt").write_text("".join(lines))
    Path("s.txt").write_text("good fine\nfilm movie\nfilm cinema\n")
    Path("a.txt").write_text("good bad\n")
    Path("more.txt").write_text("fine bad\ngood bad\n")
    scores = "good\tfine\tA\t9\nfilm\tbad\tN\t1\ngood\tbad\tA\t2\ngood\tcinema\tN\t1\n"
    Path("SimLex-999.txt").write_text(f"word1\tword2\tPOS\tSimLex999\n{scores}")
    return tmp_path


def test_it_writes_vectors_and_says_what_has_changed(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--synonyms", "s.txt", "--antonyms", "a.txt", "more.txt", "--simlex", "SimLex-999.txt"]
    assert main(["v.txt", *given, "--output", "deep/counter-fitted-vectors.txt.gz"]) == 0
    said = capsys.readouterr()
    assert "synonyms: 2 pairs, 1 lines with a word that has no vector" in said.err
    assert "step 20 of 20: cost" in said.err
    rows = [line.split(" | ") for line in said.out.splitlines() if line.startswith("| ")]
    assert [row[:2] for row in rows[1:]] == [
        ["| mean cosine of synonyms", "2"],
        ["| mean cosine of antonyms", "2"],
        ["| Spearman's correlation with SimLex-999", "3"],
    ]
    before, after = (float(rows[1][place].rstrip(" |")) for place in (2, 3))
    assert after > before
    found = read_vectors("deep/counter-fitted-vectors.txt.gz")
    assert tuple(found.words) == WORDS
    np.testing.assert_allclose(np.linalg.norm(found.matrix, axis=1), 1, atol=1e-5)
    assert found.matrix[0] @ found.matrix[1] > 0.9
    main(["v.txt", *given, "--output", "again.txt"])
    packed = Path("deep/counter-fitted-vectors.txt.gz").read_bytes()
    assert gzip.decompress(packed) == Path("again.txt").read_bytes()


def test_the_first_words_alone(files: Path) -> None:
    main(["v.txt", "--synonyms=s.txt", "--antonyms=a.txt", "--output=out.txt", "--words=3"])
    assert read_vectors("out.txt").words == list(WORDS[:3])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--synonyms=s.txt", "--antonyms=a.txt", "--words=2"], "got no antonyms of known words"),
        (["--synonyms=s.txt", "--antonyms=a.txt", "--words=1"], "got --words 1, expected at least"),
        (["--synonyms=v.txt", "--antonyms=a.txt"], "v.txt, line 1: got 'good"),
        (["--synonyms=no.txt", "--antonyms=a.txt"], "^got no.txt, not found, expected a file$"),
        (["--synonyms=s.txt", "--antonyms=a.txt", "--output=v.zip"], "v.zip, expected a name w"),
        (["--synonyms=s.txt", "--antonyms=a.txt", "--steps=0"], "got steps=0"),
        (["--synonyms=s.txt", "--antonyms=a.txt", "--simlex=a.txt"], "a.txt: got columns"),
    ],
)
def test_wrong_input_leaves_no_file(files: Path, given: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        main(["v.txt", "--output", "out.txt", *given])
    assert not Path("out.txt").exists()
    assert not Path("v.zip").exists()
