"""Intervals of scores: against the bootstrap, closed forms, and their coverage."""

import math

import numpy as np
import pytest
import torch

from lit_modules.shared.split_counts import BINS, SplitCounts
from run_files.score_intervals import score_interval
from text.estimates import Z, auc_error, score, wilson

CLASSES = 3
TEXTS = 600


def sample(seed: int, shift: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """`[N, C]` logits of a model that is often right and too sure, and labels; few of class 2."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.tensor([0.6, 0.3, 0.1])
    labels = torch.multinomial(weights, TEXTS, replacement=True, generator=generator)
    gold = torch.nn.functional.one_hot(labels, CLASSES)
    return 3 * (torch.randn(TEXTS, CLASSES, generator=generator) + shift * gold), labels


def figures(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """The four scores, each written out anew."""
    probabilities, predictions = logits.softmax(dim=1), logits.argmax(dim=1)
    f1 = [
        2
        * int(((predictions == i) & (labels == i)).sum())
        / int((predictions == i).sum() + (labels == i).sum())
        for i in range(CLASSES)
    ]
    confidence, right = probabilities.amax(dim=1), predictions == labels
    error = 0.0
    for i in range(BINS):
        inside = (confidence > i / BINS) & (confidence <= (i + 1) / BINS)
        error += abs(float((confidence - right.float())[inside].sum())) / len(labels)
    gold = torch.nn.functional.one_hot(labels, CLASSES)
    brier = float((probabilities - gold).square().sum(dim=1).mean())
    return {"macro_f1": sum(f1) / CLASSES, "f1": f1[2], "ece": error, "brier": brier}


@pytest.mark.long
def test_standard_errors_are_those_of_the_bootstrap() -> None:
    logits, labels = sample(seed=0)
    counts = SplitCounts(CLASSES, positive=2)
    for start in range(0, TEXTS, 70):  # of any batches
        counts.update(logits[start : start + 70], labels[start : start + 70])
    measured = {name: float(value) for name, value in counts.compute().items()}
    whole = figures(logits, labels)
    assert {name: measured[name] for name in ("ece", "brier")} == pytest.approx(
        {name: whole[name] for name in ("ece", "brier")}, abs=1e-5
    )
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randint(TEXTS, (TEXTS,), generator=generator) for _ in range(800)]
    resamples = [figures(logits[indices], labels[indices]) for indices in drawn]
    for name in whole:
        spread = float(np.std([resample[name] for resample in resamples]))
        assert measured[f"{name}_se"] == pytest.approx(spread, rel=0.1), name


def test_classes_that_do_not_occur_do_not_count() -> None:
    labels = torch.tensor([0, 0, 1, 1, 1])
    logits = torch.nn.functional.one_hot(torch.tensor([0, 1, 1, 1, 0]), 2).float()
    small, large = SplitCounts(2), SplitCounts(5)
    small.update(logits, labels)
    large.update(torch.nn.functional.pad(logits, (0, 3), value=-9.0), labels)
    assert float(large.compute()["macro_f1_se"]) == pytest.approx(
        float(small.compute()["macro_f1_se"])
    )


def test_intervals_of_macro_f1_and_brier_cover_the_truth() -> None:
    population = [sample(seed) for seed in range(60)]
    every = torch.cat([logits for logits, _ in population])
    labels = torch.cat([labels for _, labels in population])
    truth = figures(every, labels)
    covered = dict.fromkeys(("macro_f1", "brier"), 0)
    for logits, own in population:
        counts = SplitCounts(CLASSES)
        counts.update(logits, own)
        metrics = {f"test/{name}": float(value) for name, value in counts.compute().items()}
        metrics["test/macro_f1"] = figures(logits, own)["macro_f1"]
        for name in covered:
            estimate = score_interval(metrics, name)
            assert estimate is not None
            covered[name] += estimate.low <= truth[name] <= estimate.high
    # 57 of 60 are expected; 51 or fewer come by chance once in 50 times.
    assert min(covered.values()) > 51


def test_a_score_is_a_share_where_it_has_the_error_of_a_share() -> None:
    for hits in (1, 30, 199):
        share = wilson(hits, 200)
        error = math.sqrt(share.value * (1 - share.value) / 200)
        for top in (1.0, 2.0):
            estimate = score(top * share.value, top * error, 200, top=top)
            assert (estimate.low, estimate.high) == pytest.approx(
                (top * share.low, top * share.high)
            )


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_score_without_errors_is_not_certain(value: float) -> None:
    estimate = score(value, 0.0, 20)
    # 20 of 20: Wilson's interval begins at n / (n + z²).
    assert estimate.high - estimate.low == pytest.approx(1 - 20 / (20 + Z * Z))
    assert estimate.low <= value <= estimate.high


def test_area_under_the_curve_has_the_error_of_repeated_samples() -> None:
    random = np.random.default_rng(0)
    # Exponential scores, for which the formula is exact; the area is 3 / 4.
    positive = random.exponential(3.0, (3000, 40, 1))
    areas = (positive > random.exponential(1.0, (3000, 1, 90))).mean(axis=(1, 2))
    assert np.mean(areas) == pytest.approx(0.75, abs=0.005)
    assert auc_error(0.75, 40, 90) == pytest.approx(float(np.std(areas)), rel=0.05)
    metrics = {"test/auc": 0.75, "test/positives": 40.0, "test/negatives": 90.0}
    estimate = score_interval(metrics, "auc")
    assert estimate is not None
    assert estimate.low < np.quantile(areas, 0.2) < np.quantile(areas, 0.8) < estimate.high


def test_average_precision_is_a_share_of_the_positive_texts() -> None:
    metrics = {"test/average_precision": 0.9, "test/positives": 50.0, "test/negatives": 9.0}
    estimate, share = score_interval(metrics, "average_precision"), wilson(45, 50)
    assert estimate is not None
    assert (estimate.low, estimate.high) == pytest.approx((share.low, share.high))


def test_an_older_test_has_no_interval() -> None:
    metrics = {"test/macro_f1": 0.9, "test/samples": 100.0, "test/loss": 1.0}
    assert score_interval(metrics, "macro_f1") is None
    assert score_interval({**metrics, "test/macro_f1_se": 0.02}, "macro_f1") is not None
    assert score_interval(metrics, "loss") is None
    assert score_interval(metrics, "auc") is None
