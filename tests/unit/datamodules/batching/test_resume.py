"""A run that is resumed sees the batches that the uninterrupted run saw."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor

from datamodules import Reviews
from datamodules.batching.examples import Example, fingerprint
from text import Batch, WordTokenizer

Seen = list[tuple[int, list[int]]]

# Runs are resumed into folders of their own, so that no test changes the files of another.
pytestmark = pytest.mark.filterwarnings("ignore:The dirpath has changed:UserWarning")


class Recorder(pl.LightningModule):
    """Notes which samples come when."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 2)
        self.seen: Seen = []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        # As a warm-up schedule does: makes Lightning build the loader before it restores.
        assert self.trainer.estimated_stepping_batches > 0
        return torch.optim.SGD(self.parameters(), lr=1e-4)

    def training_step(self, batch: Batch) -> Tensor:
        self.seen.append((self.current_epoch, batch.sample_ids.tolist()))
        assert batch.labels is not None
        logits = self.layer(batch.lengths.unsqueeze(1).float())
        return torch.nn.functional.cross_entropy(logits, batch.labels)

    def validation_step(self, batch: Batch) -> None:
        pass

    def predict_step(self, batch: Batch) -> Tensor:
        return batch.sample_ids


def corpus(num_workers: int = 0, batch_size: int = 8, seed: int = 0) -> Reviews:
    module = Reviews(limit_train=60, num_workers=num_workers, batch_size=batch_size, seed=seed)
    module.setup("fit")
    module.tokenizer = WordTokenizer.build(module.train_texts())
    return module


def trainer(folder: Path, *callbacks: pl.Callback, overfit_batches: int = 0) -> pl.Trainer:
    return pl.Trainer(
        default_root_dir=folder,
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        callbacks=list(callbacks),
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        overfit_batches=overfit_batches,
        limit_val_batches=1,
    )


def run(folder: Path, data: Reviews, checkpoint: str | None = None) -> Seen:
    module = Recorder()
    each: dict[str, Any] = {"dirpath": folder, "save_top_k": -1}
    steps = ModelCheckpoint(**each, every_n_train_steps=1, filename="{step}")
    epochs = ModelCheckpoint(**each, every_n_epochs=1, filename="{epoch}")
    trainer(folder, steps, epochs).fit(module, datamodule=data, ckpt_path=checkpoint)
    return module.seen


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seen]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    batches = run(folder, corpus())
    assert len(batches) == 24
    return folder, batches


@pytest.mark.parametrize(
    ("checkpoint", "done"),
    [
        ("step=3", 3),
        ("step=8", 8),
        ("step=11", 11),
        ("step=16", 16),
        ("epoch=0", 8),
        ("epoch=1", 16),
    ],
)
def test_resumed_is_uninterrupted(
    tmp_path: Path, uninterrupted: tuple[Path, Seen], checkpoint: str, done: int
) -> None:
    folder, batches = uninterrupted
    assert run(tmp_path, corpus(), str(folder / f"{checkpoint}.ckpt")) == batches[done:]


@pytest.mark.long
@pytest.mark.parametrize(("checkpoint", "done"), [("step=11", 11), ("epoch=0", 8)])
def test_resumed_is_uninterrupted_with_workers(
    tmp_path: Path, uninterrupted: tuple[Path, Seen], checkpoint: str, done: int
) -> None:
    folder, batches = uninterrupted
    assert run(tmp_path, corpus(2), str(folder / f"{checkpoint}.ckpt")) == batches[done:]


def test_every_epoch_has_every_sample_in_another_order(uninterrupted: tuple[Path, Seen]) -> None:
    orders = [[i for e, ids in uninterrupted[1] if e == epoch for i in ids] for epoch in range(3)]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.long
def test_other_batches_are_refused(tmp_path: Path, uninterrupted: tuple[Path, Seen]) -> None:
    folder, _ = uninterrupted
    for checkpoint in ("step=3.ckpt", "epoch=1.ckpt"):
        with pytest.raises(ValueError, match=r"\(changed: global_batch 8 -> 4\)"):
            run(tmp_path, corpus(batch_size=4), str(folder / checkpoint))
        with pytest.raises(ValueError, match=r"\(changed: seed 0 -> 1"):
            run(tmp_path, corpus(seed=1), str(folder / checkpoint))


@pytest.mark.parametrize("split", ["train", "validation"])
def test_other_rows_are_refused(
    tmp_path: Path, uninterrupted: tuple[Path, Seen], split: Literal["train", "validation"]
) -> None:
    data = corpus()
    first = data.examples(split)[0]
    data.examples(split)[0] = first._replace(label=0 if first.label else 1)
    with pytest.raises(ValueError, match=rf"\(changed: {split} rows\)"):
        run(tmp_path, data, str(uninterrupted[0] / "epoch=1.ckpt"))


def test_a_fingerprint_tells_pairs_and_labels_apart() -> None:
    examples = [
        Example(("ab", "c"), 0, 0),
        Example(("a", "bc"), 0, 0),
        Example("abc", 0, 0),
        Example("abc", None, 0),
    ]
    assert len({fingerprint([example]) for example in examples}) == 4
    assert fingerprint(examples) != fingerprint(examples[::-1])
    assert fingerprint(examples) == fingerprint(list(examples))


def test_overfitting_repeats_the_same_batches(tmp_path: Path) -> None:
    module = Recorder()
    trainer(tmp_path, overfit_batches=2).fit(module, datamodule=corpus())
    batches = [ids for _, ids in module.seen]
    assert len(batches) == 6
    assert batches[:2] == batches[2:4] == batches[4:]
    assert [len(batch) for batch in batches] == [8] * 6


def test_processes_of_a_trainer_share_the_batches() -> None:
    alone = [batch.sample_ids.tolist() for batch in corpus().train_dataloader()]
    parts = []
    for rank in (0, 1):
        data = corpus(batch_size=4)
        data.trainer = SimpleNamespace(world_size=2, global_rank=rank, current_epoch=0)  # type: ignore[assignment] # stands for a trainer
        parts.append([batch.sample_ids.tolist() for batch in data.train_dataloader()])
    joined = [sorted(first + second) for first, second in zip(*parts, strict=True)]
    assert joined == [sorted(batch) for batch in alone]


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_predictions_come_once_for_every_sample(tmp_path: Path, num_workers: int) -> None:
    # Lightning builds the loader anew for prediction, around the same sampler.
    data = corpus(num_workers)
    batches: Any = trainer(tmp_path).predict(Recorder(), datamodule=data)
    assert sorted(torch.cat(batches).tolist()) == list(range(1000))
