"""The figures of predictions."""

from measure.split_predictions import SplitPredictions


def test_the_share_of_the_largest_class() -> None:
    predictions = object.__new__(SplitPredictions)  # its figures need no model
    records = [{"sample_id": i, "class": name} for i, name in enumerate(("a", "b", "b", "b"))]
    assert predictions.figures(records) == {"largest_class": 0.75}
    # A tagging has a class for each word, a regression none.
    for other in ([{"sample_id": 0, "class": ["a", "b"]}], [{"sample_id": 0}], []):
        assert predictions.figures(other) == {}
