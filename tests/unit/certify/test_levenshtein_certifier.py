"""The constant of an edit: never exceeded by any string at distance 1, and the printed one is."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from certify.edits import EDIT_BOUNDS, LevenshteinCertifier
from certify.threats import Characters, WordEditDistance
from layers.levenshtein_cnn import LevenshteinCNN, edit_constant, joined
from layers.norms import Norm
from text import CharacterTokenizer

ALPHABET = "abc"


def network(
    *, kernel: int = 3, depth: int = 1, norm: Norm = "2", classes: int = 3, seed: int = 0
) -> LevenshteinCNN:
    torch.manual_seed(seed)
    made = LevenshteinCNN(6, 4, classes, kernel=kernel, depth=depth, norm=norm)
    return made.to(torch.float64).requires_grad_(requires_grad=False)


def tokenizer(max_length: int = 64) -> CharacterTokenizer:
    return CharacterTokenizer.build([ALPHABET], max_length=max_length)


def near(text: str) -> Iterator[str]:
    """All strings at distance 1; `?` stands for any character that is not known."""
    letters = ALPHABET + "?"
    for at in range(len(text) + 1):
        yield from (text[:at] + letter + text[at:] for letter in letters)
    for at in range(len(text)):
        yield text[:at] + text[at + 1 :]
        yield from (text[:at] + letter + text[at + 1 :] for letter in letters if letter != text[at])


def sums(model: LevenshteinCNN, texts: list[str]) -> Tensor:
    """The sums over the windows: the input of the head."""
    ids = [encoding.input_ids for encoding in tokenizer().encode(texts)]
    longest = max(map(len, ids))
    padded = torch.tensor([[*one, *[0] * (longest - len(one))] for one in ids])
    with torch.no_grad():
        return model.pooled(model.embed(padded), padded != 0)


@pytest.mark.parametrize("norm", ["2", "inf"])
@pytest.mark.parametrize(("kernel", "depth"), [(1, 1), (2, 1), (4, 1), (3, 2)])
def test_no_edit_moves_the_sum_further(kernel: int, depth: int, norm: Norm) -> None:
    largest = 0.0
    for seed in range(4):
        model = network(kernel=kernel, depth=depth, norm=norm, seed=seed)
        constant = LevenshteinCertifier(model, tokenizer(), Characters()).constant
        for text in ("", "a", "abcab", "aabbccab", "cacacaca"):
            moved = sums(model, [text, *near(text)])
            reach = (moved[1:] - moved[0]).norm(model.order, dim=-1).max()
            assert float(reach) <= constant
            largest = max(largest, float(reach) / constant)
    assert largest > 0.02  # the constant is no wild guess


def alternating() -> LevenshteinCNN:
    """`a` is 1/2 and `b` -1/2, and a window of 10 characters adds them up with signs that change.

    Two classes: the first one for a sum below 5/2.
    """
    model = LevenshteinCNN(5, 1, 2, kernel=10, depth=1, norm="2").to(torch.float64)
    with torch.no_grad():
        # Behind `<unk>` and `<end>`, which are 0 here, as what lies beyond a text.
        model.symbols.copy_(torch.tensor([[0.0], [0.0], [0.5], [-0.5]]))
        model.kernels[0].copy_(torch.tensor([1.0, -1.0]).repeat(5).view(10, 1, 1))
        model.head.weight.copy_(torch.tensor([[-0.5], [0.5]]))
        model.head.bias.copy_(torch.tensor([5 / 2, 0.0]))
    return model.requires_grad_(requires_grad=False)


def test_an_insertion_exceeds_the_constant_of_the_paper() -> None:
    """By hand: 10 characters, all sizes 1, and one insertion moves the sum by 3/2."""
    model, words = alternating(), CharacterTokenizer.build(["ab"], max_length=64)
    assert words.find_ids("ab") == [3, 4]
    assert model.spread() == 1
    before, after = "ababaababa", "abababababa"
    encoded = [torch.tensor([one.input_ids]) for one in words.encode([before, after])]
    found = [float(model.pooled(model.embed(ids), ids != 0)) for ids in encoded]
    assert found == pytest.approx([5 / 4, 11 / 4])
    printed, sound = (
        LevenshteinCertifier(model, words, Characters(k=1), bound) for bound in EDIT_BOUNDS[::-1]
    )
    (claimed,), (proven,) = (one([before], [0, 1]) for one in (printed, sound))
    assert (claimed.kind, proven.kind) == ("unproven", "lower bound")
    # The lead is 5/4: more than the printed constant, 1, and less than the insertion takes.
    assert claimed.holds == (True, True)
    assert proven.holds == (True, False)
    (changed,) = sound([after], [0])
    assert changed.prediction != claimed.prediction


def test_the_constant_of_the_paper() -> None:
    """k times the largest distance of a character of the text from any other one, or of 0."""
    model = network(kernel=2, classes=2)
    certifier = LevenshteinCertifier(model, tokenizer(), Characters(k=1), "paper")
    table = torch.cat([torch.zeros(1, 4), model.symbols]) / model.spread()
    for text in ("", "a", "abc"):
        (encoding,) = tokenizer().encode([text])
        ids = torch.tensor(encoding.input_ids)
        far = torch.cdist(table[[0, *encoding.input_ids]], table).max()
        assert certifier.moved(ids, 3) == pytest.approx(3 * float(far), rel=1e-6)


@pytest.mark.parametrize("norm", ["2", "inf"])
def test_no_two_edits_move_the_sum_further(norm: Norm) -> None:
    """By what holds around a text, which is less than what holds for all."""
    nearer = 0
    for seed in range(4):
        model = network(kernel=2, norm=norm, seed=seed)
        certifier = LevenshteinCertifier(model, tokenizer(), Characters(k=1))
        for text in ("", "a", "ab"):
            (encoding,) = tokenizer().encode([text])
            ids = torch.tensor(encoding.input_ids)
            once = list(near(text))
            for k, others in ((1, once), (2, [one for other in once for one in near(other)])):
                moved = sums(model, [text, *others])
                reach = (moved[1:] - moved[0]).norm(model.order, dim=-1).max()
                bound, everywhere = certifier.moved(ids, k), k * certifier.constant
                assert float(reach) <= bound <= everywhere * (1 + 1e-12)
                nearer += bound < 0.99 * everywhere
    assert nearer


@pytest.mark.parametrize("norm", ["2", "inf"])
@pytest.mark.parametrize(("kernel", "depth"), [(1, 1), (3, 1), (2, 2)])
def test_the_constant_around_a_text_is_that_of_its_definition(
    kernel: int, depth: int, norm: Norm
) -> None:
    """docs/certificates/baselines.md, section 5, position by position."""
    model = network(kernel=kernel, depth=depth, norm=norm)
    certifier = LevenshteinCertifier(model, tokenizer(), Characters(k=1))
    order = 2.0 if norm == "2" else math.inf
    shares = np.ones(1)
    for layer in model.kernels:
        sizes = [np.linalg.norm(tap.numpy(), ord=order) for tap in layer]
        shares = np.convolve(shares, np.array(sizes) / sum(sizes))
    last = len(shares) - 1
    cost = min(
        sum(shares[i:].sum() for i in range(middle + 1, last + 1))
        + sum(shares[: i + 1].sum() for i in range(middle))
        for middle in range(last + 1)
    )
    table = torch.cat([torch.zeros(1, 4), model.symbols / model.spread()]).numpy()

    def edited(ids: list[int]) -> float:
        spread = max(np.linalg.norm(table[i] - row, ord=order) for i in ids for row in table)
        size = max(np.linalg.norm(row, ord=order) for row in table)
        return float(max(spread, size + spread * cost))

    everywhere = edited([*range(len(table))])
    for text in ("", "a", "cab"):
        (encoding,) = tokenizer().encode([text])
        first = edited([0, *encoding.input_ids])
        for k in range(4):
            expected = first + (k - 1) * everywhere if k else 0.0
            found = certifier.moved(torch.tensor(encoding.input_ids), k)
            assert found == pytest.approx(expected, rel=1e-6)
    # Hoelder: a sum in the maximum norm meets rows of the head in the sum norm.
    gaps = torch.cdist(model.rows(), model.rows(), p=2 if norm == "2" else 1)
    torch.testing.assert_close(certifier.gaps, gaps)


def test_what_is_beyond_a_text_is_replaced_too() -> None:
    """The characters of the text are half way to all others, and padding is not."""
    model = network(kernel=3)
    (encoding,) = tokenizer().encode(["aa"])
    ids = torch.tensor(encoding.input_ids)
    model.symbols.fill_(1.0)
    model.symbols[ids - 1] = 0.5
    certifier = LevenshteinCertifier(model, tokenizer(), Characters(k=1))
    assert float(certifier.reach[ids].amax()) == pytest.approx(0.5)
    assert certifier.moved(ids, 1) == pytest.approx(certifier.constant)


@pytest.mark.parametrize(("lead", "held"), [(1e-10, False), (1e-6, True)])
def test_a_lead_within_rounding_holds_for_nothing(lead: float, held: bool) -> None:
    model = network(classes=2)
    with torch.no_grad():
        logits = torch.nn.functional.linear(sums(model, ["ab"]), model.rows(), model.head.bias)[0]
        model.head.bias[0] += logits[1] - logits[0] + lead
    certifier = LevenshteinCertifier(model, tokenizer(), Characters(k=1))
    (found,) = certifier(["ab"], [0])
    assert (found.prediction, found.holds) == (0, (held,))


def test_shares_of_two_layers() -> None:
    one, other = torch.tensor([0.25, 0.75]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    expected = torch.tensor([0.05, 0.225, 0.35, 0.375]).double()
    torch.testing.assert_close(joined([one, other]), expected)
    # One place: a new character adds one window, and moves no other.
    assert edit_constant(torch.ones(1).double(), spread=1.0, size=0.5) == 1.0


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_certificates_hold_at_distance_one(seed: int) -> None:
    model = network(kernel=2, classes=2, seed=seed)
    # A head that knows one long text from none.
    (aim,) = sums(model, ["a" * 30])
    with torch.no_grad():
        model.head.weight.copy_(torch.stack([aim, -aim]))
        model.head.bias.copy_(aim.norm() / 4 * torch.tensor([-1.0, 1.0]))
    words = tokenizer(64)
    certifier = LevenshteinCertifier(model, words, Characters(k=1))
    texts = ["", "b", "aab", "a" * 10, "a" * 15, "a" * 25 + "bc", "a" * 40]
    held = 0
    for found in certifier(texts, [0, 1, 2]):
        assert found.kind == "lower bound"
        if found.holds[1]:
            held += 1
            answers = certifier(list(near(found.text)), [0])
            assert {one.prediction for one in answers} == {found.prediction}
        assert list(found.holds) == sorted(found.holds, reverse=True)
    assert held > 0


def test_length_is_part_of_the_statement() -> None:
    model = network(kernel=1, classes=2)
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([100.0, 0.0]))
    certifier = LevenshteinCertifier(model, tokenizer(6), Characters(k=1))
    assert [found.certified for found in certifier(["ab", "abc", "abcc"], [0, 1, 2])] == [2, 1, 0]
    (cut,) = certifier(["abcab"], [0, 1])
    assert cut.cut
    assert cut.holds == (False, False)
    (strange,) = certifier(["a?"], [0])
    assert strange.unknown == 1
    with pytest.raises(ValueError, match="expected characters"):
        LevenshteinCertifier(model, tokenizer(), WordEditDistance(k=1))
