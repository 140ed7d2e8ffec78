import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from layers import LipschitzClassifier
from measure.diagnosis_statistics import (
    DistanceSummary,
    LayerMoments,
    PairSimilarity,
    activation_similarity,
    boundary_distances,
    pool,
)
from tests.unit.lit_modules.builders import attached, olsa


def test_distances_by_hand() -> None:
    logits = torch.tensor([[3.0, 1.0, -4.0], [0.0, 5.0, 4.0], [2.0, 2.0, 0.0], [1.0, 0.0, 9.0]])
    labels = torch.tensor([0, 1, 0, 0])
    expected = torch.tensor([2.0, 1.0, 0.0, -8.0], dtype=torch.float64) / math.sqrt(2)
    assert torch.equal(boundary_distances(logits, labels), expected)


def test_what_just_has_a_margin_of_100() -> None:
    """The paper's Table 5 has a mean of 72.4 for a margin of 100."""
    distances = boundary_distances(torch.tensor([[100.0, 0.0]]), torch.tensor([0]))
    assert distances.item() == pytest.approx(70.7, abs=0.02)


@given(classes=st.integers(2, 5), seed=st.integers(0, 10_000))
def test_no_shorter_step_changes_the_prediction(classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, classes, generator=generator, dtype=torch.float64)
    label = logits.argmax(dim=1)
    (distance,) = boundary_distances(logits, label).tolist()
    steps = torch.randn(500, classes, generator=generator, dtype=torch.float64)
    steps *= distance / steps.norm(dim=1, keepdim=True)
    assert (((logits + 0.999 * steps).argmax(dim=1)) == label).all()
    # The step straight towards the nearest boundary: just beyond it, another class wins.
    second = int(logits.topk(2).indices[0, 1])
    straight = torch.zeros(1, classes, dtype=torch.float64)
    straight[0, label], straight[0, second] = -1 / math.sqrt(2), 1 / math.sqrt(2)
    assert (logits + 1.001 * distance * straight).argmax(dim=1) != label


@pytest.mark.parametrize(
    ("logits", "labels"),
    [(torch.zeros(2, 1), torch.zeros(2).long()), (torch.zeros(2, 3), torch.zeros(3).long())],
)
def test_logits_that_are_none(logits: Tensor, labels: Tensor) -> None:
    with pytest.raises(ValueError, match="expected \\[B, C\\] with at least two classes"):
        boundary_distances(logits, labels)


def test_summary_is_of_what_is_right() -> None:
    summary = DistanceSummary.of(torch.tensor([1.0, 3.0, -7.0, 0.0]))
    assert summary == DistanceSummary(count=2, mean=2.0, variance=1.0, normalized=2.0, ratio=2.0)


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_d_s_depends_on_the_scale_and_the_ratio_does_not(scale: float) -> None:
    distances = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    one, scaled = DistanceSummary.of(distances), DistanceSummary.of(scale * distances)
    assert one.normalized is not None
    assert one.ratio is not None
    assert scaled.normalized == pytest.approx(one.normalized / scale)
    assert scaled.ratio == pytest.approx(one.ratio)


def test_distances_without_spread() -> None:
    summary = DistanceSummary.of(torch.full((7,), 0.1, dtype=torch.float64))
    assert summary.mean == pytest.approx(0.1)
    assert summary.normalized is None
    assert summary.ratio is None


def test_no_distance_at_all() -> None:
    with pytest.raises(ValueError, match=r"got 2 distance\(s\) of which none is above 0"):
        DistanceSummary.of(torch.tensor([-1.0, 0.0]))


MASK = torch.tensor([[True, True, False], [True, True, True]])


def test_similarity_by_hand() -> None:
    clean = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]], [[1.0, 1.0]] * 3])
    attacked = torch.tensor([[[0.0, 1.0], [0.0, 5.0]], [[-1.0, -1.0], [9.0, 0.0]]])
    mask = torch.tensor([[True, True], [True, False]])
    first = activation_similarity([clean], [attacked], clean_mask=MASK, attacked_mask=mask)
    assert torch.allclose(first, torch.tensor([[0.0, -1.0]], dtype=torch.float64))
    mean = activation_similarity(
        [clean], [attacked], clean_mask=MASK, attacked_mask=mask, pooling="mean"
    )
    # (0.5, 1) and (0, 3); (1, 1) and (-1, -1).
    expected = torch.tensor([[1 / math.sqrt(1.25), -1.0]], dtype=torch.float64)
    assert torch.allclose(mean, expected)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_padding_changes_nothing(pooling: str) -> None:
    states = torch.randn(2, 3, 4)
    wider = torch.cat([states, torch.full((2, 2, 4), math.inf)], dim=1)
    longer = torch.cat([MASK, torch.zeros(2, 2, dtype=torch.bool)], dim=1)
    one = pool(states, MASK, pooling=pooling)  # type: ignore[arg-type] # from the table
    assert torch.equal(one, pool(wider, longer, pooling=pooling))  # type: ignore[arg-type] # a parameter


def test_the_same_text_is_alike() -> None:
    layers = [torch.randn(2, 3, width) for width in (4, 6)]
    found = activation_similarity(layers, layers, clean_mask=MASK, attacked_mask=MASK)
    assert found.shape == (2, 2)
    assert torch.allclose(found, torch.ones(2, 2, dtype=torch.float64))
    assert (found <= 1).all()
    nothing = [torch.zeros(2, 3, 4)]
    found = activation_similarity(nothing, nothing, clean_mask=MASK, attacked_mask=MASK)
    assert torch.equal(found, torch.zeros(1, 2, dtype=torch.float64))


@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 1)])
def test_layers_that_do_not_agree(before: int, after: int) -> None:
    states = torch.randn(2, 3, 4)
    with pytest.raises(ValueError, match=f"got activations of {before} and {after} layer"):
        activation_similarity(
            [states] * before, [states] * after, clean_mask=MASK, attacked_mask=MASK
        )


def test_pooling_that_is_none() -> None:
    with pytest.raises(ValueError, match="got pooling='max', expected first or mean"):
        pool(torch.randn(2, 3, 4), MASK, pooling="max")  # type: ignore[arg-type] # meant


def test_similarity_of_different_texts() -> None:
    vectors = [torch.randn(7, width, dtype=torch.float64) for width in (3, 5)]
    vectors[1][2] = 0.0
    pairs = PairSimilarity()
    assert pairs.mean == []
    for rows in ([0], [1, 2, 3], [4, 5, 6]):
        pairs.update([one[rows] for one in vectors])
    assert pairs.count == 7
    for one, found in zip(vectors, pairs.mean, strict=True):
        cosines = [
            functional.cosine_similarity(one[i], one[j], dim=0).item()
            for i in range(7)
            for j in range(7)
            if i != j
        ]
        assert found == pytest.approx(sum(cosines) / len(cosines))


@pytest.mark.long
@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_moments_of_batches_are_those_of_the_whole(sizes: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # A spread that is small beside the mean, where a sum of squares would lose it.
    whole = 1 + 1e-7 * torch.randn(3, sum(sizes), generator=generator, dtype=torch.float64)
    moments = LayerMoments()
    for part in torch.split(whole, sizes, dim=1):
        moments.update(part)
    assert moments.count == sum(sizes)
    if moments.count == 0:
        assert moments.mean == moments.std == []
        return
    assert moments.mean == pytest.approx(whole.mean(dim=1).tolist(), rel=1e-14)
    expected = whole.std(dim=1, correction=0).tolist()
    assert moments.std == pytest.approx(expected, rel=1e-6, abs=1e-15)


def test_moments_of_another_number_of_layers() -> None:
    moments = LayerMoments()
    moments.update(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="got values \\[3, 3\\], expected \\[2, samples\\]"):
        moments.update(torch.zeros(3, 3))


def test_the_layers_of_olsa() -> None:
    model = attached(olsa(depth=2)).eval()
    batch = model.encode_texts(["a good film", "bad"])
    states = model.activations(batch)
    assert [tuple(one.shape) for one in states] == [(2, batch.input_ids.shape[1], 16)] * 2
    # What the head reads is the last of them.
    assert isinstance(model.network, LipschitzClassifier)
    pooled_sum = states[-1].sum(dim=1) / batch.mask.sum(dim=1, keepdim=True).sqrt()
    torch.testing.assert_close(model.network.head(pooled_sum), model(batch))


def test_a_method_without_layers() -> None:
    model = attached(olsa(depth=0)).eval()
    with pytest.raises(ValueError, match="got OLSA, which shows no activations of its layers"):
        model.activations(model.encode_texts(["a good film"]))
