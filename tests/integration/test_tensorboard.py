import math
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from run_files.curves import read_curve
from run_files.run_directory import RunDirectory
from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast, results

FINAL = {
    "hp/accuracy": "test/accuracy",
    "hp/radius_correct": "certify/radius_correct",
    "hp/pgd_accuracy": "test/pgd_accuracy",
}
"""Of a classification in the HParams tab, and what they are called elsewhere."""


def read(run: Path) -> EventAccumulator:
    events = EventAccumulator(str(run))
    events.Reload()
    return events


def test_what_tensorboard_shows(trained: Path) -> None:
    tags = read(trained).Tags()
    expected = {
        "train/loss",
        "train/accuracy",
        "train/target_radius",
        "alpha_1/layer_1",
        "alpha_2/layer_1",
        "val/loss",
        "val/accuracy",
        "val/radius",
        "lr-AdamW",
        "test/accuracy",
        "test/pgd_accuracy",
        "certify/radius",
        *FINAL,
    }
    assert expected <= set(tags["scalars"])
    assert "config/text_summary" in tags["tensors"]
    assert not list(trained.glob("hparams.yaml"))


def test_hparams_hold_the_final_numbers(trained: Path, steadfast: Steadfast) -> None:
    def last(tag: str) -> float:
        return float(read(trained).Scalars(tag)[-1].value)

    events = read(trained)
    assert math.isnan(events.Scalars("hp/accuracy")[0].value)
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"model/objective/gamma" in content
    metrics = results("done")["metrics"]
    for tag, name in FINAL.items():
        assert last(tag) == pytest.approx(metrics[name])
    # Numbers that are measured later get there, too.
    assert steadfast("test", "--run=done", TINY, ATTACK, "--pgd.epsilon=4").status == 0
    assert last("hp/pgd_accuracy") == pytest.approx(results("done")["metrics"]["test/pgd_accuracy"])


def points(folder: Path) -> dict[str, list[int]]:
    """The steps of each scalar, as TensorBoard shows them."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [one.step for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def check_once(folder: Path) -> None:
    found = points(folder)
    assert found
    assert {tag: steps for tag, steps in found.items() if len(set(steps)) != len(steps)} == {}


FIT = ["fit", *OLSA, *REVIEWS, *TINY, "--trainer.log_every_n_steps=1", "--run=a"]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_that_is_saved_is_shown_once(
    here: Path, steadfast: Steadfast, accumulate: int
) -> None:
    often = ["--checkpoint_every_n_minutes=0", f"--trainer.accumulate_grad_batches={accumulate}"]
    assert steadfast(FIT, often, "--trainer.max_epochs=2").status == 0
    check_once(here / "runs" / "a")
    assert points(here / "runs" / "a")["train/loss"] == list(range(8 // accumulate))
    # Also after it was resumed.
    assert steadfast(FIT, often, "--trainer.max_epochs=3").status == 0
    check_once(here / "runs" / "a")
    assert points(here / "runs" / "a")["train/loss"] == list(range(12 // accumulate))
    curve = read_curve(RunDirectory(here / "runs" / "a"), "train/loss")
    assert curve["steps"] == list(range(12 // accumulate))


def test_a_run_that_is_begun_anew_shows_nothing_of_before(here: Path, steadfast: Steadfast) -> None:
    """It was killed before its first checkpoint."""
    assert steadfast(FIT, "--trainer.max_epochs=3").status == 0
    run = here / "runs" / "a"
    (run / "results.json").unlink()
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    assert steadfast(FIT, "--trainer.max_epochs=1").status == 0
    check_once(run)
    assert max(points(run)["train/loss"]) == 3
    assert read_curve(RunDirectory(run), "train/loss")["steps"] == [0, 1, 2, 3]


def test_a_second_test_takes_the_place_of_the_first(trained: Path, steadfast: Steadfast) -> None:
    check_once(trained)
    step = results("done")["about"]["test"]["step"]
    assert points(trained)["test/pgd_accuracy"] == [step]
    assert steadfast("test", "--run=done", TINY, ATTACK, "--pgd.epsilon=4").status == 0
    check_once(trained)
    (shown,) = read(trained).Scalars("test/pgd_accuracy")
    assert (shown.step, shown.value) == (
        step,
        pytest.approx(results("done")["metrics"]["test/pgd_accuracy"]),
    )
    # A validation leaves the curves of the training alone.
    before = points(trained)
    assert steadfast("validate", "--run=done", TINY).status == 0
    assert points(trained) == before
    # Figures of other weights are shown where they are filed.
    previous = "--ckpt_path=runs/done/checkpoints/previous.ckpt"
    assert steadfast("test", "--run=done", TINY, ATTACK, previous).status == 0
    assert points(trained) == before
    (apart,) = (trained / "others").iterdir()
    assert set(points(apart)["test/accuracy"]) == {4}


def test_figures_of_earlier_weights_leave_with_them(trained: Path, steadfast: Steadfast) -> None:
    longer = [*OLSA, *REVIEWS, *TINY, "--trainer.max_epochs=3", "--checkpoint.monitor=null"]
    outcome = steadfast("fit", longer, "--run=done")
    assert outcome.status == 0
    assert "tfevents" not in outcome.err
    assert not any(tag.startswith(("test/", "certify/")) for tag in points(trained))
    (apart,) = (trained / "others").iterdir()
    assert points(apart)["test/accuracy"] == points(apart)["certify/radius"]
    assert steadfast("test", "--run=done", TINY, ATTACK).status == 0
    check_once(trained)
    assert points(trained)["test/accuracy"] == [12]
