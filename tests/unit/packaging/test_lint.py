"""Every file of the packages is linted."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = (
    *("app", "attacks", "benchmarks", "certify", "datamodules", "examples", "layers"),
    *("lit_modules", "measure", "run_files", "tests", "text", "training"),
)


def test_no_file_is_left_out() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "."]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    linted = {Path(line).relative_to(ROOT) for line in shown.splitlines()}
    there = {
        path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    }
    assert len(there) > 500
    assert not there - linted
