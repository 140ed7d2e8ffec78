"""The modules of the wheel, as setup.py writes them."""

import ast
import importlib.util
import re
import runpy
from collections.abc import Callable

import pytest
import setuptools

import run_files
from steadfast import package_names
from tests.unit.packaging.metadata import PACKAGES, ROOT
from text import module_names


@pytest.fixture
def inside_package(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    rewrite = runpy.run_path(str(ROOT / "setup.py"))["inside_package"]
    return lambda source: rewrite(source.encode(), "some.py").decode()


def test_the_names_of_the_packages_are_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    names = runpy.run_path(str(ROOT / "setup.py"))["MODULES"]
    for other in (names, package_names.PACKAGES, module_names.PACKAGES):
        assert set(other) == set(PACKAGES)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from text import Batch", "from steadfast.text import Batch"),
        (
            "from text.batch import (\n  Batch,\n)",
            "from steadfast.text.batch import (\n  Batch,\n)",
        ),
        ("import text", "import steadfast.text as text"),
        ("import os, text, app as a", "import os, steadfast.text as text, steadfast.app as a"),
        ("import text.batch as b", "import steadfast.text.batch as b"),
        ("'é'; from text import a; from app import b", "'é'; from steadfast.text import a; "),
        ("def f():\n    from  app.cli import main", "def f():\n    from  steadfast.app.cli import"),
        ("from texts import a\nimport apps", "from texts import a\nimport apps"),
        ("from .text import a", "from .text import a"),
        ("from steadfast.text import a", "from steadfast.text import a"),
        ("'from text import a'  # import text", "'from text import a'  # import text"),
        ("import_module(f'{__name__}.a')", "import_module(f'{__name__}.a')"),
    ],
)
def test_imports_are_rewritten(
    inside_package: Callable[[str], str], source: str, expected: str
) -> None:
    rewritten = inside_package(source)
    assert rewritten.startswith(expected)
    assert inside_package(rewritten) == rewritten


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("\nimport text.batch", "some.py, line 2: got `import text.batch`, expected `from ... "),
        ("from \\\n  text import a", "line 1: got an import in more than one line"),
        ("import_module('text.batch')", "got a module in a string, expected `real_name(...)`"),
        ("importlib.util.find_spec(f'app.{name}')", "got a module in a string"),
        ("__import__('app')", "got a module in a string"),
    ],
)
def test_what_cannot_be_rewritten_is_an_error(
    inside_package: Callable[[str], str], source: str, error: str
) -> None:
    with pytest.raises(SyntaxError, match=re.escape(error)):
        inside_package(source)


@pytest.mark.slow
def test_all_modules_keep_their_lines_and_everything_but_imports(
    inside_package: Callable[[str], str],
) -> None:
    class Blank(ast.NodeTransformer):
        def visit_Import(self, node: ast.Import) -> ast.AST:
            return ast.copy_location(ast.Pass(), node)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
            return ast.copy_location(ast.Pass(), node)

    files = [file for name in (*PACKAGES, "steadfast") for file in (ROOT / name).rglob("*.py")]
    assert len(files) > 500
    changed = 0
    for file in files:
        source = file.read_text(encoding="utf-8")
        rewritten = inside_package(source)
        changed += rewritten != source
        trees = [Blank().visit(ast.parse(text)) for text in (source, rewritten)]
        first, second = (
            [(type(node), getattr(node, "lineno", 0)) for node in ast.walk(tree)] for tree in trees
        )
        assert first == second, file
        roots = {
            (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
            for node in ast.walk(ast.parse(rewritten))
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
            for alias in node.names
        }
        assert not {root.partition(".")[0] for root in roots} & {*PACKAGES}, file
    assert changed > 400


def test_names_of_a_checkout() -> None:
    assert module_names.real_name("lit_modules.OLSA") == "lit_modules.OLSA"
    assert module_names.real_name("steadfast.lit_modules.OLSA") == "lit_modules.OLSA"
    assert module_names.real_name("steadfast.testing") == "steadfast.testing"
    assert module_names.stored_name("lit_modules.OLSA") == "lit_modules.OLSA"
    assert module_names.own_package("text.batch") == "text"
    assert module_names.own_package("texts") is None
    assert module_names.find_class("run_files.run_directory") is run_files.run_directory
    assert module_names.find_class("run_files.nothing") is None


def test_both_names_of_a_module_of_a_checkout_are_one_module() -> None:
    from_steadfast = importlib.import_module("steadfast.text.module_names")
    assert from_steadfast is module_names
    assert importlib.import_module("steadfast.run_files") is run_files
    assert importlib.util.find_spec("steadfast.text.nothing") is None
    assert module_names.__spec__ is not None
    assert module_names.__spec__.name == "text.module_names"
