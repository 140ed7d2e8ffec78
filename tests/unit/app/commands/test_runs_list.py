"""The list of runs."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.main import entry
from app.commands.runs_list import list_runs, table
from datamodules import CORPORA, CORPUS_NAMES
from run_files.run_directory import RunDirectory
from tests.run_command import run_command

main = partial(run_command, "runs")

ROOT = Path(__file__).parents[4]


def begin(runs: Path, name: str, *, at: int, metrics: dict[str, Any] | None = None) -> RunDirectory:
    run = RunDirectory(runs / name)
    run.checkpoints.mkdir(parents=True)
    settings = {
        "seed_everything": 3,
        "model": {"class_path": "lit_modules.OLSA", "init_args": {}},
        "data": {"class_path": "datamodules.SST2"},
    }
    run.config_path.write_text(yaml.safe_dump(settings))
    if metrics is not None:
        content = {
            "run": name,
            "method": "UniBERT",
            "corpus": "sst2",
            "seed": 4,
            "metrics": metrics,
            "seconds": {"fit": 1.0, "test": 2.0},
            "versions": {},
        }
        run.results_path.write_text(json.dumps(content))
    for path in (*run.path.iterdir(), run.path):
        os.utime(path, (at, at))
    return run


def test_figures(tmp_path: Path) -> None:
    metrics = {
        "test/accuracy": 0.8,
        "test/loss": 0.3,
        "certify/radius_correct": 1.5,
        "attack/pwws/accuracy": 0.2,
        "attack/textfooler/accuracy": 0.1,
        "attack/bae/unreliable_accuracy": 0.0,
        "attack/mean_accuracy": 0.0,
    }
    begin(tmp_path, "first", at=1000, metrics=metrics)
    (found,) = list_runs(tmp_path)
    assert (found.metric, found.value, found.radius) == ("test/accuracy", 0.8, 1.5)
    assert (found.attack, found.attacked) == ("textfooler", 0.1)
    assert (found.method, found.corpus, found.seed) == ("UniBERT", "sst2", 4)
    assert (found.state, found.stages) == ("trained", ("fit", "test"))


def test_states(tmp_path: Path) -> None:
    begin(tmp_path, "begun", at=1000)
    (begin(tmp_path, "interrupted", at=2000).checkpoints / "last.ckpt").touch()
    begin(tmp_path, "damaged", at=3000).results_path.write_text("{")
    os.utime(tmp_path / "damaged" / "results.json", (3000, 3000))
    measured = begin(tmp_path, "measured", at=4000, metrics={"test/accuracy": 0.5})
    content = json.loads(measured.results_path.read_text())
    measured.results_path.write_text(json.dumps(content | {"seconds": {"test": 1.0}}))
    training = begin(tmp_path, "training", at=5000)
    training.lock()
    (tmp_path / "no run").mkdir()
    (tmp_path / "a file").touch()
    try:
        found = {one.run: one for one in list_runs(tmp_path)}
    finally:
        training.unlock()
    assert {name: one.state for name, one in found.items()} == {
        name: name for name in ("begun", "interrupted", "damaged", "measured", "training")
    }
    assert "results.json, which cannot be read" in str(found["damaged"].problem)
    assert (found["begun"].method, found["begun"].corpus, found["begun"].seed) == (
        "OLSA",
        "sst2",
        3,
    )


def test_corpora_of_unfinished_runs_have_their_names_in_results(tmp_path: Path) -> None:
    settings: dict[str, Any] = {}
    for name, corpus in CORPORA.items():
        settings = {"data": {"class_path": f"datamodules.{name}"}}
        begin(tmp_path, name, at=1000).config_path.write_text(yaml.safe_dump(settings))
        (listed,) = list_runs(tmp_path, [name])
        assert listed.corpus == getattr(corpus, "corpus", CORPUS_NAMES[name])
    settings["data"] |= {"init_args": {"name": "mine"}}
    RunDirectory(tmp_path / name).config_path.write_text(yaml.safe_dump(settings))
    assert list_runs(tmp_path, [name])[0].corpus == "mine"


def test_order_names_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, at in (("olsa-1", 1000), ("other", 3000), ("olsa-2", 2000)):
        begin(tmp_path, name, at=at, metrics={"test/spearman": None})
    folder = f"--runs_dir={tmp_path}"
    assert main([folder, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["run"] for record in records] == ["other", "olsa-2", "olsa-1"]
    assert main([folder, "--run", "olsa-*"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["olsa-2", "olsa-1"]
    assert "spearman not finite" in rows[0]
    # Columns without an entry are left out.
    assert "certified" not in head


def test_a_collapsed_run_is_not_listed_as_robust(tmp_path: Path) -> None:
    metrics = {"test/accuracy": 0.6, "test/macro_f1": 0.375, "test/absorbed": 1.0}
    metrics |= {"test/samples": 100.0, "test/majority_accuracy": 0.6, "test/largest_class": 1.0}
    metrics |= {"attack/pwws/samples": 50.0, "attack/pwws/clean_accuracy": 0.58}
    begin(tmp_path, "a", at=1000, metrics=metrics | {"attack/pwws/accuracy": 0.58})
    (listed,) = list_runs(tmp_path)
    assert (listed.level, listed.unattacked, listed.macro_f1) == ("collapsed", 0.58, 0.375)
    row = table([listed]).splitlines()[1]
    assert "pwws 0.580 of 0.580" in row
    assert "collapsed: robustness means nothing" in row


def test_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--runs_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out == f"no runs in {tmp_path}\n"
    assert entry(["runs", f"--runs_dir={tmp_path / 'nowhere'}"]) == 1
    assert "expected that of your runs" in capsys.readouterr().err


@pytest.mark.long
def test_a_reader_who_has_enough_is_no_error(tmp_path: Path) -> None:
    for number in range(400):
        begin(tmp_path, f"run-{number}", at=1000)
    shell = f"{sys.executable} -m app runs --runs_dir {tmp_path} --json | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert done.returncode == 141


def test_a_damaged_run_hides_no_other(tmp_path: Path) -> None:
    begin(tmp_path, "good", at=1000, metrics={"test/accuracy": 0.5})
    (begin(tmp_path, "link in it", at=2000).path / "report").symlink_to(tmp_path / "nowhere")
    link = begin(tmp_path, "settings gone", at=3000)
    link.config_path.unlink()
    link.config_path.symlink_to(tmp_path / "nowhere")
    strange = begin(tmp_path, "strange", at=4000, metrics={"test/accuracy": 0.5})
    content = json.loads(strange.results_path.read_text())
    strange.results_path.write_text(json.dumps(content | {"metrics": {"test/accuracy": "x"}}))
    deep = begin(tmp_path, "deep", at=5000)
    deep.results_path.write_text("[" * 100_000)
    (tmp_path / "a run that is nowhere").symlink_to(tmp_path / "nowhere")
    outcome = list_runs(tmp_path)
    assert {one.run: one.state for one in outcome} == {
        "good": "trained",
        "link in it": "begun",
        "settings gone": "damaged",
        "strange": "damaged",
        "deep": "damaged",
    }
    assert table(outcome).count("\n") == 5
