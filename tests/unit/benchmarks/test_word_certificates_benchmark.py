"""The benchmark of certificates in words compares what it says."""

import sys

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
    assert benchmark.predicted(one, texts).tolist() == [one.prediction for one in certificates]


def test_a_robust_step_has_other_gradients() -> None:
    one = benchmark.model(WORDS, 1, 2, trained=True)
    threat = Synonyms.of({"aa": ["bb", "cc"]}, words=benchmark.ASCII)
    plain, robust = (
        benchmark.training(one, threat, ["aa dd", "aa ee"], search)() for search in (None, "paths")
    )
    assert isinstance(plain, tuple)
    assert isinstance(robust, tuple)
    assert not torch.equal(plain[0], robust[0])


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
