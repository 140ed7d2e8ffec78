"""The examples of docs/attacks.md work."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import attacks
from attacks.goals import Untargeted
from attacks.recipes import recipe_names
from attacks.search import Beam
from attacks.summary import summarise
from measure.attack_settings import AttackSettings
from measure.compose import compose
from tests.unit.attacks.outcomes import flipped, record
from tests.unit.measure.test_attack_settings import NoResources

PAGE = (Path(__file__).parents[4] / "docs/attacks.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_your_own_model_takes_less_than_ten_lines() -> None:
    assert len(PYTHON) == 4
    for block in PYTHON[:3]:
        compile(block, "docs/attacks.md", "exec")
        assert len([line for line in block.splitlines() if line.strip()]) < 10


def test_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"samples": [("a good film", 1), ("a dull film", 0)]}
    exec(PYTHON[2], names)  # its own page
    assert "deepwordbug" in capsys.readouterr().out


def test_your_own_attack(capsys: pytest.CaptureFixture[str]) -> None:
    def classify(texts: list[str]) -> list[list[float]]:
        return [[0.0, 1.0] if "good" in text else [1.0, 0.0] for text in texts]

    names: dict[str, Any] = {"samples": [("a good film", 1)], "model": classify}
    exec(PYTHON[3], names)  # its own page
    assert "homoglyphs" in capsys.readouterr().out


def test_the_composition() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    attack = compose(yaml.safe_load(block), NoResources(), compat="none", goal=Untargeted())
    assert attack.search == Beam(width=4, depth=3)


def test_every_setting_recipe_and_figure_is_on_the_page() -> None:
    missing = [name for name in vars(AttackSettings()) if f"`{name}`" not in PAGE]
    missing += [name for name in recipe_names() if f"| `{name}` |" not in PAGE]
    summary = summarise([record(), flipped(1, similarity=0.5)], score="margin")
    figures = set(summary.metrics()) - {"samples"}
    missing += [name for name in figures if f"`{name}`" not in PAGE]
    assert not missing


def test_what_is_named_is_there() -> None:
    assert all(name in attacks.__all__ for name in re.findall(r"`attacks\.([A-Z]\w+)", PAGE))
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (Path(__file__).parents[4] / "docs" / target).exists(), target
