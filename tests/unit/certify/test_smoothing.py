"""Smoothing: bounds on shares hold by enumeration, and the interval covers as often as it says."""

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from certify.smoothing import SmoothedCertifier, Smoothing, least_share
from certify.smoothing.random_texts import DeletedWords, MaskedWords, RandomTexts, SubstitutedWords
from certify.threats import Characters, Synonyms, WordEditDistance

LISTS = {"a": ["b", "c"], "b": ["a", "d"], "c": ["a"], "d": ["b", "c"]}
SYNONYMS = Synonyms.of(LISTS)
WORDS = ("a", "b", "c", "d")


def score(words: Sequence[str]) -> int:
    """A classifier in which order matters, with three classes."""
    total = sum((place + 1) * ord(word[0]) for place, word in enumerate(words))
    return (total // 3) % 3 if len(words) != 1 else 1


def classes(texts: list[str]) -> Tensor:
    return torch.tensor([score(text.split()) for text in texts])


def shares(noise: RandomTexts, words: Sequence[str]) -> list[float]:
    """Exact shares of the classes, by enumeration of all random texts."""
    found = [0.0, 0.0, 0.0]
    if isinstance(noise, DeletedWords):
        for kept in product((True, False), repeat=len(words)):
            weight = 1.0
            for one in kept:
                weight *= 1 - noise.rate if one else noise.rate
            found[score([w for w, one in zip(words, kept, strict=True) if one])] += weight
    elif isinstance(noise, MaskedWords):
        count, size = noise.kept(len(words)), len(words)
        every = [kept for kept in product((True, False), repeat=size) if sum(kept) == count]
        for kept in every:
            text = [w if one else noise.mask for w, one in zip(words, kept, strict=True)]
            found[score(text)] += 1 / len(every)
    else:
        assert isinstance(noise, SubstitutedWords)
        texts = list(product(*(noise.around(word) for word in words)))
        for drawn in texts:
            found[score(drawn)] += 1 / len(texts)
    return found


NOISES = [
    MaskedWords(0.5, "m"),
    DeletedWords(0.6),
    SubstitutedWords(SYNONYMS, 1),
    SubstitutedWords(SYNONYMS, 2),
]


@pytest.mark.parametrize("noise", NOISES, ids=["mask", "delete", "substitute", "substitute-2"])
@pytest.mark.parametrize("k", [1, 2, None])
def test_no_share_falls_by_more_than_the_overlap_says(noise: RandomTexts, k: int | None) -> None:
    tight = 1.0
    for words in (("a", "b", "d"), ("c", "c", "b"), ("d", "a", "a")):
        before, most = shares(noise, words), 1 - noise.overlap(words, k)
        for changed in product(WORDS, repeat=3):
            if not SYNONYMS.at(k).contains(" ".join(words), " ".join(changed)):
                continue
            after = shares(noise, changed)
            for old, new in zip(before, after, strict=True):
                assert old - new <= most + 1e-12
                tight = min(tight, most - (old - new))
    assert tight < 0.7  # the bound says something


def test_deletion_is_about_insertions_and_deletions_too() -> None:
    noise = DeletedWords(0.6)
    words = ("a", "b", "c")
    before = shares(noise, words)
    texts = [t for n in range(6) for t in product(WORDS, repeat=n)]
    for k in (1, 2):
        most = 1 - noise.overlap(words, k)
        near = [text for text in texts if Levenshtein.distance(words, text) <= k]
        assert any(len(text) > len(words) for text in near)
        for text in near:
            after = shares(noise, text)
            assert all(old - new <= most + 1e-12 for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("share", [0.3, 0.8, 0.97])
def test_the_interval_covers(share: float) -> None:
    """Exactly: the probability of the counts whose bound is above the share is at most alpha."""
    from scipy.stats import binom

    for samples, alpha in ((20, 0.05), (200, 0.01)):
        wrong = [n for n in range(samples + 1) if least_share(n, samples, alpha) > share]
        assert sum(binom.pmf(n, samples, share) for n in wrong) <= alpha
        assert least_share(0, samples, alpha) == 0
        assert least_share(samples, samples, alpha) == pytest.approx(alpha ** (1 / samples))


def test_coverage_on_a_classifier_that_is_enumerated() -> None:
    """Of many estimates of one text, at most about alpha are above its true share."""
    noise, words, alpha = DeletedWords(0.5), ("a", "b", "d", "c"), 0.1
    true = shares(noise, words)
    label = max(range(3), key=lambda one: true[one])
    random, above = Random(0), 0
    for _ in range(300):
        drawn = [noise.draw(words, random) for _ in range(40)]
        above += least_share(sum(score(text) == label for text in drawn), 40, alpha) > true[label]
    assert above <= 45  # 30 are expected at most; its deviation is 5


@pytest.mark.parametrize("noise", ["mask", "delete", "substitute"])
def test_certified_texts_keep_their_smoothed_class(noise: str) -> None:
    settings = Smoothing(noise=noise, rate=0.9, samples=3000, alpha=0.01)  # type: ignore[arg-type] # one of them
    certifier = SmoothedCertifier(
        lambda texts: torch.tensor([int(text.split().count("a") > 4) for text in texts]),
        SYNONYMS,
        settings,
    )
    text = "b d c d b c d"
    found = certifier([text, "a"], [0, 1])[0]
    assert found.kind == "probabilistic"
    assert found.confidence == 0.99
    assert found.prediction == 0
    assert found.holds[0]
    assert found.certified in (0, 1)
    assert certifier([text], [0, 1]) == [found]  # no matter what else is certified


def test_a_share_of_one_half_is_not_enough() -> None:
    def answer(texts: list[str]) -> Tensor:
        return torch.tensor([int("a" in text) for text in texts])

    certifier = SmoothedCertifier(
        answer, WordEditDistance(k=1), Smoothing(noise="delete", rate=0.5)
    )
    found = certifier(["a"], [0, 1])[0]
    assert found.holds == (False, False)
    assert found.certified == 0


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="alpha=0, expected between 0 and 1"):
        Smoothing(alpha=0)
    with pytest.raises(ValueError, match="noise='mix'"):
        Smoothing(noise="mix")  # type: ignore[arg-type] # what is refused
    with pytest.raises(ValueError, match="samples=0"):
        Smoothing(samples=0)
    with pytest.raises(ValueError, match="expected one of delete"):
        SmoothedCertifier(classes, WordEditDistance(k=1), Smoothing(noise="mask"))
    with pytest.raises(ValueError, match="which smoothing is for"):
        SmoothedCertifier(classes, Characters(k=1), Smoothing())
    listed = Synonyms.of({"a b": {"0": ["c"]}})
    with pytest.raises(ValueError, match="lists for words"):
        SmoothedCertifier(classes, listed, Smoothing(noise="substitute"))
