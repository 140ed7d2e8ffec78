"""Figures of valid adversarial texts."""

from measure.validity_files import report_of
from tests.unit.attacks.outcomes import record


def test_numbers_have_no_right_and_wrong() -> None:
    """An attacked prediction of a number counts as right, as in the figures of the attack."""
    records = [
        record(sample_id=0, label=3.0, prediction=2.9, outcome="succeeded"),
        record(sample_id=1, label=3.0, prediction=2.9, outcome="failed"),
    ]
    report = report_of(records, [["similarity"]], checks=["similarity"], limits={})
    assert report["accuracy"]["value"] == 0.5
    assert report["valid_accuracy"]["value"] == 1.0
