"""Fixtures of the command line, and payloads that leave a trace where they are executed."""

from collections.abc import Callable
from pathlib import Path

import pytest

# The command line on tiny data, as the integration tests drive it.
from tests.integration.conftest import _trained, here, steadfast, trained
from tests.security.payloads import Marker

__all__ = ["_trained", "here", "steadfast", "trained"]


@pytest.fixture
def marker(tmp_path_factory: pytest.TempPathFactory) -> Marker:
    """A file that is there as soon as a payload has been executed."""
    return Marker(tmp_path_factory.mktemp("marker") / "executed")


@pytest.fixture
def listing(here: Path) -> Callable[[], set[str]]:
    """Everything below the folder above the working directory, to see what was written where."""
    return lambda: {str(path.relative_to(here.parent)) for path in here.parent.rglob("*")}
