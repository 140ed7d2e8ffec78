"""Builds the wheel: one package, `steadfast`, with the packages and the settings files inside.

pyproject.toml has all declarations; this file has the rest, which setuptools cannot read there
(docs/decisions/0009-one-package.md).
"""

import subprocess
from pathlib import Path

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


class WithRevision(build_py):
    """Also writes the git revision that the wheel is built from, which `--version` prints."""

    def run(self) -> None:
        """Copy the files."""
        super().run()
        if self.editable_mode or not Path(".git").exists():
            return
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode == 0:
            Path(self.build_lib, "steadfast", "REVISION").write_text(completed.stdout)


setup(
    cmdclass={"build_py": WithRevision},
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
