"""The benchmark of certificates in words compares what it says."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from benchmarks import word_certificates as benchmark
from certify.threats import Synonyms
from certify.words.score_certifiers import SynonymCertifier

WORDS = ["aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj"]


def test_a_prediction_is_that_of_the_certificate() -> None:
    one = benchmark.model(WORDS, 2, 3)
    texts = ["aa bb cc", "dd zz", "jj ii hh gg"]
    threat = Synonyms.of({"aa": ["bb"]}, words=benchmark.ASCII)
    certificates = SynonymCertifier(one, threat)(texts, (1,))
    assert benchmark.predict(one, texts).tolist() == [one.prediction for one in certificates]


def test_a_robust_step_has_other_gradients() -> None:
    one = benchmark.model(WORDS, 1, 2, trained=True)
    threat = Synonyms.of({"aa": ["bb", "cc"]}, words=benchmark.ASCII)
    plain, robust = (
        benchmark.training(one, threat, ["aa dd", "aa ee"], search)() for search in (None, "paths")
    )
    assert isinstance(plain, tuple)
    assert isinstance(robust, tuple)
    assert not torch.equal(plain[0], robust[0])


def test_words_and_pairs_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("aa bb. aa cc\naa bb dd\nee\n", "utf-8")
    given = Namespace(words=3, texts=2, length=3)
    content = benchmark.content_of(file, given)
    assert content.texts == ["aa bb aa", "aa bb dd"]
    assert content.words == ["aa", "bb", "cc"]
    assert content.pairs is not None
    assert content.pairs[0] == ("aa", "bb")
    assert "dd" not in {word for pair in content.pairs for word in pair}
    one = benchmark.model(content.words, 2, 2, trained=True, pairs=content.pairs)
    with torch.no_grad():
        one.scores.words.zero_()
        one.scores.tables[0].fill_(1.0)
    found = one.scores.keep()(torch.tensor([one.tokenizer.vocabulary(["aa", "bb"])]))
    assert found[0, 1].tolist() == [1.0, 1.0]


def test_files_that_are_absent_or_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["word_certificates", "--file", "absent.txt"])
    with pytest.raises(ValueError, match=r"got absent\.txt, expected a file or folder that exists"):
        benchmark.main()
    empty = tmp_path / "empty.txt"
    empty.touch()
    monkeypatch.setattr(sys, "argv", ["word_certificates", "--file", str(empty)])
    with pytest.raises(ValueError, match=r"empty\.txt without a word, expected texts"):
        benchmark.main()


def test_all_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--words=20", "--texts=9", "--length=4", "--repeats=1", "--moved=2"]
    monkeypatch.setattr(sys, "argv", ["word_certificates", *sizes])
    benchmark.main()
    printed = capsys.readouterr().out
    for row in (
        "all words, words, if certified",
        "robust step, pairs",
        "robust step, net, intervals",
        "1 character, words",
        "1 word, words, smoothed",
        "1 word moved, Transformer",
    ):
        assert f"| {row} |" in printed
