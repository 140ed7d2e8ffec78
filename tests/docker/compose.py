"""The files of the container files, read as Compose reads them."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
BASE = ROOT / "docker-compose.yml"
OVERRIDE = ROOT / "docker-compose.override.yml"
JOBS = ("train", "test", "certify", "attack", "cli", "serve")


def load(path: Path) -> dict[str, Any]:
    """A Compose file; variables stay as they are written."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def services(path: Path) -> dict[str, dict[str, Any]]:
    """The services of a Compose file."""
    found: dict[str, dict[str, Any]] = load(path)["services"]
    return found


def variables(path: Path) -> set[str]:
    """Names of all variables that a Compose file takes from its surroundings."""
    found = set(re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)", path.read_text()))
    for service in services(path).values():
        environment = service.get("environment", {})
        found |= {name for name, value in environment.items() if value is None}
    return found
