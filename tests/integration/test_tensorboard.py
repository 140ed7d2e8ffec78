import math
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.integration.conftest import ATTACK, TINY, Steadfast, results

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
        "train/gamma",
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
