"""MLflow's real store of files, and Weights & Biases without a network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.program import variables
from tests.integration.conftest import OLSA, REVIEWS, TINY, Steadfast
from training.trackers import TrackerSettings

EVERY = "--trainer.log_every_n_steps=1"
TRAIN = [*OLSA, *REVIEWS, *TINY, EVERY, "--run=a"]


# MLflow 3 says so of its own code.
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_mlflow(here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="not installed: pip install 'steadfast-nlp[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    track = "--track.mlflow=mlruns"
    assert steadfast("fit", TRAIN, "--trainer.max_epochs=1", track).status == 0
    # The run goes on, there too; settings come from the run.
    assert steadfast("train", "--run=a", "--trainer.max_epochs=2", "--pgd.steps=1").status == 0
    from mlflow.tracking import MlflowClient

    client = MlflowClient((here / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("steadfast")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert json.loads(Path("runs/a/trackers.json").read_text()) == {"mlflow": run.info.run_id}
    assert run.info.run_name == "a"
    assert run.info.status == "FINISHED"
    assert run.data.params["model/width"] == "8"
    assert run.data.params["model/class"] == "lit_modules.OLSA"
    metrics = json.loads(Path("runs/a/results.json").read_text())["metrics"]
    assert run.data.metrics["test/accuracy"] == pytest.approx(metrics["test/accuracy"])
    assert run.data.metrics["certify/accuracy at 0.5"] == metrics["certify/accuracy@0.5"]
    steps = [one.step for one in client.get_metric_history(run.info.run_id, "train/loss")]
    assert steps == list(range(8))


@pytest.mark.slow
def test_wandb_offline(here: Path) -> None:
    pytest.importorskip("wandb", reason="not installed: pip install 'steadfast-nlp[wandb]'")
    # A process of its own: its end writes what is left to write.
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "app",
            "fit",
            *TRAIN,
            "--trainer.max_epochs=1",
            "--track.wandb=films",
        ],
        capture_output=True,
        text=True,
        env=variables(WANDB_MODE="offline", WANDB_SILENT="true"),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name = json.loads(Path("runs/a/trackers.json").read_text())["wandb"]
    [file] = Path("runs/a/wandb").glob("offline-run-*/*.wandb")
    assert file.name == f"run-{name}.wandb"
    assert b"train/loss" in file.read_bytes()


@pytest.mark.parametrize("extra", ["mlflow", "wandb"])
def test_what_is_not_installed(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    outcome = steadfast("fit", TRAIN, f"--track.{extra}=x")
    assert outcome.status != 0
    said = outcome.err.splitlines()[-1]
    assert said.startswith(f"error: got --track.{extra} x where {extra} is not installed")
    assert f"pip install 'steadfast-nlp[{extra}]'" in said
    assert not Path("runs").exists()


def test_a_tracker_without_a_place() -> None:
    with pytest.raises(ValueError, match=r"got --track\.mlflow without a value"):
        TrackerSettings(mlflow="")
