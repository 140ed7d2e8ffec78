"""Confusion, F1 and calibration, by hand and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score

from measure.labelled_predictions import (
    calibration_error,
    class_figures,
    confidence,
    confusion,
    macro_f1,
    reliability,
)


def test_confusion_and_f1_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    labels, predictions = (random.integers(0, 4, 50).tolist() for _ in range(2))
    counts = confusion(labels, predictions)
    assert counts == confusion_matrix(labels, predictions).tolist()
    figures = class_figures(counts)
    theirs = f1_score(labels, predictions, average=None)
    assert [one.f1 for one in figures] == pytest.approx(theirs.tolist())
    assert macro_f1(figures) == pytest.approx(f1_score(labels, predictions, average="macro"))


def test_a_class_without_texts_has_no_f1() -> None:
    figures = class_figures(confusion([0, 0], [0, 0], classes=2))
    assert figures[1] == (None, None, None, 0)
    assert macro_f1(figures) == 1.0
    assert macro_f1([]) is None


def test_confidence_is_the_largest_probability() -> None:
    assert confidence([0.0, math.log(3)]) == pytest.approx(0.75)
    assert confidence([1000.0, -1000.0]) == 1.0


def test_calibration_error_by_hand() -> None:
    # Two texts at 0.6 (one right), one at 0.95 (right), one at 1 (wrong).
    bins = reliability([0.6, 0.6, 0.95, 1.0], [True, False, True, False])
    full = [(round(one.low, 1), one.texts, one.accuracy) for one in bins if one.texts]
    assert full == [(0.5, 2, 0.5), (0.9, 2, 0.5)]
    error = (2 * abs(0.5 - 0.6) + 2 * abs(0.5 - 0.975)) / 4
    assert calibration_error(bins) == pytest.approx(error)
    assert calibration_error(reliability([], [])) is None


def test_confidences_stay_inside_the_bins() -> None:
    bins = reliability([0.0, 0.1, 1.0], [True] * 3)
    assert [one.texts for one in bins] == [2, *[0] * 8, 1]
