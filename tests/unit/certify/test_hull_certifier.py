"""Intervals around words: never wrong against the enumeration of all texts."""

from itertools import product

import pytest
import torch

from certify.intervals import HullCertifier, HullModel
from certify.threats import Characters, Synonyms
from layers.interval_cnn import IntervalCNN, WindowPooling
from text import WordTokenizer

LISTS = {"a": ["b", "c"], "b": ["a"], "c": ["d", "x"], "d": ["a", "c", "e"]}
SYNONYMS = Synonyms.of(LISTS)
F64 = torch.float64


def model(pooling: WindowPooling, seed: int, *, scale: float = 0.3) -> HullModel:
    torch.manual_seed(seed)
    tokenizer = WordTokenizer.build(["a b c d e"], max_length=5)
    network = IntervalCNN(4, 6, 3, pooling=pooling).to(F64).requires_grad_(requires_grad=False)
    vectors = torch.randn(tokenizer.vocab_size, 4, dtype=F64)
    # Words near each other, so that some texts are certified.
    vectors[3:] = vectors[3] + scale * vectors[3:]
    return HullModel(network, vectors, tokenizer)


@pytest.mark.long
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_certified_texts_are_robust(pooling: WindowPooling) -> None:
    outcomes = set()
    for seed in range(4):
        made = model(pooling, seed, scale=0.5)
        certifier = HullCertifier(made, SYNONYMS)
        for words in product("abcd", repeat=3):
            text = " ".join(words)
            (found,) = certifier([text], [0, 1, 2, None])
            outcomes.add(found.certified)
            assert list(found.holds) == sorted(found.holds, reverse=True)
            assert found.kind == "lower bound"
            for k, held in zip((0, 1, None), (*found.holds[:2], found.holds[3]), strict=True):
                if held:
                    texts = product(*SYNONYMS.candidates(text))
                    near = [t for t in texts if SYNONYMS.at(k).contains(text, " ".join(t))]
                    ids = torch.tensor([made.tokenizer.vocabulary(list(t)) for t in near])
                    mask = torch.ones_like(ids, dtype=torch.bool)
                    answers = made.network(made.vectors[ids], mask).argmax(dim=1)
                    assert set(answers.tolist()) == {found.prediction}
    assert {0, 1, None} <= outcomes


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_hull_of_one_point_is_the_forward_pass(pooling: WindowPooling) -> None:
    made = model(pooling, 0)
    x = torch.randn(2, 4, 4, dtype=F64)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    x[1, 2:] = 9.0  # padding may hold anything
    logits, labels = made.network(x, mask), torch.tensor([1, 2])
    ids, starts = torch.arange(8), torch.arange(9)
    own, lower, upper = (
        part.view(2, 4, -1) for part in made.network.hull(x.flatten(0, 1), ids, starts)
    )
    assert torch.equal(lower, upper)
    leads = made.network.least_leads(lower, upper, mask, labels)
    margins = logits.gather(1, labels.unsqueeze(1))
    torch.testing.assert_close(leads, margins - logits)
    single = made.network.least_leads_of_one(own, lower, upper, mask, labels)
    torch.testing.assert_close(single[mask], leads.unsqueeze(1).expand_as(single)[mask])
    alone = made.network(x[1:, :2], mask[1:, :2])
    torch.testing.assert_close(alone, logits[1:])


def test_what_is_not_read_is_no_matter() -> None:
    certifier = HullCertifier(model("mean", 0), SYNONYMS)
    short, long = certifier(["e e e e e", "e e e e e d"], [0, None])
    assert long.cut
    assert (long.holds, long.prediction) == (short.holds, short.prediction)
    assert short.certified is None  # no word of it has a list
    (unknown,) = certifier(["zz"], [0])
    assert unknown.unknown == 1
    with pytest.raises(ValueError, match="expected synonyms"):
        HullCertifier(model("mean", 0), Characters(k=1))


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_one_word_moves_as_if_the_others_had_no_candidates(pooling: WindowPooling) -> None:
    network = model(pooling, 1).network
    torch.manual_seed(0)
    own = torch.randn(3, 6, 6, dtype=F64)
    lower, upper = own - torch.rand_like(own), own + torch.rand_like(own)
    mask = torch.arange(6) < torch.tensor([[6], [1], [3]])
    labels = torch.tensor([0, 1, 2])
    found = network.least_leads_of_one(own, lower, upper, mask, labels)
    for position in range(6):
        at = (torch.arange(6) == position).view(1, -1, 1)
        low, high = torch.where(at, lower, own), torch.where(at, upper, own)
        real = mask[:, position]
        expected = network.least_leads(low, high, mask, labels)
        torch.testing.assert_close(found[real, position], expected[real])


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_certificates_do_not_depend_on_the_batch(pooling: WindowPooling) -> None:
    for seed in range(4):
        certifier = HullCertifier(model(pooling, seed), SYNONYMS)
        texts = ["a b c", "", "d", "x x", "e a d c b a"]
        alone = [certifier([text], [0, 1, None])[0] for text in texts]
        assert certifier(texts, [0, 1, None]) == alone
        # A text without words is one unknown word.
        assert alone[1].holds == (True, True, True)
        assert alone[1].prediction == certifier(["zz"], [0])[0].prediction


@pytest.mark.parametrize(("lead", "held"), [(1e-10, False), (1e-6, True)])
def test_a_lead_within_rounding_holds_for_nothing(lead: float, held: bool) -> None:
    made = model("mean", 0)
    with torch.no_grad():
        made.network.head.weight.zero_()
        made.network.head.bias.copy_(torch.tensor([lead, 0.0, -1.0]))
    (found,) = HullCertifier(made, SYNONYMS)(["a b"], [0, 1, None])
    assert (found.prediction, found.holds) == (0, (held,) * 3)
