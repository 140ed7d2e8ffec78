"""Unitary weights of several processes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.integration.several import ROOT
from tests.unit.lit_modules.shared.unitary_models import residual

TINY = 1e-5


@pytest.mark.distributed
def test_two_processes_have_equal_weights(tmp_path: Path) -> None:
    """Bit for bit: each process projects its own copy, and no copies are compared later."""
    for processes in ("1", "2"):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.integration.unitary_ranks"),
                *(str(tmp_path), processes),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    found = {path.stem: torch.load(path, weights_only=True) for path in tmp_path.glob("*.pt")}
    assert len(found) == 2 + 4

    def equal(one: str, other: str) -> bool:
        return all(torch.equal(found[one][name], found[other][name]) for name in found[one])

    assert equal("own-2-0", "own-2-1")
    assert equal("same-2-0", "same-2-1")
    assert equal("same-1-0", "same-2-0")
    assert not equal("own-1-0", "own-2-0")
    assert max(residual(weights) for weights in found.values()) < TINY
