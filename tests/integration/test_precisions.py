"""Every method in half precision: autocast to bfloat16 and to float16 on a processor."""

import math
from pathlib import Path

import pytest
import torch
from pytorch_lightning.plugins import MixedPrecision

from tests.faults.settings import REVIEWS
from tests.integration.conftest import QUIET, Steadfast, results
from tests.integration.test_asa_pretraining import ENCODER, TEXT
from tests.integration.test_char_lm import DATA, MODEL
from tests.integration.test_other_device import CELLS, FEW
from tests.unit.datamodules import characters, running_text

QUICK = ("OLSA", torch.float16)
MIXED = "--trainer.precision=bf16-mixed"
DTYPES = (torch.bfloat16, torch.float16)


def set_type(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> set[torch.dtype]:
    """Let `bf16-mixed` mean another type: Lightning replaces float16 on a CPU by bfloat16.

    Returns:
        Types of the products of matrices from then on.
    """
    seen = set()
    linear = torch.nn.functional.linear

    def watched(*operands: torch.Tensor) -> torch.Tensor:
        product = linear(*operands)
        seen.add(product.dtype)
        return product

    monkeypatch.setattr(torch.nn.functional, "linear", watched)
    monkeypatch.setattr(
        MixedPrecision, "autocast_context_manager", lambda self: torch.autocast("cpu", dtype=dtype)
    )
    return seen


def assert_finite(folder: Path) -> None:
    weights = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    numbers = [value for value in weights.values() if value.is_floating_point()]
    assert numbers
    assert all(value.dtype in (torch.float32, torch.float64) for value in numbers)
    assert all(value.isfinite().all() for value in numbers)


@pytest.mark.parametrize(
    ("cell", "dtype"),
    [
        pytest.param(
            cell,
            dtype,
            marks=() if (cell, dtype) == QUICK else pytest.mark.slow,
            id=f"{cell}-{dtype}",
        )
        for cell in CELLS
        for dtype in DTYPES
    ],
)
def test_every_method(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch, cell: str, dtype: torch.dtype
) -> None:
    fit = [*CELLS[cell], *REVIEWS, "--data.batch_size=8", *QUIET, *FEW, "--trainer.max_epochs=1"]
    assert steadfast("fit", fit, "--run=single", "--trainer.precision=32-true").status == 0
    seen = set_type(monkeypatch, dtype)
    assert steadfast("fit", fit, "--run=half", MIXED).status == 0
    assert dtype in seen or not seen
    assert_finite(Path("runs/half"))
    for name in ("single", "half"):
        more = ["--trainer.precision=32-true"] if name == "single" else [MIXED]
        outcome = steadfast("test", f"--run={name}", *QUIET, *FEW, "--pgd.epsilon=0", *more)
        assert outcome.status == 0, outcome.err
    single, half = (results(name)["metrics"]["test/loss"] for name in ("single", "half"))
    assert math.isfinite(half)
    assert half == pytest.approx(single, rel=0.05, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "settings",
    [[*MODEL, *DATA], [*ENCODER, *TEXT], ["--model=MaskedLM", *ENCODER[1:], *TEXT]],
    ids=["CharacterLM", "ASAPretraining", "MaskedLM"],
)
def test_language_models(
    here: Path,
    steadfast: Steadfast,
    monkeypatch: pytest.MonkeyPatch,
    settings: list[str],
    dtype: torch.dtype,
) -> None:
    characters.write(here / "data" / "ptb_characters", plain=False)
    (here / "text").mkdir()
    running_text.write(here / "text", lines=60)
    seen = set_type(monkeypatch, dtype)
    fit = [*settings, *QUIET, *FEW, "--run=a", "--trainer.max_epochs=1", MIXED]
    outcome = steadfast("fit", fit)
    assert outcome.status == 0, outcome.err
    assert dtype in seen
    assert_finite(Path("runs/a"))
