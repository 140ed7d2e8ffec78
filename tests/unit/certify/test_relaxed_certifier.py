"""Certificates of models with attention against synonyms, compared with all texts."""

from itertools import product
from typing import Any

import pytest
import torch

from certify.bound_propagation import RelaxedCertifier, RelaxedModel, ReplacedWords
from certify.bound_propagation.replaced_words import MarginBounds
from certify.threats import Characters, Synonyms
from certify.threats.listing import count, reachable
from tests.unit.certify.models import F64, classifier
from text import WordSettings, WordTokenizer

LISTS = {"a": ["b", "c"], "b": ["a"], "c": ["d", "x"], "d": ["a", "c", "e"], "x": ["y"]}
SYNONYMS = Synonyms.of(LISTS)


def model(seed: int, *, spread: float) -> RelaxedModel:
    tokenizer = WordTokenizer.build(["a b c d e"], max_length=5)
    network = classifier(1, seed=seed, classes=2).network
    vectors = torch.randn(tokenizer.vocab_size, 8, dtype=F64)
    # Words near each other, so that some texts are certified.
    vectors[3:] = vectors[3] + spread * vectors[3:]
    return RelaxedModel(ReplacedWords(network), lambda ids: vectors[ids], tokenizer)


def answers(made: RelaxedModel, texts: list[str]) -> list[int]:
    ids = [made.tokenizer.vocabulary(text.split())[:5] for text in texts]
    found: list[int] = made.bounds.logits(made.embed(torch.tensor(ids))).argmax(dim=1).tolist()
    return found


KS = [0, 1, 2, None]


@pytest.mark.long
@pytest.mark.parametrize("limit", [0, 1000], ids=["relaxed", "listed"])
def test_certificates_are_those_of_all_texts(limit: int) -> None:
    outcomes, kinds = set(), set()
    for seed in range(3):
        made = model(seed, spread=0.8)
        certifier = RelaxedCertifier(made, SYNONYMS, limit=limit)
        for words in ("abcd", "xabe", "dxda", "ee"):
            text = " ".join(words)
            (found,) = certifier([text], KS)
            near = [" ".join(one) for one in product(*SYNONYMS.candidates(text))]
            assert answers(made, [text]) == [found.prediction]
            assert list(found.holds) == sorted(found.holds, reverse=True)
            for k, held in zip(KS, found.holds, strict=True):
                texts = [one for one in near if SYNONYMS.at(k).contains(text, one)]
                true = set(answers(made, texts)) == {found.prediction}
                assert not held or true
                if found.kind == "exact":
                    assert held == true
            if found.witness is not None:
                first = KS[found.holds.index(False)]
                assert SYNONYMS.at(first).contains(text, found.witness)
                assert answers(made, [found.witness]) == [found.witness_prediction]
                assert found.witness_prediction != found.prediction
            assert (found.witness is None) == (found.kind == "lower bound" or all(found.holds))
            assert limit == 0 or found.kind == "exact"
            outcomes.add(found.certified)
            kinds.add((found.kind, found.witness is None))
    assert {None} < outcomes
    assert ("exact", False) in kinds


def test_what_is_not_read_is_no_matter() -> None:
    made = model(0, spread=0.4)
    certifier = RelaxedCertifier(made, SYNONYMS)
    short, long = certifier(["e e e e e", "e e e e e d"], [0, None])
    assert long.cut
    assert not short.cut
    assert (long.holds, long.prediction) == (short.holds, short.prediction)
    assert short.certified is None  # no word of it has a list
    # "x" and "y" are unknown: one id, and so no change.
    (unknown,) = certifier(["x"], [1])
    assert (unknown.unknown, unknown.holds, unknown.kind) == (1, (True,), "exact")
    (empty,) = certifier([""], [None])
    assert empty.holds == (True,)


def test_a_witness_keeps_the_words_that_are_not_read() -> None:
    for seed in range(6):
        certifier = RelaxedCertifier(model(seed, spread=2.0), SYNONYMS)
        (found,) = certifier(["d d d d d zz d"], [None])
        if found.witness is not None:
            assert found.witness.split()[5:] == ["zz", "d"]
            return
    pytest.fail("no seed has a witness")


@pytest.mark.parametrize(
    ("margin", "held", "kind"),
    [(0.0, False, "exact"), (1e-10, False, "lower bound"), (1e-6, True, "exact")],
)
@pytest.mark.parametrize("ks", [(0,), (1,)])
def test_a_lead_within_rounding_holds_for_nothing(
    margin: float, held: bool, kind: str, ks: tuple[int, ...]
) -> None:
    network = classifier(1, classes=2, head_bias=True).network
    with torch.no_grad():
        network.get_parameter("head.weight")[1] = network.get_parameter("head.weight")[0]
        network.get_parameter("head.bias").copy_(torch.tensor([margin, 0.0]))
    made = model(0, spread=0.4)._replace(bounds=ReplacedWords(network))
    for limit in (0, 1000):
        (found,) = RelaxedCertifier(made, SYNONYMS, limit=limit)(["a b"], ks)
        assert found.prediction == 0
        assert (found.holds, found.kind) == ((held,), kind)
        # A tie is a witness, with the class that is as large.
        assert found.witness_prediction == (1 if margin == 0 else None)


def test_wrong_input() -> None:
    made = model(0, spread=0.4)
    with pytest.raises(ValueError, match="expected synonyms"):
        RelaxedCertifier(made, Characters(k=1))
    with pytest.raises(ValueError, match="expected synonyms"):
        RelaxedCertifier(made, Synonyms.of(LISTS, words=WordSettings(split="ascii")))
    with pytest.raises(ValueError, match="limit"):
        RelaxedCertifier(made, SYNONYMS, limit=-1)


@pytest.mark.parametrize("k", [0, 1, 2, None])
def test_listing(k: int | None) -> None:
    choices: list[list[str]] = [["a", "b", "c"], ["d"], ["e", "f"]]

    def changes(text: tuple[str, ...]) -> int:
        return sum(one != choice[0] for one, choice in zip(text, choices, strict=True))

    expected = {text for text in product(*choices) if k is None or changes(text) <= k}
    found = list(reachable(choices, k))
    assert {*map(tuple, found)} == expected
    assert len(found) == len(expected) == count(choices, k)
    assert found[0] == ["a", "d", "e"]


@pytest.mark.long
def test_worst_texts_have_no_choice_that_only_fills_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = ReplacedWords.__call__

    def filled(*asked: Any) -> MarginBounds:
        found = bounds(*asked)
        # "d" has three candidates and "b" one.
        return MarginBounds(found.margin - 9, torch.full_like(found.choices, 3))

    monkeypatch.setattr(ReplacedWords, "__call__", filled)
    witnesses = []
    for seed in range(12):
        certifier = RelaxedCertifier(model(seed, spread=2.0), SYNONYMS, limit=0)
        (found,) = certifier(["d b b"], [None])
        witnesses += [] if found.witness is None else [found.witness]
    assert "e b b" in witnesses
    assert all(SYNONYMS.contains("d b b", one) for one in witnesses)
