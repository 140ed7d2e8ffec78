"""Unitary weights of several processes."""

from pathlib import Path

import pytest
import torch

from tests.faults.program import ROOT
from tests.integration.several import run_two
from tests.integration.unitary_ranks import fits
from tests.unit.lit_modules.shared.unitary_models import residual

TINY = 1e-5


@pytest.mark.distributed
def test_two_processes_have_equal_weights(tmp_path: Path) -> None:
    """Bit for bit: each process projects its own copy, and no copies are compared later."""
    fits(tmp_path, 1)
    run_two(str(tmp_path), "2", where=ROOT, module="tests.integration.unitary_ranks")
    found = {path.stem: torch.load(path, weights_only=True) for path in tmp_path.glob("*.pt")}
    assert len(found) == 2 + 4

    def equal(one: str, other: str) -> bool:
        return all(torch.equal(found[one][name], found[other][name]) for name in found[one])

    assert equal("own-2-0", "own-2-1")
    assert equal("same-2-0", "same-2-1")
    assert equal("same-1-0", "same-2-0")
    assert not equal("own-1-0", "own-2-0")
    assert max(residual(weights) for weights in found.values()) < TINY
