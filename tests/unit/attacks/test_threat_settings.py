"""The number of changes of a threat."""

from pathlib import Path
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from attacks.resources.catalogue import Resources
from attacks.threat_settings import ThreatSettings
from text import WordSettings


@pytest.mark.parametrize(("given", "k"), [("all", None), ("null", None), ("3", 3)])
def test_any_number_of_synonyms(tmp_path: Path, given: str, k: int | None) -> None:
    lists = tmp_path / "lists.json"
    lists.write_text('{"good": ["fine"]}')
    parser = ArgumentParser()
    parser.add_class_arguments(ThreatSettings, "threat")
    line = ["--threat.kind=synonyms", f"--threat.lists={lists}", f"--threat.k={given}"]
    settings = ThreatSettings(**vars(parser.parse_args(line).threat))
    threat = settings.threat(WordSettings(), Resources())
    assert threat is not None
    assert threat.k == k


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "characters", "k": "all"}, "kind=characters and k=all, expected a number"),
        ({"kind": "words"}, "kind=words without k, expected a number"),
        ({"k": "all"}, "k=all without threat.kind"),
        ({"kind": "words", "k": -1}, "k=-1, expected a whole number of at least 0, or all"),
    ],
)
def test_numbers_without_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ThreatSettings(**settings)
