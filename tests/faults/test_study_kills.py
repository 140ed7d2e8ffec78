"""A study whose program is killed again and again ends as if nothing had happened."""

import random
import sys
import time
from pathlib import Path

import pytest

from tests.faults.study_kills import figures, finish, storm

STUDY = """
title: A tiny study
base:
  settings:
    data: Reviews
    data.limit_train: 300
    data.batch_size: 8
    trainer.max_epochs: 2
    trainer.accelerator: cpu
    # Three checkpoints a second.
    checkpoint_every_n_minutes: 0.005
seeds: [0, 1]
rows:
  first:
    title: first
    settings: {model: TextClassifier, model.width: 16, model.heads: 2, model.depth: 1}
  then:
    title: then
    after: first
    start: {model.init_from: checkpoints/best.ckpt}
    settings: {model: AdversarialTraining, model.adversary: FreeLB, trainer.max_epochs: 1}
    seeds: [0]
    stages: [train]
stages:
  - fit
  - test: {pgd.epsilon: 0.3, pgd.steps: 3}
columns:
  accuracy: {title: accuracy, metric: test/accuracy}
  pgd: {title: under PGD, metric: test/pgd_accuracy}
against: first
"""
KILLS = 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_killed_again_and_again(tmp_path: Path) -> None:
    calm, stormy, study = tmp_path / "calm", tmp_path / "stormy", tmp_path / "tiny.yaml"
    study.write_text(STUDY)
    began = time.monotonic()
    finish(study, calm)
    whole = time.monotonic() - began
    dice = random.Random(0)
    waits = (dice.uniform(0.15, 0.3) * whole for _ in range(KILLS))
    assert storm(study, stormy, waits) >= 2
    assert figures(study, stormy) == figures(study, calm)
