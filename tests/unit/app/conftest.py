"""Tests of studies, pages and reports compare the same few runs again and again."""

import pickle
from typing import Any

import pytest

from measure import uncertainty

_REAL = uncertainty.compare
_FOUND: dict[bytes, uncertainty.Comparison] = {}


@pytest.fixture(autouse=True)
def _comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test each pair of rows once: twenty thousand resamples that are drawn from a fixed seed."""

    def compare(*sides: uncertainty.Side, **settings: Any) -> uncertainty.Comparison:
        key = pickle.dumps((sides, settings))
        if key not in _FOUND:
            _FOUND[key] = _REAL(*sides, **settings)
        return _FOUND[key]

    monkeypatch.setattr(uncertainty, "compare", compare)
