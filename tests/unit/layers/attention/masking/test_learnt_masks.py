"""What is masked: by an adversary that learns it, and by the rules to compare with."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from layers.attention.masking.learnt_masks import AdversarialMasks, AttentionAdversary
from layers.attention.masking.masks import Masks, straight
from layers.attention.masking.rules import RuleMasks
from layers.noise import logistic_pairs, sample_seeds

WIDTH, LAYERS = 8, 3


def nothing() -> Tensor:
    raise AssertionError  # nobody needs them


def adversary(seed: int = 0, **settings: Any) -> AttentionAdversary:
    torch.manual_seed(seed)
    return AttentionAdversary(WIDTH, LAYERS, **{"std": 0.5, "initial_keep": 0.6, **settings})


def real(*lengths: int, padded_to: int | None = None) -> Tensor:
    return torch.arange(padded_to or max(lengths)) < torch.tensor(lengths).view(-1, 1)


def hidden(batch: int, length: int, seed: int = 1) -> Tensor:
    return torch.randn(batch, length, WIDTH, generator=torch.Generator().manual_seed(seed))


def seeds(batch: int, seed: int = 5) -> Tensor:
    return sample_seeds(torch.arange(batch), seed=seed, epoch=0)


def logit(x: float) -> float:
    return math.log(x / (1 - x))


# Which units may be masked


@pytest.mark.long
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(0, 3),
    st.sampled_from([1.0, 1e4, 1e30, math.inf]),
    st.sampled_from([-1.0, 0.0, 1.0]),
    st.integers(0, 2**32 - 1),
)
def test_no_row_is_masked_whole(
    lengths: list[int], extra: int, scale: float, shift: float, seed: int
) -> None:
    length = max(lengths) + extra
    mask = real(*lengths, padded_to=length)
    generator = torch.Generator().manual_seed(seed)
    odds = torch.randn(len(lengths), 2, length, length, generator=generator) + 2 * shift
    odds = odds * scale
    keep = straight(odds, mask[:, None, None, :])
    assert (keep & mask[:, None, None, :]).any(dim=-1).all()
    # Where all that is real is minus infinity, padding is as good: nothing is masked.
    beyond = odds.masked_fill(~mask[:, None, None, :], -math.inf).amax(dim=-1) == -math.inf
    assert not (keep & ~mask[:, None, None, :])[~beyond].any()
    assert keep[beyond].all()
    # The greatest of each row, and what is positive; nothing else.
    for b, n in enumerate(lengths):
        row = odds[b, ..., :n]
        expected = (row > 0) | (row == row.amax(dim=-1, keepdim=True))
        assert torch.equal(keep[b, ..., :n], expected)


def test_no_row_of_minus_infinities_is_masked_whole() -> None:
    mask = real(2, 3, padded_to=4)
    keep = straight(torch.full((2, 1, 4, 4), -math.inf), mask[:, None, None, :])
    assert (keep & mask[:, None, None, :]).any(dim=-1).all()


@pytest.mark.parametrize("offset", [-1e4, 1e4])
def test_masks_of_an_adversary_that_is_sure(offset: float) -> None:
    model = adversary()
    torch.nn.init.constant_(model.offset, offset)
    mask = real(3, 5)
    masks = model.masks(mask, seeds(2))
    keep = masks(0, hidden(2, 5), nothing)
    pairs = mask[:, None, None, :].expand_as(keep)
    if offset > 0:
        assert (keep[pairs] == 1).all()
        assert torch.equal(masks.masked(), torch.zeros(1))
    else:
        assert (keep.sum(dim=-1) == 1).all()
        torch.testing.assert_close(masks.masked(), torch.tensor([1 - (1 / 3 + 1 / 5) / 2]))


# How often they are kept


def test_kept_with_the_probability_of_the_score() -> None:
    model = adversary()
    x = hidden(1, 4).expand(6000, 4, WIDTH)
    mask = real(4).expand(6000, 4)
    keep = model.masks(mask, seeds(6000))(1, x, nothing).mean(dim=0)[0]
    scores = model.scores(1, x[:1])[0, 0].double()
    # And the greatest of a row where nothing is positive: the one chance of the others.
    odds = scores + logistic_pairs(seeds(6000, seed=99), 4)[:, 0].double()
    alone = (odds == odds.amax(dim=-1, keepdim=True)) & (odds <= 0)
    expected = scores.sigmoid() + alone.double().mean(dim=0)
    assert (keep - expected).abs().max() < 5 * 0.5 * (2 / 6000) ** 0.5
    assert scores.sigmoid().min() < 0.4
    assert scores.sigmoid().max() > 0.8


def test_initial_share_is_kept() -> None:
    for share in (0.5, 0.9, 0.97):
        model = adversary(std=0.0, initial_keep=share)
        masks = model.masks(real(60, 60), seeds(2))
        masks(0, hidden(2, 60), nothing)
        assert float(1 - masks.masked()) == pytest.approx(share, abs=0.02)


def test_noise_is_logistic() -> None:
    drawn = logistic_pairs(seeds(8), 64, heads=4).double().flatten().sort().values
    assert drawn.numel() == 131_072
    uniform = drawn.sigmoid()
    steps = torch.arange(1, len(drawn) + 1, dtype=torch.float64) / len(drawn)
    assert (uniform - steps).abs().max() < 1.95 / len(drawn) ** 0.5  # Kolmogorov, 0.1%
    assert torch.isfinite(drawn).all()


def test_noise_of_layers_samples_heads_and_seeds_has_nothing_in_common() -> None:
    first = logistic_pairs(seeds(3), 32, heads=3)
    unrelated = [
        logistic_pairs(seeds(3), 32, heads=3, draw=1),
        logistic_pairs(seeds(3, seed=6), 32, heads=3),
        first.roll(1, dims=0),
        first.roll(1, dims=1),
        first.roll(1, dims=2),
        first.roll(1, dims=3),
        first.transpose(2, 3),
    ]
    for other in unrelated:
        both = torch.stack([first.flatten(), other.flatten()])
        if other is unrelated[-1]:
            both = both[:, ~torch.eye(32, dtype=torch.bool).expand(3, 3, 32, 32).flatten()]
        assert torch.corrcoef(both)[0, 1].abs() < 5 / both.shape[1] ** 0.5
    assert torch.equal(logistic_pairs(seeds(3), 32, heads=1), first[:, :1])
    assert torch.equal(logistic_pairs(seeds(3), 20, heads=3), first[..., :20, :20])


@pytest.mark.parametrize("heads", [1, 2])
def test_draws_differ_where_they_should(heads: int) -> None:
    model = adversary(heads=heads, std=0.0, initial_keep=0.5)
    x = hidden(1, 12).expand(2, 12, WIDTH)
    first, two = model.masks(real(12, 12), seeds(2)), model.masks(real(12, 12), seeds(2, seed=8))
    keep = [first(layer, x, nothing) for layer in range(LAYERS)]
    assert keep[0].shape == (2, heads, 12, 12)
    again = model.masks(real(12, 12), seeds(2))
    assert torch.equal(again(0, x, nothing), keep[0])
    different = [
        (keep[0], keep[1]),
        (keep[1], keep[2]),
        (keep[0][0], keep[0][1]),
        (keep[0], two(0, x, nothing)),
        *([(keep[0][:, 0], keep[0][:, 1])] if heads == 2 else []),
    ]
    for a, b in different:
        assert 0.35 < (a != b).float().mean() < 0.65


@pytest.mark.parametrize("how", ["no noise", "no draw"])
def test_without_noise_it_is_the_sign(how: str) -> None:
    model = adversary(noise=how != "no noise")
    x = hidden(2, 6)
    keep = model.masks(real(4, 6), seeds(2), draw=how != "no draw")(2, x, nothing)
    for b, n in ((0, 4), (1, 6)):
        scores = model.scores(2, x[b : b + 1, :n])
        expected = (scores > 0) | (scores == scores.amax(dim=-1, keepdim=True))
        assert torch.equal(keep[b, :, :n, :n], expected[0].float())
        assert 0 < expected.float().mean() < 1


def test_scores_are_the_scaled_products_of_each_head() -> None:
    model = adversary(heads=2)
    x = hidden(1, 4)
    query, key = x @ model.query[1].weight.T, x @ model.key[1].weight.T  # type: ignore[operator] # tensors
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        expected = query[..., part] @ key[..., part].mT / 2 + logit(0.6)
        torch.testing.assert_close(model.scores(1, x)[:, head], expected)


# Gradients


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("coefficient", [1.0, 0.25])
def test_gradient_is_minus_that_of_the_sigmoid(
    heads: int, temperature: float, coefficient: float
) -> None:
    model = adversary(heads=heads, temperature=temperature)
    x, mask = hidden(2, 5), real(3, 5)
    weight = torch.randn(2, heads, 5, 5, generator=torch.Generator().manual_seed(3))
    masks = model.masks(mask, seeds(2), coefficient=coefficient)
    keep = masks(1, x, nothing)
    assert keep.dtype == torch.float32
    assert ((keep == 0) | (keep == 1)).all()
    torch.autograd.backward((keep * weight).sum())
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert sorted(gradients) == ["key.1.weight", "offset", "query.1.weight"]
    model.zero_grad()
    noise = logistic_pairs(seeds(2), 5, heads=heads, draw=1)
    soft = ((model.scores(1, x) + noise) / temperature).sigmoid()
    torch.autograd.backward((soft * weight).sum())
    for name, parameter in model.named_parameters():
        if name in gradients:
            assert parameter.grad is not None
            assert torch.equal(gradients[name], -coefficient * parameter.grad)
            assert (parameter.grad != 0).any()


def test_gradients_never_reach_the_hidden_states() -> None:
    x = hidden(2, 5).requires_grad_()
    masks = adversary().masks(real(3, 5), seeds(2))
    masks(0, x, nothing)
    (gradient,) = torch.autograd.grad(masks.kept[0].sum(), [x], allow_unused=True)
    assert gradient is None


def test_share_that_is_kept_has_the_gradient_of_its_units() -> None:
    model = adversary(heads=2)
    mask = real(2, 4)
    masks = model.masks(mask, seeds(2))
    keep = masks(0, hidden(2, 4), nothing)
    (found,) = torch.autograd.grad(masks.kept[0].sum(), keep)
    valid = (mask[:, :, None] & mask[:, None, :]).unsqueeze(1)
    expected = valid / torch.tensor([2 * 4.0, 2 * 16.0]).view(2, 1, 1, 1)
    torch.testing.assert_close(found, expected.expand_as(found))
    for b, n in ((0, 2), (1, 4)):
        assert masks.kept[0][b].item() == pytest.approx(keep[b, :, :n, :n].mean().item())


# Padding


class Fixed(Masks):
    """Masks that are given."""

    def __init__(self, mask: Tensor, keep: Tensor) -> None:
        super().__init__(mask)
        self.fixed = keep

    def choose(self, layer: int, hidden: Tensor, probabilities: Any) -> Tensor:
        del layer, hidden, probabilities
        return self.fixed


def test_padding_is_never_counted() -> None:
    mask = real(2, 4)
    valid = (mask[:, :, None] & mask[:, None, :]).unsqueeze(1)
    for keep, share in ((valid.float(), 0.0), ((~valid).float(), 1.0)):
        masks = Fixed(mask, keep)
        masks(0, hidden(2, 4), nothing)
        assert torch.equal(masks.masked(), torch.tensor([share]))


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_padding_changes_nothing(heads: int, layer: int) -> None:
    model = adversary(heads=heads)
    lengths = [2, 5, 7]
    x, mask = hidden(3, 9), real(*lengths, padded_to=9)
    masks = model.masks(mask, seeds(3))
    keep = masks(layer, x * torch.where(mask, 1.0, 1e3).unsqueeze(-1), nothing)
    for b, n in enumerate(lengths):
        own = model.masks(mask[b : b + 1, :n], seeds(3)[b : b + 1])
        alone = own(layer, x[b : b + 1, :n], nothing)
        assert torch.equal(alone[0], keep[b, :, :n, :n])
        assert torch.equal(own.kept[0][0], masks.kept[0][b])
        names = [model.query[layer].weight, model.key[layer].weight, model.offset]
        weight = torch.zeros_like(keep)
        weight[b, :, :n, :n] = torch.linspace(-1, 2, n)
        gradients = torch.autograd.grad((keep * weight).sum(), names, retain_graph=True)  # type: ignore[arg-type] # parameters
        expected = torch.autograd.grad((alone * torch.linspace(-1, 2, n)).sum(), names)  # type: ignore[arg-type] # parameters
        torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", ["bernoulli", "magnitude"])
def test_padding_changes_nothing_for_the_rules(rule: Any) -> None:
    lengths = [2, 5, 7]
    mask = real(*lengths, padded_to=9)
    weights = torch.rand(3, 2, 9, 9, generator=torch.Generator().manual_seed(2))
    masks = RuleMasks(rule, 0.3, real=mask, seeds=seeds(3))
    keep = masks(1, hidden(3, 9), lambda: weights)
    assert keep.dtype == torch.float32
    for b, n in enumerate(lengths):
        own = RuleMasks(rule, 0.3, real=mask[b : b + 1, :n], seeds=seeds(3)[b : b + 1])
        alone = own(1, hidden(1, n), lambda b=b, n=n: weights[b : b + 1, :, :n, :n])  # type: ignore[misc] # bound
        assert torch.equal(alone[0], keep[b, :, :n, :n])
        assert torch.equal(own.kept[0][0], masks.kept[0][b])


# Rules


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_bernoulli_masks_its_share(share: float) -> None:
    mask = real(64).expand(8, 64)
    masks = RuleMasks("bernoulli", share, real=mask, seeds=seeds(8))
    keep = masks(0, hidden(8, 64), nothing)
    # 32,768 draws, in rows of 64; the one that is kept anyway weighs next to nothing there.
    assert float(masks.masked()) == pytest.approx(share, abs=0.015)
    assert keep.shape == (8, 1, 64, 64)
    other = masks(1, hidden(8, 64), nothing)
    if share:
        assert not torch.equal(keep, other)
        assert not torch.equal(keep[0], keep[1])
    by_column = 1 - keep.mean(dim=(0, 1, 2))
    assert (by_column - share).abs().max() < 5 * (0.25 / 512) ** 0.5


@pytest.mark.parametrize("share", [0.0, 0.2, 0.45])
def test_magnitude_masks_exactly_the_largest(share: float) -> None:
    lengths = [3, 6]
    weights = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(4)).softmax(dim=-1)
    masks = RuleMasks("magnitude", share, real=real(*lengths), seeds=seeds(2))
    keep = masks(0, hidden(2, 6), lambda: weights)[:, 0]
    for b, n in enumerate(lengths):
        mean = weights[b, :, :n, :n].mean(dim=0)
        ranked = sorted((float(mean[i, j]), i, j) for i in range(n) for j in range(n))[::-1]
        expected = torch.ones(n, n)
        for _, i, j in ranked[: round(share * n * n)]:
            expected[i, j] = 0
        for i in range(n):
            if not expected[i].any():
                expected[i, int(mean[i].argmin())] = 1
        assert torch.equal(keep[b, :n, :n], expected)


def test_magnitude_keeps_a_weight_of_1_that_is_not_among_the_largest() -> None:
    weights = torch.eye(3).view(1, 1, 3, 3)
    for share, count in ((0.0, 0), (1 / 9, 1), (3 / 9, 3)):
        masks = RuleMasks("magnitude", share, real=real(3), seeds=seeds(1))
        keep = masks(0, hidden(1, 3), lambda: weights)
        assert int((keep == 0).sum()) == count
        assert (keep[weights == 0] == 1).all()


def test_magnitude_never_masks_a_row_whole() -> None:
    weights = torch.full((1, 1, 3, 3), 0.0)
    weights[0, 0, 1] = torch.tensor([0.5, 0.2, 0.3])
    keep = RuleMasks("magnitude", 0.9, real=real(3), seeds=seeds(1))(
        0, hidden(1, 3), lambda: weights
    )
    assert torch.equal(keep[0, 0, 1], torch.tensor([0.0, 1.0, 0.0]))
    assert (keep.sum(dim=-1) >= 1).all()


def test_shares_by_layer() -> None:
    mask = real(40).expand(4, 40)
    masks = RuleMasks("bernoulli", [0.0, 0.5, 0.2], real=mask, seeds=seeds(4))
    for layer in range(3):
        masks(layer, hidden(4, 40), nothing)
    torch.testing.assert_close(masks.masked(), torch.tensor([0.0, 0.5, 0.2]), atol=0.03, rtol=0)
    assert masks.masked()[0] == 0


@pytest.mark.parametrize("share", [1.0, -0.1, [0.2, 1.5], math.nan])
def test_wrong_shares(share: Any) -> None:
    with pytest.raises(ValueError, match="expected numbers from 0 to below 1"):
        RuleMasks("bernoulli", share, real=real(2), seeds=seeds(1))


@pytest.mark.parametrize(
    "settings",
    [
        {"heads": 3},
        {"heads": 0},
        {"temperature": 0.0},
        {"temperature": math.nan},
        {"initial_keep": 1.0},
        {"initial_keep": 0.0},
    ],
)
def test_wrong_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected heads that share the width"):
        adversary(**settings)


def test_half_precision_counts_whole_units() -> None:
    model = adversary()
    x, mask = hidden(1, 40), real(40)
    expected = model.masks(mask, seeds(1), draw=False)
    expected(0, x, nothing)
    with torch.autocast("cpu", torch.bfloat16):
        masks = model.masks(mask, seeds(1), draw=False)
        keep = masks(0, x, nothing)
    assert keep.dtype == torch.float32
    assert masks.kept[0].item() * 1600 == pytest.approx(keep.sum().item(), abs=1e-3)
    assert float(masks.masked()) == pytest.approx(float(expected.masked()), abs=0.01)
    assert isinstance(masks, AdversarialMasks)
