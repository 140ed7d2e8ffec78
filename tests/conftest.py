"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real corpora (`DIR/<corpus>/<split>...`), for tests marked `data`."""
    beside = Path(__file__).parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("STEADFAST_DATA_DIR", beside))
    if not folder.is_dir():
        pytest.skip(f"no real corpora: {folder} is absent, set STEADFAST_DATA_DIR")
    return folder
