"""Lines of a training on the terminal and in files."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytorch_lightning as pl
from torch import nn

from training.console import OneLine, PlainLines, describe_parts, progress


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.metrics = nn.Identity()
        self.embedding = nn.Embedding(10, 4)
        self.embedding.weight.requires_grad_(False)
        self.head = nn.Linear(4, 10, bias=False)


def test_parts_without_weights_are_not_named() -> None:
    text = "Model: 80 parameters, 40 of them fixed (embedding 40, head 40)"
    assert describe_parts(Model()) == text


def test_shared_weights_count_once() -> None:
    model = Model()
    model.head.weight = model.embedding.weight
    assert describe_parts(model).startswith("Model: 40 parameters, 40 of them fixed (")


def trainer(batches: float = 20, *, first: bool = True) -> pl.Trainer:
    return cast(
        pl.Trainer,
        SimpleNamespace(
            is_global_zero=first,
            num_training_batches=batches,
            current_epoch=1,
            progress_bar_metrics={"train/loss": 0.123456, "val/accuracy": 0.5},
        ),
    )


def batch(lines: PlainLines, at: pl.Trainer, number: int) -> None:
    nothing: Any = None
    lines.on_train_batch_end(at, nothing, nothing, nothing, number)


def test_a_file_gets_a_line_for_each_epoch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("training.console.time.monotonic", lambda: now)
    lines, at = PlainLines(interval=60), trainer()
    model: Any = None
    lines.on_train_epoch_start(at, model)
    for number in range(20):
        now += 7
        batch(lines, at, number)
    lines.on_train_epoch_end(at, model)
    assert capsys.readouterr().out.splitlines() == [
        "epoch 2, batch 9 of 20: train/loss 0.1235, val/accuracy 0.5",
        "epoch 2, batch 18 of 20: train/loss 0.1235, val/accuracy 0.5",
        "epoch 2: train/loss 0.1235, val/accuracy 0.5",
    ]


def test_an_epoch_without_end_and_other_processes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines(interval=0)
    batch(lines, trainer(math.inf), 1234)
    assert capsys.readouterr().out.startswith("epoch 2, batch 1,235: train/loss")
    batch(lines, trainer(first=False), 0)
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert isinstance(progress(), OneLine)
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert isinstance(progress(), PlainLines)
