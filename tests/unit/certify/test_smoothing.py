"""Smoothing: bounds on shares hold by enumeration, and the interval covers as often as it says."""

from collections.abc import Sequence
from itertools import product
from math import comb
from random import Random

import pytest
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from certify.smoothing import SmoothedCertifier, Smoothing, least_share
from certify.smoothing.random_texts import DeletedWords, MaskedWords, RandomTexts, SubstitutedWords
from certify.threats import Characters, Synonyms, WordEditDistance
from certify.ties import classes as untied_classes

LISTS = {"a": ["b", "c"], "b": ["a", "d"], "c": ["a"], "d": ["b", "c"]}
SYNONYMS = Synonyms.of(LISTS)
WORDS = ("a", "b", "c", "d")


def score(words: Sequence[str]) -> int:
    """A classifier in which order matters, with three classes."""
    total = sum((place + 1) * ord(word[0]) for place, word in enumerate(words))
    return (total // 3) % 3 if len(words) != 1 else 1


def classes(texts: list[str]) -> Tensor:
    return torch.tensor([score(text.split()) for text in texts])


def random_texts_of(noise: RandomTexts, words: Sequence[str]) -> dict[tuple[str, ...], float]:
    """All random texts and their probabilities, each text once."""
    found, size = dict[tuple[str, ...], float](), len(words)
    if isinstance(noise, SubstitutedWords):
        texts = [*product(*(noise.around(word) for word in words))]
        return dict.fromkeys(texts, 1 / len(texts))
    for kept in product((True, False), repeat=size):
        if isinstance(noise, DeletedWords):
            rate = noise.rate_of(size)
            text = tuple(w for w, one in zip(words, kept, strict=True) if one)
            weight = (1 - rate) ** sum(kept) * rate ** (size - sum(kept))
        else:
            assert isinstance(noise, MaskedWords)
            if sum(kept) != noise.kept(size):
                continue
            text = tuple(w if one else noise.mask for w, one in zip(words, kept, strict=True))
            weight = 1 / comb(size, noise.kept(size))
        found[text] = found.get(text, 0.0) + weight
    return found


def shares(noise: RandomTexts, words: Sequence[str]) -> list[float]:
    """Exact shares of the classes, by enumeration of all random texts."""
    found = [0.0, 0.0, 0.0]
    for text, weight in random_texts_of(noise, words).items():
        found[score(text)] += weight
    return found


def worst_shares(
    noise: RandomTexts, words: Sequence[str], changed: Sequence[str]
) -> dict[float, float]:
    """Some shares, and what the worst of all classifiers leaves of each (Neyman and Pearson)."""
    before, after = random_texts_of(noise, words), random_texts_of(noise, changed)
    rarer = sorted(before, key=lambda text: after.get(text, 0.0) / before[text])
    worst = {}
    for share in (0.55, 0.7, 0.9, 0.99, 1.0):
        left, worst[share] = share, 0.0
        for text in rarer:
            part = min(1.0, max(0.0, left) / before[text])
            left -= before[text]
            worst[share] += part * after.get(text, 0.0)
    return worst


NOISES = [
    MaskedWords(0.5, "m"),
    DeletedWords(0.6, inserts=False),
    DeletedWords(0.6, 0.9, inserts=False),
    SubstitutedWords(SYNONYMS, 1),
    SubstitutedWords(SYNONYMS, 2),
]
NAMES = ["mask", "delete", "delete-keep", "substitute", "substitute-2"]


@pytest.mark.parametrize("noise", NOISES, ids=NAMES)
@pytest.mark.parametrize("k", [1, 2, None])
def test_no_share_falls_below_the_bound(noise: RandomTexts, k: int | None) -> None:
    tight = 1.0
    for words in (("a", "b", "d"), ("c", "c", "b"), ("d", "a", "a")):
        before = shares(noise, words)
        for changed in product(WORDS, repeat=3):
            if not SYNONYMS.at(k).contains(" ".join(words), " ".join(changed)):
                continue
            for old, new in zip(before, shares(noise, changed), strict=True):
                bound = noise.share_after(words, k, old)
                assert new >= bound - 1e-12
                tight = min(tight, new - bound)
    assert tight < 0.7  # the bound says something


@pytest.mark.parametrize("noise", NOISES, ids=NAMES)
@pytest.mark.parametrize("k", [1, 2, None])
def test_no_classifier_breaks_the_bound_of_replacements(noise: RandomTexts, k: int | None) -> None:
    closest = 1.0
    for words in (("a", "b", "d"), ("c", "c", "b"), ("d", "a", "a"), ("b", "d"), ("a",)):
        for changed in product(WORDS, repeat=len(words)):
            if SYNONYMS.at(k).contains(" ".join(words), " ".join(changed)):
                for share, least in worst_shares(noise, words, changed).items():
                    bound = noise.share_after(words, k, share)
                    assert least >= bound - 1e-12, (words, changed, share)
                    closest = min(closest, least - bound)
    assert closest < 1e-12  # it is reached


def test_the_random_texts_are_those_of_the_settings() -> None:
    assert [MaskedWords(0.7, "m").kept(length) for length in (0, 1, 3, 10)] == [0, 1, 1, 3]
    assert SubstitutedWords(SYNONYMS, 1).around("a") == ("a", "b", "c")
    assert SubstitutedWords(SYNONYMS, 2).around("a") == ("a", "b", "c", "d")
    assert SubstitutedWords(SYNONYMS, 1).around("c") == ("a", "c")


# A fixed rate, and rates that rise with the length.
RATES = [(0.6, None), (0.2, 1.5), (0.1, 2.5), (0.5, 1.0), (0.05, 3.0)]


@pytest.mark.parametrize(("rate", "keep"), RATES)
def test_deletion_is_about_insertions_and_deletions_too(rate: float, keep: float | None) -> None:
    noise = DeletedWords(rate, keep)
    words = ("a", "b", "c")
    before = shares(noise, words)
    texts = [t for n in range(6) for t in product(WORDS, repeat=n)]
    for k in (1, 2):
        bounds = [noise.share_after(words, k, share) for share in before]
        near = [text for text in texts if Levenshtein.distance(words, text) <= k]
        assert any(len(text) > len(words) for text in near)
        for text in near:
            after = shares(noise, text)
            assert all(new >= least - 1e-12 for new, least in zip(after, bounds, strict=True))


@pytest.mark.long
@pytest.mark.parametrize(
    ("k", "rate", "keep"),
    [
        *((1, *rate) for rate in RATES),
        (2, *RATES[1]),
        *(pytest.param(2, *rate, marks=pytest.mark.slow) for rate in (*RATES[:1], *RATES[2:])),
    ],
)
def test_no_classifier_breaks_the_bound_of_deletion(
    k: int, rate: float, keep: float | None
) -> None:
    """Against the worst of all classifiers at each text, by the lemma of Neyman and Pearson."""
    noise, closest = DeletedWords(rate, keep), 1.0
    texts = [t for n in range(7) for t in product("ab", repeat=n)]
    for words in ("a", "ab", "aab", "abab", "bbbb", "abba"):
        for changed in texts:
            if Levenshtein.distance(words, changed) > k:
                continue
            for share, least in worst_shares(noise, words, changed).items():
                bound = noise.share_after(tuple(words), k, share)
                assert least >= bound - 1e-12, (words, changed, share)
                closest = min(closest, least - bound)
    assert closest < 1e-12  # it is reached


def test_longer_texts_lose_more_words() -> None:
    noise = DeletedWords(0.5, 3)
    rates = [noise.rate_of(length) for length in (0, 1, 6, 12, 30)]
    assert rates == pytest.approx([0.5, 0.5, 0.5, 0.75, 0.9])
    random = Random(0)
    for length in (12, 30):
        kept = [len(noise.draw(["a"] * length, random)) for _ in range(2000)]
        assert sum(kept) / 2000 == pytest.approx(3, abs=0.15)  # its deviation is below 0.04
    # Replacements do not change the length, and so not the rate.
    replaced = DeletedWords(0.5, 3, inserts=False).share_after(["a"] * 30, 2, 0.9)
    assert replaced == pytest.approx(0.9 - 1 + 0.9**2)
    assert DeletedWords(0.01, inserts=False).share_after(["a"] * 300, None, 1.0) == 0
    # A text without its last word has another rate: worse than with another last word.
    few = [DeletedWords(0.2, 4, inserts=own).share_after("abcdef", 1, 0.7) for own in (True, False)]
    assert few == pytest.approx([0.0237, 0.0333], abs=1e-4)


def test_a_lead_within_rounding_votes_for_no_class() -> None:
    nan = float("nan")
    rows = [
        [1, 0, 0],
        [0, 0, -1],
        [1e-12, 0, -1],
        [nan, 1, 0],
        [1, nan, 0],
        [-1e9, -1e9 - 0.5, -2e9],
    ]
    logits = torch.tensor(rows, dtype=torch.float64)
    assert untied_classes(logits).tolist() == [0, -1, -1, -1, -1, -1]
    # As float32 this lead is the least that there is, and no rounding of float64.
    assert untied_classes(torch.tensor([[1.0, 1.0 + 2**-23]])).tolist() == [1]


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


@pytest.mark.parametrize(
    ("first", "second", "holds"), [(0, 0, True), (0, 1, False), (0, -1, False), (-1, -1, False)]
)
def test_the_bound_is_of_other_random_texts_than_the_class(
    first: int, second: int, *, holds: bool
) -> None:
    """And a tie votes for no class, neither when the class is chosen nor when it is counted."""
    labels = iter((first, second))

    def answer(texts: list[str]) -> Tensor:
        return torch.full((len(texts),), next(labels))

    (found,) = SmoothedCertifier(answer, SYNONYMS, Smoothing())(["a b d a"], [0])
    assert (found.prediction, found.holds) == (0, (holds,))
    assert next(labels, None) is None


def test_an_insertion_has_its_own_bound() -> None:
    """One "x" in an empty text turns seven of ten random texts."""

    def answer(texts: list[str]) -> Tensor:
        return torch.tensor([int("x" in text) for text in texts])

    certifier = SmoothedCertifier(
        answer, WordEditDistance(k=1), Smoothing(noise="delete", rate=0.3)
    )
    empty, longer = certifier(["", "x"], [0, 1])
    assert (empty.prediction, empty.holds) == (0, (True, False))
    assert longer.prediction == 1


def test_a_seed_has_its_own_random_texts() -> None:
    asked: list[list[str]] = []

    def answer(texts: list[str]) -> Tensor:
        asked.append(texts)
        return torch.zeros(len(texts), dtype=torch.int64)

    for seed in (0, 0, 1):
        SmoothedCertifier(answer, SYNONYMS, Smoothing(seed=seed))(["a b d a b d a b"], [0])
    first, same, other = asked[:2], asked[2:4], asked[4:]
    assert first == same != other


def test_a_share_of_one_half_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(texts: list[str]) -> Tensor:
        return torch.tensor([int("a" in text) for text in texts])

    certifier = SmoothedCertifier(
        answer, WordEditDistance(k=1), Smoothing(noise="delete", rate=0.5)
    )
    found = certifier(["a"], [0, 1])[0]
    assert found.holds == (False, False)
    assert found.certified == 0
    for share, holds in ((0.5, False), (0.5 + 1e-12, True)):
        monkeypatch.setattr(certifier.noise, "share_after", lambda *_, share=share: share)
        assert certifier(["a"], [0])[0].holds == (holds,)


def test_only_words_that_are_replaced_may_be_any_number() -> None:
    """Insertions have no limit."""

    def answer(texts: list[str]) -> Tensor:
        return torch.tensor([int(text.split().count("x") > 2) for text in texts])

    settings = Smoothing(noise="delete", rate=0.9, samples=1000)
    certifier = SmoothedCertifier(answer, WordEditDistance(k=1), settings)
    (found,), (longer,) = certifier(["good"], [0, 1]), certifier(["x " * 60], [0])
    assert found.holds == (True, True)
    assert longer.prediction != found.prediction
    for k in (None, -1):
        with pytest.raises(ValueError, match="for words, expected an integer of at least 0"):
            certifier(["good"], [0, k])
    (found,) = SmoothedCertifier(answer, SYNONYMS, settings)(["a"], [0, None])
    assert len(found.holds) == 2


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="alpha=0, expected between 0 and 1"):
        Smoothing(alpha=0)
    with pytest.raises(ValueError, match=r"keep=13, expected .*=delete, which is mask"):
        Smoothing(noise="mask", keep=13)
    with pytest.raises(ValueError, match="keep=0, expected a number above 0"):
        Smoothing(noise="delete", keep=0)
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
