"""A study whose program is killed again and again ends as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.program import HANGS, ROOT

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
stages:
  - fit
  - test: {pgd.epsilon: 0.3, pgd.steps: 3}
columns:
  accuracy: {title: accuracy, metric: test/accuracy}
  pgd: {title: under PGD, metric: test/pgd_accuracy}
against: first
"""
KILLS = 4


def start(where: Path) -> subprocess.Popen[bytes]:
    # An edit of the checkout in the meantime is no difference.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STEADFAST_REVISION": "tested"}
    with (where / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "app", "study", "run", "tiny.yaml", "--jobs=2"],
            cwd=where,
            env=environment,
            stdout=log,
            stderr=log,
            process_group=0,
        )


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def figures(where: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((where / "runs/studies/tiny/study.json").read_text())
    content.pop("seconds")
    return content


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_killed_again_and_again(tmp_path: Path) -> None:
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    for where in (calm, stormy):
        where.mkdir()
        (where / "tiny.yaml").write_text(STUDY)
    began = time.monotonic()
    assert start(calm).wait(HANGS) == 0, (calm / "log").read_text()
    whole = time.monotonic() - began
    dice, kills = random.Random(0), 0
    while kills < KILLS:
        runner = start(stormy)
        time.sleep(dice.uniform(0.2, 0.5) * whole)
        working = children(runner.pid)
        if runner.poll() is not None:  # it was faster than that
            break
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        kills += 1
        # No process is left that trains the run of the next start.
        until = time.monotonic() + 30
        while any(alive(child) for child in working):
            assert time.monotonic() < until, "a child has outlived the study"
            time.sleep(0.01)
    assert kills >= 2
    assert start(stormy).wait(HANGS) == 0, (stormy / "log").read_text()
    assert figures(stormy) == figures(calm)
