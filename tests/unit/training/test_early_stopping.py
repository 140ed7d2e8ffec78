from typing import Any

import pytest

from lit_modules import METHODS
from training.early_stopping import EarlyStoppingSettings, EpochLimits, limits

FREE: dict[str, Any] = {"max_epochs": None, "max_steps": -1, "max_time": None}


def test_every_method_has_a_sensible_limit() -> None:
    for method in METHODS.values():
        assert 1 <= method.default_epochs <= 20


def test_nothing_is_said() -> None:
    assert limits(FREE, None, default_epochs=7) == EpochLimits(7, 5)
    assert limits(FREE, 0, default_epochs=7) == EpochLimits(7, 0)


@pytest.mark.parametrize(
    ("given", "epochs"),
    [
        ({"max_epochs": 5}, 5),
        ({"max_epochs": -1}, -1),
        ({"max_epochs": 0}, 0),
        ({"max_steps": 9}, None),
        ({"max_time": "00:01:00:00"}, None),
        ({"max_steps": 9, "max_epochs": 2}, 2),
    ],
)
def test_a_limit_is_kept_and_what_it_allows_is_trained(given: Any, epochs: int | None) -> None:
    assert limits(FREE | given, None, default_epochs=7) == EpochLimits(epochs, 0)
    assert limits(FREE | given, 4, default_epochs=7) == EpochLimits(epochs, 4)


def test_a_run_goes_on_as_it_was_begun() -> None:
    begun = {"trainer": FREE | {"max_epochs": 30}, "early_stopping": {"patience": 2}}
    assert limits(FREE, None, default_epochs=7, stored=begun) == EpochLimits(30, 2)
    assert limits(FREE, 0, default_epochs=7, stored=begun) == EpochLimits(30, 0)
    # Of before methods had limits.
    assert limits(FREE, None, default_epochs=7, stored={"trainer": FREE}) == EpochLimits(1000, 0)


def test_patience_is_no_negative_number() -> None:
    with pytest.raises(ValueError, match=r"^got --early_stopping\.patience -1, expected .*$"):
        EarlyStoppingSettings(patience=-1)
