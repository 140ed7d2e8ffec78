"""pyproject.toml, as the tests of this folder read it."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PACKAGES = (
    *("app", "measure", "training", "run_files", "lit_modules", "datamodules"),
    *("text", "layers", "attacks", "certify"),
)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def project() -> dict[str, Any]:
    return dict(pyproject()["project"])


def group(name: str) -> list[str]:
    return list(pyproject()["dependency-groups"][name])


def runtime() -> list[str]:
    """Requirements of the extra `all`: what a checkout runs with."""
    extras = project()["optional-dependencies"]
    parts = [project()["dependencies"], *(extras[name] for name in ("train", "serve", "study"))]
    return [line for part in parts for line in part if not line.startswith("steadfast-nlp")]
