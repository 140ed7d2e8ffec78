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
    for seed in range(8):
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
    lower, upper = made.network.hull(x.unsqueeze(2))
    leads = made.network.least_leads(lower, upper, mask, labels)
    own = logits.gather(1, labels.unsqueeze(1))
    torch.testing.assert_close(leads, own - logits)
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
