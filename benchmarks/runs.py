"""Runs of the program that a measuring command makes, and what they have come to."""

import json
import subprocess
import sys
from pathlib import Path


def call(command: str, options: list[str]) -> None:
    """One command of the program."""
    words = [sys.executable, "-m", "app", command, *options]
    print("$", " ".join(words), file=sys.stderr, flush=True)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def results(path: Path) -> dict[str, dict[str, float]]:
    """A run's `results.json`, empty if there is none."""
    file = path / "results.json"
    return json.loads(file.read_text()) if file.is_file() else {"metrics": {}, "seconds": {}}
