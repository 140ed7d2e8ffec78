"""What all tests of text adversaries need."""

from pathlib import Path

import pytest

from attacks.resources.catalogue import Resources
from tests.unit.lit_modules.adversaries.films import Alike, write_resources


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Resources of the attacks, with an encoder to which all texts are nearly the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Resources, "sentence_encoder", lambda self: Alike())
    return write_resources(tmp_path / "resources")
