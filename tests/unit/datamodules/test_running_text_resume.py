"""A pre-training run that is resumed sees the blocks that the uninterrupted run saw."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor

from tests.unit.datamodules.running_text import corpus, write
from text import Batch

Seen = list[tuple[int, list[int]]]

# Runs are resumed into folders of their own, so that no test changes the files of another.
pytestmark = pytest.mark.filterwarnings("ignore:The dirpath has changed:UserWarning")
both = pytest.mark.parametrize("streaming", [False, True])
BATCHES = 15
"""Of an epoch of the limited corpus."""


class Recorder(pl.LightningModule):
    """Notes which blocks come when."""

    def __init__(self, estimates: bool) -> None:
        super().__init__()
        self.estimates = estimates
        self.layer = torch.nn.Linear(1, 2)
        self.seen: Seen = []
        self.validated: list[int] = []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        # As a warm-up schedule does: makes Lightning build the loader before it restores.
        assert not self.estimates or self.trainer.estimated_stepping_batches > 0
        return torch.optim.SGD(self.parameters(), lr=1e-4)

    def training_step(self, batch: Batch) -> Tensor:
        self.seen.append((self.current_epoch, batch.sample_ids.tolist()))
        loss: Tensor = self.layer(batch.lengths.unsqueeze(1).float()).mean()
        return loss

    def validation_step(self, batch: Batch) -> None:
        self.validated += batch.sample_ids.tolist()


def run(
    folder: Path, data: Path, checkpoint: str | None = None, epochs: int = 3, **settings: Any
) -> Recorder:
    module = Recorder(estimates=not settings.get("streaming"))  # a stream has no length
    overfit = settings.pop("overfit_batches", 0)
    steps = ModelCheckpoint(folder, save_top_k=-1, every_n_train_steps=1, filename="{step}")
    ends = ModelCheckpoint(folder, save_top_k=-1, every_n_epochs=1, filename="{epoch}")
    trainer = pl.Trainer(
        default_root_dir=folder,
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        callbacks=[steps, ends],
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        overfit_batches=overfit,
        limit_val_batches=None if overfit else 1,
    )
    corpus_of_run = corpus(data, limit_tokens=1700, **settings)
    trainer.fit(module, datamodule=corpus_of_run, ckpt_path=checkpoint)
    return module


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder)
    return folder


@pytest.fixture(scope="module", params=[False, True])
def uninterrupted(
    request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Seen, bool]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    module = run(folder, data, streaming=request.param, shuffle_buffer=30)
    assert len(module.seen) == 3 * BATCHES
    epochs = [sorted(i for e, ids in module.seen if e == epoch for i in ids) for epoch in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    assert not set(epochs[0]) & set(module.validated)
    return folder, module.seen, request.param


@pytest.mark.long
@pytest.mark.parametrize(
    ("checkpoint", "done"),
    [("step=4", 4), (f"step={BATCHES}", BATCHES), ("step=17", 17), ("epoch=1", 2 * BATCHES)],
)
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_resumed_is_uninterrupted(
    tmp_path: Path,
    data: Path,
    uninterrupted: tuple[Path, Seen, bool],
    checkpoint: str,
    done: int,
    num_workers: int,
) -> None:
    folder, batches, streaming = uninterrupted
    ours = {"streaming": streaming, "shuffle_buffer": 30, "num_workers": num_workers}
    module = run(tmp_path, data, str(folder / f"{checkpoint}.ckpt"), **ours)
    assert module.seen == batches[done:]


def test_other_batches_are_refused(
    tmp_path: Path, data: Path, uninterrupted: tuple[Path, Seen, bool]
) -> None:
    folder, _, streaming = uninterrupted
    checkpoint = str(folder / "step=4.ckpt")
    ours: dict[str, Any] = {"streaming": streaming, "shuffle_buffer": 30}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": 4}, "global_batch 8 -> 4"),
        ({"seed": 1}, "seed 0 -> 1"),
        ({"length": 12}, "length 16 -> 12"),
        ({"validation_share": 0.1}, "validation_share 0.05 -> 0.1"),
        ({"files": ["b.txt"]}, "texts" if streaming else "blocks"),
        ({"streaming": not streaming}, "blocks" if streaming else "texts"),
    ]
    if streaming:
        changes.append(({"shuffle_buffer": 40}, "shuffle_buffer 30 -> 40"))
    for change, message in changes:
        with pytest.raises(ValueError, match=rf"changed: .*{message}"):
            run(tmp_path, data, checkpoint, **{**ours, **change})


@both
def test_overfitting_repeats_the_same_batches(tmp_path: Path, data: Path, streaming: bool) -> None:
    module = run(tmp_path, data, overfit_batches=2, streaming=streaming)
    batches = [ids for _, ids in module.seen]
    assert len(batches) == 6
    assert batches[:2] == batches[2:4] == batches[4:]
