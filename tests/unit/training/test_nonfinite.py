"""A loss that is not a number neither goes unnoticed nor into a checkpoint."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins import MixedPrecision
from torch import Tensor
from torch.utils.data import DataLoader

from run_files.run_directory import RunDirectory
from text import Batch
from training.checkpoint_callbacks import AtomicCheckpointIO, LastCheckpoint
from training.nonfinite import FiniteLoss, NonFiniteLossError, OnNonFinite


def batch(number: int, *, bad: bool) -> Batch:
    return Batch(
        input_ids=torch.ones(2, 3, dtype=torch.long),
        mask=torch.ones(2, 3, dtype=torch.bool),
        sample_ids=torch.tensor([2 * number, 2 * number + 1]),
        labels=torch.tensor([0, int(bad)]),
    )


class Module(pl.LightningModule):
    """Loses more than there are numbers on batches with a label 1."""

    def __init__(self, value: float, eps: float) -> None:
        super().__init__()
        self.value, self.eps = value, eps
        self.weight = torch.nn.Parameter(torch.ones(2))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.1, weight_decay=0.5, eps=self.eps)

    def training_step(self, batch: Batch) -> Tensor:
        assert batch.labels is not None
        return self.weight.sum() * (self.value if batch.labels.any() else 1.0)


def fit(
    folder: Path,
    bad: set[int],
    action: OnNonFinite,
    *,
    value: float = float("nan"),
    batches: int = 6,
    accumulate: int = 1,
    eps: float = 1e-8,
    **settings: Any,
) -> tuple[Module, FiniteLoss]:
    data: Any = [batch(i, bad=i in bad) for i in range(batches)]
    module, check = Module(value, eps), FiniteLoss(action)
    trainer = pl.Trainer(
        accelerator="cpu",
        logger=False,
        max_epochs=1,
        accumulate_grad_batches=accumulate,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[check, LastCheckpoint(RunDirectory(folder), every_n_minutes=0)],
        **{"plugins": [AtomicCheckpointIO()], **settings},
    )
    trainer.fit(module, DataLoader(data, batch_size=None))
    return module, check


def weights(path: Path) -> Tensor:
    found: Tensor = torch.load(path, weights_only=True)["state_dict"]["weight"]
    return found


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_stops_before_anything_is_saved(tmp_path: Path, value: float) -> None:
    message = (
        r"not finite at epoch 0, step 3, on samples 6, 7 \(step before: 4, 5\).*"
        r"last good checkpoint is .*last\.ckpt"
    )
    with pytest.raises(NonFiniteLossError, match=message):
        fit(tmp_path, {3}, "stop", value=value)
    last = tmp_path / "checkpoints" / "last.ckpt"
    assert weights(last).isfinite().all()
    assert torch.load(last, weights_only=True)["global_step"] == 3


def test_stops_at_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteLossError, match=r"samples 0, 1, expected.*No checkpoint"):
        fit(tmp_path, {0}, "stop")
    assert not list(tmp_path.iterdir())


def test_a_step_that_is_left_out_never_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_bad, check = fit(tmp_path / "a", {2}, "skip", batches=6)
    without, _ = fit(tmp_path / "b", set(), "skip", batches=5)
    assert check.skipped == 1
    assert torch.equal(with_bad.weight, without.weight)
    assert "step 2 left out: gradient not finite, on samples 4, 5" in caplog.text


def test_16_true_has_no_scaler_that_skips(tmp_path: Path) -> None:
    half: dict[str, Any] = {"precision": "16-true", "eps": 1e-4}
    with_bad, check = fit(tmp_path / "a", {2}, "skip", batches=6, **half)
    without, _ = fit(tmp_path / "b", set(), "skip", batches=5, **half)
    assert check.skipped == 1
    assert torch.equal(with_bad.weight, without.weight)


def test_an_eps_of_zero_in_16_bits_is_refused(tmp_path: Path) -> None:
    message = r"got weights of torch.float16 .* eps 1e-08, .* expected --trainer.precision 16-mixed"
    with pytest.raises(ValueError, match=message):
        fit(tmp_path, set(), "stop", precision="16-true")
    assert not list(tmp_path.iterdir())


def test_the_scaler_of_16_mixed_skips(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    # Lightning itself would take bfloat16 on a CPU.
    plugins = [MixedPrecision("16-mixed", "cpu", scaler=scaler), AtomicCheckpointIO()]
    module, check = fit(tmp_path, {2}, "skip", plugins=plugins)
    assert check.skipped == 0
    assert module.weight.isfinite().all()
    assert scaler.get_scale() == 512


def test_all_accumulated_batches_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, check = fit(tmp_path, {3}, "skip", accumulate=2)
    assert check.skipped == 1
    assert "on samples 4, 5, 6, 7" in caplog.text


def test_does_not_skip_for_ever(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteLossError, match="in 10 steps in a row"):
        fit(tmp_path, set(range(20)), "skip", batches=20)
