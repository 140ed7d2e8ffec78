"""What attacks are after."""

import numpy as np
import pytest

from attacks.goals import Targeted, Untargeted, probabilities, tie, top_margins

LOGITS = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 1.5], [1.0, 1.0, -1.0]])
LABELS = np.array([0, 0, 1])


def test_margins() -> None:
    goal = Untargeted()
    np.testing.assert_allclose(goal.judge(LOGITS, LABELS), [-2.0, 2.0, 0.0])
    # Of equal logits the first class is predicted, which is not the gold one here.
    assert goal.reached(LOGITS, LABELS).tolist() == [False, True, True]


def test_probabilities() -> None:
    found = Untargeted(score="probability").judge(LOGITS, LABELS)
    exponentials = np.exp(LOGITS)
    expected = 1 - exponentials[[0, 1, 2], LABELS] / exponentials.sum(axis=1)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(probabilities(LOGITS + 1000), probabilities(LOGITS))


@pytest.mark.parametrize("lead", [1e-300, 1e-8, 1.0])
def test_success_is_the_argmax_however_small_the_lead(lead: float) -> None:
    logits, labels = np.array([[0.0, lead], [0.0, -lead]]), np.array([0, 0])
    assert Untargeted().reached(logits, labels).tolist() == [True, False]
    assert Targeted(target=1).reached(logits, labels).tolist() == [True, False]
    # Of equal ones the first is predicted.
    assert not Untargeted().reached(np.zeros((1, 2)), labels[:1]).any()


def test_ties_are_relative_to_the_lead() -> None:
    assert top_margins(LOGITS).tolist() == [2.0, 0.5, 0.0]
    assert top_margins(LOGITS - 7).tolist() == [2.0, 0.5, 0.0]
    for scale in (1e-8, 1.0, 1e8):
        assert 1e-6 < tie("margin", scale) / scale < 1e-4
    # Probabilities end at 1.
    assert tie("probability", 1e8) == tie("probability", 1.0) < 1e-5
    assert tie("probability", 1e-8) == pytest.approx(1e-8 * tie("probability", 1.0))


def test_probabilities_saturate_and_margins_do_not() -> None:
    logits = np.array([[40.0, 0.0], [60.0, 0.0]])
    labels = np.array([0, 0])
    assert Untargeted(score="probability").judge(logits, labels).tolist() == [0.0, 0.0]
    assert Untargeted().judge(logits, labels).tolist() == [-40.0, -60.0]


def test_targets() -> None:
    goal = Targeted(target=2)
    np.testing.assert_allclose(goal.judge(LOGITS, LABELS), [-3.0, -0.5, -2.0])
    assert not goal.reached(LOGITS, LABELS).any()
    assert Targeted(target=1).reached(LOGITS, LABELS).tolist() == [False, True, False]
    assert Targeted(target=0).reached(LOGITS, LABELS).tolist() == [True, False, True]
    chosen = Targeted(target=1, score="probability").judge(LOGITS, LABELS)
    np.testing.assert_allclose(chosen, probabilities(LOGITS)[:, 1])


@pytest.mark.parametrize("target", [-1, 3])
def test_a_target_that_is_no_class(target: int) -> None:
    with pytest.raises(ValueError, match=rf"target class {target}, expected 0 \.\.\. 2"):
        Targeted(target=target).judge(LOGITS, LABELS)
