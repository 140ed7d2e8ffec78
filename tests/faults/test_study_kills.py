"""A study whose program is killed again and again ends as if nothing had happened."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.forked_study import run_study
from tests.faults.program import Forked
from tests.faults.study_kills import figures, storm

STUDY = """
title: A tiny study
base:
  settings:
    data: Reviews
    data.limit_train: 300
    data.batch_size: 8
    trainer.max_epochs: 2
    trainer.accelerator: cpu
    # A short validation: most of the time is left for the fits.
    trainer.limit_val_batches: 1
    # Three checkpoints a second.
    checkpoint_every_n_minutes: 0.005
rows:
  first:
    title: first
    settings: {model: TextClassifier, model.width: 16, model.heads: 2, model.depth: 1}
  then:
    title: then
    after: first
    start: {model.init_from: checkpoints/best.ckpt}
    settings: {model: AdversarialTraining, model.adversary: FreeLB, trainer.max_epochs: 1}
    stages: [train]
  beside:
    title: beside
    settings: {model: TextClassifier, model.width: 8, model.heads: 2, model.depth: 1}
    stages: [train]
stages:
  - fit
  - test: {pgd.epsilon: 0.3, pgd.steps: 3}
columns:
  accuracy: {title: accuracy, metric: test/accuracy}
  pgd: {title: under PGD, metric: test/pgd_accuracy}
against: first
"""


def until(pattern: str, runs: Path, count: int) -> Callable[[Forked], None]:
    """Waits for so many files of the runs."""

    def wait(runner: Forked) -> None:
        while len(list(runs.glob(pattern))) < count and runner.wait(0) is None:
            time.sleep(0.01)

    return wait


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_killed_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADFAST_REVISION", "tested")
    calm, stormy, study = tmp_path / "calm", tmp_path / "stormy", tmp_path / "tiny.yaml"
    study.write_text(STUDY)
    run_study(study, calm)
    # In the middle of two fits; and when a fit is done, and its test is not.
    moments = [until("*/checkpoints/last.ckpt", stormy, 2), until("*/results.json", stormy, 1)]
    assert storm(study, stormy, moments) == 2
    run_study(study, stormy)
    assert figures(study, stormy) == figures(study, calm)
