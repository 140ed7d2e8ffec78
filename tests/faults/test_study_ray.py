"""A study on a Ray cluster of two nodes on this machine, one of which is killed in the middle."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ray", reason="Ray is not installed: pip install 'steadfast[ray]'")

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "model": "TextClassifier",
    "model.width": 8,
    "model.heads": 2,
    "model.depth": 1,
    "data": "Reviews",
    "data.limit_train": 64,
    "data.batch_size": 16,
    "trainer.max_epochs": 60,
    "trainer.accelerator": "cpu",
    "trainer.enable_model_summary": False,
    "checkpoint_every_n_minutes": 0.01,
}
STUDY = {
    "title": "Three runs",
    "base": {"settings": SETTINGS},
    "rows": {"narrow": {}, "wide": {"settings": {"model.width": 16}}},
    "seeds": [0, 1],
    "stages": ["train"],
    "columns": {"accuracy": {"title": "accuracy", "metric": "test/accuracy"}},
    "against": "narrow",
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


def begun(runs: str, *words: str) -> subprocess.Popen[str]:
    """`study run`, begun."""
    command = ["study", "run", "tiny.yaml", f"--runs_dir={runs}", "--jobs=2", *words]
    return subprocess.Popen(
        [sys.executable, "-m", "app", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def study(runs: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(runs, "studies", "tiny", "study.json").read_text())
    assert content.pop("seconds")
    return content


def test_a_node_is_killed_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: "subprocess.Popen[str]"
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(yaml.safe_dump(STUDY))
    quiet = begun("quiet")
    said, _ = quiet.communicate()
    assert quiet.returncode == 0, said

    assert nodes.stdin is not None
    assert nodes.stdout is not None
    program = begun("killed", "--executor=ray", f"--ray_address={nodes.stdout.readline().strip()}")
    # Until each of the two nodes is in the middle of a training.
    while len(list(Path("killed").glob("*/checkpoints/last.ckpt"))) < 2:
        assert program.poll() is None, program.communicate()[0]
        time.sleep(0.05)
    nodes.stdin.write("kill\n")
    nodes.stdin.flush()
    assert nodes.stdout.readline() == "killed\n"
    said, _ = program.communicate()
    assert program.returncode == 0, said
    assert study("killed") == study("quiet")

    # One cell was begun again by another node, and has gone on; the others never stopped.
    logs = [path.read_text() for path in Path("killed/studies/tiny/logs").glob("*.log")]
    assert sorted(log.count("$ steadfast train") for log in logs) == [1, 1, 1, 2]
    [again] = [log for log in logs if log.count("$ steadfast train") == 2]
    assert "goes on after step" in again
