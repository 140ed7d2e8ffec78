"""A study on a Ray cluster of two nodes on this machine, one of which is killed in the middle."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.forked_study import run_study
from tests.faults.program import ROOT, Piped

pytest.importorskip("ray", reason="Ray is not installed: pip install 'steadfast-nlp[ray]'")

STUDY = {
    "title": "Two runs",
    "base": {
        "settings": {
            "model": "TextClassifier",
            "model.encoder": "mean",
            "model.width": 8,
            "data": "Reviews",
            "data.limit_train": 64,
            "data.batch_size": 16,
            "trainer.max_epochs": 40,
            "trainer.accelerator": "cpu",
            "trainer.enable_model_summary": False,
        }
    },
    "rows": {"narrow": {}, "wide": {"settings": {"model.width": 16}}},
    "stages": ["fit"],
    "columns": {"loss": {"metric": "val/loss", "better": "lower"}},
}


@pytest.fixture
def nodes() -> Iterator[subprocess.Popen[str]]:
    """The cluster; see tests/faults/ray_nodes.py."""
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.ray_nodes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    yield program
    program.communicate()


def figures(where: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((where / "runs/studies/tiny/study.json").read_text())
    assert content.pop("seconds")
    return content


# A cluster takes a minute to start, and to notice that a node is gone.
@pytest.mark.slow
def test_a_node_is_killed_in_the_middle(tmp_path: Path, nodes: "subprocess.Popen[str]") -> None:
    quiet, stormy = tmp_path / "quiet", tmp_path / "stormy"
    for where in (quiet, stormy):
        where.mkdir()
        (where / "tiny.yaml").write_text(yaml.safe_dump(STUDY))
    run_study(quiet / "tiny.yaml", quiet / "runs")

    assert nodes.stdin is not None
    assert nodes.stdout is not None
    address = nodes.stdout.readline().strip()
    ray = ["--executor=ray", f"--ray_address={address}", "--jobs=2"]
    program = Piped("study", "run", "tiny.yaml", *ray, where=stormy)
    # Until each of the two nodes is in the middle of a training.
    while len(list(stormy.glob("runs/*/checkpoints/last.ckpt"))) < 2:
        assert program.poll() is None, program.communicate()
        time.sleep(0.05)
    nodes.stdin.write("kill\n")
    nodes.stdin.flush()
    assert nodes.stdout.readline() == "killed\n"
    said = program.communicate()
    assert program.returncode == 0, said
    assert figures(stormy) == figures(quiet)

    # One cell was begun again by the other node, and has gone on; the other one never stopped.
    logs = [path.read_text() for path in stormy.glob("runs/studies/tiny/logs/*.log")]
    assert sorted(log.count("$ steadfast fit") for log in logs) == [1, 2]
    assert [log.count("resumes after step") for log in sorted(logs, key=len)][-1] == 1
