"""The encoding: its clusters against brute force, its certificates against all texts."""

import json
import random
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from certify.encoding import EncodedCertifier, SynonymEncoding, cluster_words
from certify.encoding.word_clusters import stability
from certify.threats import Synonyms, WordEditDistance

LISTS = {
    "good": ["fine", "great"],
    "fine": ["good", "nice"],
    "great": ["good", "big"],
    "nice": ["fine"],
    "big": ["great", "large"],
    "large": ["big"],
    "bad": ["awful"],
    "awful": ["bad"],
}
COUNTS = {"good": 9, "fine": 2, "great": 3, "nice": 1, "big": 5, "large": 1, "bad": 6, "film": 9}
SYNONYMS = Synonyms.of(LISTS)


def cost(encoding: SynonymEncoding, fidelity: float) -> float:
    total = sum(COUNTS.values())
    lost = sum(count for word, count in COUNTS.items() if encoding.of_word(word) != word)
    return (1 - fidelity) * stability(encoding, SYNONYMS, COUNTS) + fidelity * lost / total


def test_fidelity_between_all_and_nothing() -> None:
    assert cluster_words(SYNONYMS, COUNTS, 1.0).representatives == {}
    whole = cluster_words(SYNONYMS, COUNTS, 0.0)
    assert stability(whole, SYNONYMS, COUNTS) == 1
    assert {whole.of_word(word) for word in ("good", "large", "nice")} == {"good"}
    assert whole.of_word("awful") == "bad"
    assert whole.of_word("film") == "film"
    costs = [stability(cluster_words(SYNONYMS, COUNTS, f), SYNONYMS, COUNTS) for f in (0, 0.6, 1)]
    assert costs == sorted(costs)


@pytest.mark.parametrize("fidelity", [0.3, 0.5, 0.7, 0.9])
def test_no_single_merge_would_be_better(fidelity: float) -> None:
    found = cluster_words(SYNONYMS, COUNTS, fidelity)
    before = cost(found, fidelity)
    assert before <= cost(SynonymEncoding({}), fidelity) + 1e-12
    words = sorted({*COUNTS, *LISTS})
    for one, other in product({found.of_word(word) for word in words}, repeat=2):
        rest, kept = sorted((one, other), key=lambda word: COUNTS.get(word, 0))
        merged = {w: kept if found.of_word(w) == rest else found.of_word(w) for w in words}
        assert before <= cost(SynonymEncoding(merged), fidelity) + 1e-12


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("fidelity", [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)])
def test_the_best_merge_is_made_first(fidelity: Fraction, seed: int) -> None:
    rng = random.Random(seed)
    words = [f"w{index:02}" for index in range(rng.randint(2, 12))]
    lists = {word: rng.sample(words, rng.randint(0, min(3, len(words)))) for word in words}
    counts = {word: rng.choice((0, 1, 2, 7)) for word in words}
    near = {word: {word, *lists[word]} for word in words}

    def cost(clusters: list[set[str]]) -> Fraction:
        encodings = sum(
            counts[word] * sum(not cluster.isdisjoint(near[word]) for cluster in clusters)
            for word in words
        )
        kept = sum(max(counts[word] for word in cluster) for cluster in clusters)
        return (1 - fidelity) * encodings + fidelity * (sum(counts.values()) - kept)

    clusters: list[set[str]] = []
    best = [{word} for word in words]
    while best != clusters:
        clusters, least = best, cost(best)
        for first, second in combinations(sorted(clusters, key=min), 2):
            rest = [cluster for cluster in clusters if cluster not in (first, second)]
            reached = any(near[word] & first and near[word] & second for word in words)
            if reached and cost([*rest, first | second]) < least:
                best, least = [*rest, first | second], cost([*rest, first | second])
    encoding = cluster_words(Synonyms.of(lists), counts, float(fidelity))
    for cluster in clusters:
        kept = min(cluster, key=lambda word: (-counts[word], word))
        assert {encoding.of_word(word) for word in cluster} == {kept}


def logits(texts: list[str]) -> Tensor:
    """A classifier of the text as a whole: no sum of scores."""
    place = torch.tensor([sum((i + 1) * ord(c) for i, c in enumerate(t)) % 23 for t in texts])
    return torch.stack([(place < 4).float(), (place >= 4).float()], dim=1)


@pytest.mark.long
@pytest.mark.parametrize("fidelity", [0.0, 0.5, 0.7, 1.0])
def test_certificates_are_those_of_all_texts(fidelity: float) -> None:
    encoding = cluster_words(SYNONYMS, COUNTS, fidelity)

    def encoded(texts: list[str]) -> Tensor:
        return logits([encoding.of_words(text.split(" ")) for text in texts])

    certifier = EncodedCertifier(encoded, encoding.of_word, SYNONYMS)

    def answer(words: tuple[str, ...]) -> int:
        return int(logits([encoding.of_words(words)]).argmax())

    words = ("good", "big", "bad", "fine")
    outcomes = set()
    for text in product(words, repeat=3):
        (found,) = certifier([" ".join(text)], [0, 1, 2, None])
        assert found.kind == "exact"
        assert found.prediction == answer(text)
        for k, held in zip((0, 1, 2, None), found.holds, strict=True):
            near = product(*SYNONYMS.candidates(" ".join(text)))
            some = [one for one in near if SYNONYMS.at(k).contains(" ".join(text), " ".join(one))]
            assert held == all(answer(one) == found.prediction for one in some)
        outcomes.add(found.certified)
        if found.witness is not None:
            assert SYNONYMS.contains(found.text, found.witness)
            assert answer(tuple(found.witness.split())) == found.witness_prediction
            assert found.witness_prediction != found.prediction
        assert (found.witness is None) == all(found.holds)
    assert len(outcomes) > 1 or fidelity < 1


def test_too_many_encodings_are_no_certificate() -> None:
    certifier = EncodedCertifier(logits, str, SYNONYMS, limit=7)
    (found,) = certifier(["film good film big"], [0, 1, None])
    assert found.holds[2] is False
    assert found.kind == ("lower bound" if found.witness is None else "exact")
    # 1 + 2 + 2 encodings for one change, 3 * 3 for any.
    sure = EncodedCertifier(
        lambda texts: torch.tensor([[1.0, 0.0]] * len(texts)), str, SYNONYMS, limit=8
    )
    (found,) = sure(["film good film big"], [0, 1, None])
    assert (found.holds, found.kind, found.certified) == ((True, True, False), "lower bound", 1)


def test_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "encoding.json"
    path.write_text(json.dumps({"fine": "good"}))
    assert SynonymEncoding.read(path).of_words(["fine", "film"]) == "good film"
    for content, wrong in (
        ("[", "cannot be read"),
        ('["a"]', "other JSON"),
        ('{"a": 1}', "other JSON"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=wrong):
            SynonymEncoding.read(path)


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="fidelity=2, expected"):
        cluster_words(SYNONYMS, COUNTS, 2)
    with pytest.raises(ValueError, match="lists for words"):
        cluster_words(Synonyms.of({"a b": {"0": ["c"]}}), {}, 0.5)
    with pytest.raises(ValueError, match="expected synonyms"):
        EncodedCertifier(logits, str, WordEditDistance(k=1))
    with pytest.raises(ValueError, match="limit=0"):
        EncodedCertifier(logits, str, SYNONYMS, limit=0)


@pytest.mark.parametrize("lead", [0.0, 1e-12])
def test_a_tie_is_no_certificate(lead: float) -> None:
    """What `argmax` makes of equal logits is no prediction."""

    def tied(texts: list[str]) -> Tensor:
        rows = [[lead, 0.0, -1.0] if "fine" in text else [1.0, 0.0, -1.0] for text in texts]
        return torch.tensor(rows, dtype=torch.float64)

    certifier = EncodedCertifier(tied, str, SYNONYMS)
    (found,) = certifier(["good film"], [0, 1])
    assert found.holds == (True, False)
    # Within rounding nothing is known; at a tie there is a witness.
    expected = ("exact", "fine film", 1) if lead == 0 else ("lower bound", None, None)
    assert (found.kind, found.witness, found.witness_prediction) == expected
    (own,) = certifier(["fine film"], [0, 1])
    assert own.holds == (False, False)


def test_each_text_is_classified_alone() -> None:
    """A batch changes the logits of its texts, as padding and sums in other orders do."""

    def batched(texts: list[str]) -> Tensor:
        rows = [[1.0, 0.0] for _ in texts] if len(texts) == 1 else [[0.0, 1.0] for _ in texts]
        return torch.tensor(rows)

    (found,) = EncodedCertifier(batched, str, SYNONYMS)(["good film"], [0, None])
    assert (found.prediction, found.holds) == (0, (True, True))


def test_no_logit_is_no_certificate() -> None:
    certifier = EncodedCertifier(
        lambda texts: torch.tensor([[torch.nan, 0.0]] * len(texts)), str, SYNONYMS
    )
    assert certifier(["good film"], [0, None])[0].holds == (False, False)
