import csv
import errno
from pathlib import Path

import pytest

from training.metrics_file import MetricsFile


def rows(path: Path) -> list[dict[str, str]]:
    """The rows, without empty cells; each has all columns."""
    with path.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    assert not any(None in row or None in row.values() for row in found)
    return [{name: cell for name, cell in row.items() if cell} for row in found]


def fit(path: Path, steps: range, *, begin: int = 0) -> MetricsFile:
    """Logs as a fit does: a rate and a loss in each step, a validation in each third."""
    logger = MetricsFile(path, begin=begin)
    logger.log_metrics({"test/loss": 9.0}, 0)  # no fit yet
    logger.open()
    for step in steps:
        logger.log_metrics({"lr": 0.5 / (step + 1)}, step)
        logger.log_metrics({"train/loss": 1.0 / (step + 3), "epoch": step // 3}, step)
        if step % 3 == 2:
            logger.log_metrics({"val/loss": step / 7, "epoch": step // 3}, step)
    return logger


def test_a_row_for_each_step(tmp_path: Path) -> None:
    path = tmp_path / "a" / "metrics.csv"
    logger = fit(path, range(4))
    seen = rows(path)  # before it has ended
    logger.finalize("success")
    logger.log_metrics({"test/accuracy": 1.0}, 4)
    assert rows(path) == seen
    assert [row["step"] for row in seen] == ["0", "1", "2", "3"]
    assert seen[2] == {
        "step": "2",
        "epoch": "0",
        "lr": repr(0.5 / 3),
        "train/loss": "0.2",
        "val/loss": repr(2 / 7),
    }
    assert path.read_text().startswith("step,epoch,lr,train/loss,val/loss\n")


@pytest.mark.parametrize("begin", range(1, 8))
def test_a_run_that_goes_on_has_each_row_once(tmp_path: Path, begin: int) -> None:
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    fit(whole, range(9)).finalize("success")
    # Killed in step 7, after a checkpoint in another one.
    killed = fit(parts, range(8))
    with parts.open("a") as stream:
        stream.write("8,2,0.")
    fit(parts, range(begin, 9), begin=begin).finalize("success")
    killed.finalize("failed")  # closes its file
    assert parts.read_text() == whole.read_text()


def test_a_new_run_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    fit(path, range(5)).finalize("success")
    fit(path, range(2)).finalize("success")
    assert [row["step"] for row in rows(path)] == ["0", "1"]


def test_the_same_metric_twice_in_a_step(tmp_path: Path) -> None:
    logger = MetricsFile(tmp_path / "metrics.csv")
    logger.open()
    for value in (1.0, 2.0, float("nan")):
        logger.log_metrics({"train/texts, new": value}, 0)
    logger.finalize("success")
    assert [row["train/texts, new"] for row in rows(logger.path)] == ["1.0", "2.0", "nan"]


def test_a_new_metric_keeps_the_former_row_of_its_step(tmp_path: Path) -> None:
    logger = MetricsFile(tmp_path / "metrics.csv")
    logger.open()
    logger.log_metrics({"val/loss": 1.0}, 5)
    logger.log_metrics({"val/loss": 2.0, "val/new": 3.0}, 5)
    logger.finalize("success")
    assert [row["val/loss"] for row in rows(logger.path)] == ["1.0", "2.0"]


def test_no_file_without_a_fit(tmp_path: Path) -> None:
    logger = MetricsFile(tmp_path / "metrics.csv")
    logger.log_hyperparams({"a": 1})
    logger.log_metrics({"test/loss": 1.0}, 0)
    logger.finalize("success")
    assert not logger.path.exists()


@pytest.mark.parametrize("content", ["", "step,epoch", "step,epoch\n1,2,3\nx,0\n", "\0\n\n"])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(content)
    fit(path, range(2, 3), begin=2).finalize("success")
    assert [row["step"] for row in rows(path)] == ["2"]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs Linux: /dev/full")
    logger = fit(tmp_path / "metrics.csv", range(1))
    assert logger._stream is not None
    logger._stream.close()
    with full.open("wb", buffering=0) as stream:
        logger._stream = stream
        with pytest.raises(OSError, match="No space left") as caught:
            logger.log_metrics({"lr": 1.0}, 1)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(logger.path)
