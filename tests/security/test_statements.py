"""SECURITY.md says nothing that no test or file stands for."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
FILES = sorted(set(re.findall(r"`([\w.]+/[\w./]+\.\w+)`", PAGE)))


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_every_test_is_there(file: str, name: str) -> None:
    path = ROOT / file if file.startswith("tests/") else ROOT / "tests" / "security" / file
    assert name in functions(path)


@pytest.mark.parametrize("file", FILES)
def test_every_file_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


def test_every_part_has_something_to_show() -> None:
    """But for the reporting of weaknesses, and what the page is not about."""
    for part in PAGE.split("\n## ")[1:]:
        title = part.splitlines()[0]
        if title not in ("Reporting", "Out of scope"):
            assert re.search(r"`[\w/]+\.py(::\w+)?`", part), title
    assert len(TESTS) > 30


def test_the_figures() -> None:
    from requirements.audit import ACCEPTED, FLOORS
    from tests.security.checkpoints import CODE
    from text.bounded_files import EXPANSION, LINE_LIMIT, ROW

    assert f"{LINE_LIMIT // 2**20} MiB for a line" in PAGE
    assert f"grow {EXPANSION} times" in PAGE
    assert f"counted as {ROW} bytes more" in PAGE
    assert f"The {len(FLOORS)} packages of the table" in PAGE
    assert ("(none is accepted)" in PAGE) == (not ACCEPTED)
    assert ("Payloads in eleven places and forms" in PAGE) == (len(CODE) == 11)
