"""The lines that a training prints, and the number of its event files."""

from pathlib import Path

from tests.integration.conftest import OLSA, REVIEWS, Steadfast


def test_lines_of_a_training(here: Path, steadfast: Steadfast) -> None:
    quick = ["--trainer.accelerator=cpu", "--trainer.limit_val_batches=1", "--pgd.steps=1"]
    quick += ["--trainer.limit_test_batches=1", "--trainer.max_epochs=2", "--run=a"]
    outcome = steadfast("train", OLSA, REVIEWS, quick)
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].startswith("OLSA: ")
    assert [line.split(":")[0] for line in lines[1:3]] == ["epoch 1", "epoch 2"]
    assert "val/accuracy" in lines[2]
    assert "FLOPs" not in outcome.out + outcome.err
    files = [path.name for path in Path("runs/a").glob("events.out*")]
    # One of the training, and one of each evaluation.
    assert len([name for name in files if ".evaluation-" not in name]) == 1
    assert sorted(name.partition(".evaluation-")[2] for name in files)[1:] == ["certify", "test"]
