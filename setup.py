"""Builds the wheel: one package, `steadfast`, with the packages and the settings files inside.

pyproject.toml has all declarations; this file has the rest, which setuptools cannot read there
(docs/decisions/0009-one-package.md).
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

MODULES = (
    *("app", "measure", "training", "run_files", "lit_modules", "datamodules"),
    *("text", "layers", "attacks", "certify"),
)
INSIDE = (*MODULES, "configs")
# Also folders without code: the live page, the settings files.
PACKAGES = find_namespace_packages(
    include=[*INSIDE, *(f"{name}.*" for name in INSIDE)], exclude=["*.__pycache__"]
)


IMPORTERS = ("import_module", "find_spec", "__import__")


class InOnePackage(build_py):
    """Writes modules that import `steadfast.text` for `text`, and the git revision.

    `--version` prints that revision. An editable installation has neither: it is the checkout.
    """

    def run(self) -> None:
        """Copy the files."""
        super().run()
        if self.editable_mode or not Path(".git").exists():
            return
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode == 0:
            Path(self.build_lib, "steadfast", "REVISION").write_text(completed.stdout)

    def build_module(self, module: Any, module_file: Any, package: Any) -> Any:
        """Copy a module, and rewrite the copy."""
        copied = super().build_module(module, module_file, package)
        if not self.editable_mode:
            copy = Path(copied[0])
            copy.write_bytes(inside_package(copy.read_bytes(), str(module_file)))
        return copied


def inside_package(source: bytes, file: str) -> bytes:
    """Return a module of the wheel, which imports our packages from `steadfast`; lines stay.

    Raises:
        SyntaxError: an import that cannot be rewritten, or a module named in a string.
    """
    lines = source.splitlines(keepends=True)
    # From the end, so that earlier positions stay.
    for line, column, old, new in sorted(_changes(ast.parse(source), file), reverse=True):
        text = lines[line - 1]
        start = re.compile(old.encode()).match(text, column)
        if start is None:
            raise _error(file, line, f"an import in more than one line, expected {old} in one")
        lines[line - 1] = text[: start.end()] + new.encode() + text[start.end() :]
    return b"".join(lines)


def _changes(tree: ast.Module, file: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield line, column, the expression that is there, and what to insert after it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module):
            yield node.lineno, node.col_offset, rf"from[ \t]+(?={node.module}\b)", "steadfast."
        elif isinstance(node, ast.Import):
            for alias in filter(lambda alias: _is_ours(alias.name), node.names):
                if alias.asname is None and "." in alias.name:
                    message = f"`import {alias.name}`, expected `from ... import` or `as NAME`"
                    raise _error(file, node.lineno, message)
                where = (alias.lineno, alias.col_offset)
                yield *where, "", "steadfast."
                if alias.asname is None:
                    yield *where, alias.name, f" as {alias.name}"
        elif isinstance(node, ast.Call) and _names_ours(node):
            message = "a module in a string, expected `real_name(...)` of text.module_names"
            raise _error(file, node.lineno, message)


def _is_ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] in MODULES


def _names_ours(call: ast.Call) -> bool:
    """Return True for `import_module("text.batch")` and its like."""
    function = getattr(call.func, "id", getattr(call.func, "attr", ""))
    first: Any = call.args[0] if call.args else None
    if isinstance(first, ast.JoinedStr):
        first = first.values[0]
    name = first.value if isinstance(first, ast.Constant) else ""
    return function in IMPORTERS and isinstance(name, str) and _is_ours(name)


def _error(file: str, line: int, message: str) -> SyntaxError:
    return SyntaxError(f"{file}, line {line}: got {message}")


setup(
    cmdclass={"build_py": InOnePackage},
    packages=["steadfast", *(f"steadfast.{name}" for name in PACKAGES)],
    package_dir={f"steadfast.{name}": name for name in INSIDE},
    package_data={
        "steadfast": ["py.typed"],
        "steadfast.configs": ["*.yaml"],
        **{
            f"steadfast.{name}": ["*.yaml", "*.json", "*.sbatch", "*.sh"]
            for name in PACKAGES
            if name.startswith("configs.")
        },
        # The model card of `export`; the page of `report`, and its style.
        "steadfast.app": ["*.j2"],
        "steadfast.app.report": ["*.css", "*.j2", "*.js"],
        # The live page.
        "steadfast.app.serve.page": ["*"],
        # Canonical forms of characters.
        "steadfast.text": ["*.json"],
    },
)
