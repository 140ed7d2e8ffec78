"""The recipes that follow the thesis's section 4.5."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lit_modules.adversaries import TextAdversary
from lit_modules.shared.settings import rebuilt

ROOT = Path(__file__).parents[4]
RECIPES = sorted(
    path for path in (ROOT / "configs").rglob("*.yaml") if path.parent.name != "cluster"
)


def text_adversary(path: Path) -> dict[str, Any] | None:
    """The settings of a TextAdversary that attacks with TextFooler, if a recipe has one."""
    model = (yaml.safe_load(path.read_text()) or {}).get("model", {})
    adversary = (model.get("init_args") or {}).get("adversary") or {}
    settings: dict[str, Any] = adversary.get("init_args", {})
    found = (
        adversary.get("class_path") == "TextAdversary"
        and settings["attack"]["recipe"] == "textfooler"
    )
    return settings if found else None


FOUND = {path: settings for path in RECIPES if (settings := text_adversary(path)) is not None}


def test_there_are_three() -> None:
    assert [path.stem for path in FOUND] == ["textfooler", "reviews_continued", "sst2_continued"]


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_textfooler_recipe_trains_on_attacked_texts_alone(path: Path) -> None:
    """Each batch is perturbed and fed to the model; at most 100 queries for a text."""
    settings = FOUND[path]
    adversary = TextAdversary(**rebuilt(TextAdversary, settings))  # as the command line makes it
    assert (adversary.clean_weight, adversary.share) == (0, 1)
    assert adversary.attack.query_budget == 100
    assert "thesis, section 4.5" in path.read_text()
