"""The import path of processes of the program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from run_files.program_folder import PROGRAM, python_path


@pytest.mark.parametrize("old", ["", "there", str(PROGRAM), f"there{os.pathsep}{PROGRAM}"])
def test_the_program_comes_first_and_once(old: str, tmp_path: Path) -> None:
    path = python_path({"PYTHONPATH": old})
    shown = [sys.executable, "-P", "-c", "import run_files; print(*run_files.__path__)"]
    child = subprocess.run(
        shown, cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == str(PROGRAM / "run_files")
    assert path.split(os.pathsep)[0] == str(PROGRAM)
    assert ("there" in path.split(os.pathsep)) == ("there" in old)


def test_nothing_is_added_twice() -> None:
    path = python_path({"PYTHONPATH": str(PROGRAM)})
    assert path == str(PROGRAM)
    assert python_path({}) == str(PROGRAM)
