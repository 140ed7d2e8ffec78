import ast
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.packaging.metadata import PACKAGES, ROOT, group, project, runtime


def imports(path: Path) -> set[str]:
    """Top-level names that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@cache
def installed() -> Mapping[str, list[str]]:
    """The distributions of each importable name: they are all read for it."""
    return packages_distributions()


def optional() -> list[str]:
    """Requirements of all extras."""
    return [line for extra in project()["optional-dependencies"].values() for line in extra]


@pytest.mark.long
@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_is_a_declared_dependency(package: str) -> None:
    lines = project()["dependencies"] + optional()
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    distributions = installed()
    for path in (ROOT / package).rglob("*.py"):
        for name in imports(path) - set(PACKAGES) - sys.stdlib_module_names:
            providers = {
                canonicalize_name(provider) for provider in distributions.get(name, [name])
            }
            assert providers & declared, f"{path.relative_to(ROOT)} imports {name}"


def test_every_dependency_has_its_reason_above_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for requirement in [*project()["dependencies"], *optional(), *group("dev")]:
        positions = [n for n, line in enumerate(lines) if line.strip() == f'"{requirement}",']
        assert positions, requirement
        assert all(re.match(r"\s+# .", lines[n - 1]) for n in positions), requirement


def test_malicious_versions_are_named() -> None:
    [line] = [line for line in runtime() if line.startswith("pytorch-lightning")]
    assert not {"2.6.2", "2.6.3"} & set(Requirement(line).specifier.filter(["2.6.2", "2.6.3"]))
    assert "!=2.6.2" in line
    assert "!=2.6.3" in line
