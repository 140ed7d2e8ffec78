"""`train --recipe robust` on a tiny file: choice, comparison, resume, wrong data."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from app.recipe import robust
from lit_modules import WordScores, load, read_checkpoint
from run_files.run_directory import RunDirectory
from tests.integration.conftest import QUIET, Steadfast, results

GOOD = ("lovely", "useful", "bright", "sturdy", "quick")
BAD = ("broken", "noisy", "feeble", "gloomy", "awkward")
RECIPE = ["--recipe=robust", "--data=notes.tsv", "--against=deepwordbug", "--run=notes", *QUIET[:1]]
SMALL = ["--kappa", "0.5", "0.9", "--compare=bag", "--attack=deepwordbug", "--num_samples=6"]


def write_notes(path: Path, rows: int = 240) -> None:
    drawn = random.Random(0)
    lines = ["text\tlabel"]
    for i in range(rows):
        words = drawn.choices(GOOD if i % 2 else BAD, k=4)
        lines.append(f"the {words[0]} lamp was {words[1]} and {words[2]} {words[3]} {i}\t{i % 2}")
    path.write_text("\n".join(lines) + "\n")


def test_a_file_gets_a_robust_model(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(here / "notes.tsv")
    first = steadfast("train", RECIPE, SMALL)
    assert first.status == 0, first.err
    assert "deepwordbug" in first.out
    run = RunDirectory(Path("runs/notes"))
    choice = json.loads((run.path / "recipe.json").read_text())["choice"]
    assert choice["kappa"] in (0.5, 0.9)
    assert f"{choice['kappa']:g} *" in first.out
    # The kept model is the chosen candidate, and says so.
    kept = run.path / "candidates" / f"kappa-{choice['kappa']:g}" / "checkpoints" / "best.ckpt"
    assert run.best.read_bytes() == kept.read_bytes()
    model = load(run.best)
    assert isinstance(model, WordScores)
    assert model.robustness.kappa == choice["kappa"]
    assert "robustness" in str(read_checkpoint(run.best)["hyper_parameters"])
    settings = run.config()["model"]["init_args"]["robustness"]
    assert settings["kappa"] == choice["kappa"]
    assert results("notes")["run"] == "notes"
    metrics = results("notes")["metrics"]
    assert metrics["attack/deepwordbug/samples"] == 6
    assert metrics["certify_deepwordbug/accuracy@all"] <= metrics["test/accuracy"]
    assert 0.4 < metrics["predict/largest_class"] < 0.6
    # The figures of the choice are about the validation rows, and stay next to those of the test.
    assert metrics["certify_deepwordbug-validation/samples"] == 19
    assert metrics["certify_deepwordbug/samples"] == metrics["attack/deepwordbug/samples"] * 8
    lines = {line.strip().split("  ")[0] for line in first.out.splitlines()}
    assert {"clean", "largest class", "certified, all words", "under deepwordbug"} <= lines
    assert "attack/deepwordbug/accuracy" in results("notes-bag")["metrics"]
    assert Path("runs/notes/report_with_notes-bag/report.html").is_file()

    # The same command prints the same, and trains and attacks nothing again.
    calls: list[str] = []
    real = robust._Recipe._call

    def count(self: Any, command: str, run: RunDirectory, *words: str) -> None:
        calls.append(f"{command} {run.name}")
        real(self, command, run, *words)

    monkeypatch.setattr(robust._Recipe, "_call", count)
    again = steadfast("train", RECIPE, SMALL)
    assert again.status == 0, again.err
    # Only the certificate of the test rows is made again, to compare it with all attacks.
    assert calls == ["certify notes"]
    last = "notes: trained against"
    assert again.out.partition(last)[1:] == first.out.partition(last)[1:]
    # Killed while the chosen candidate was copied: the settings, which begin a run, come last.
    files = {path: path.read_bytes() for path in run.checkpoints.iterdir()}
    run.config_path.unlink()
    run.best.write_bytes(b"half")
    robust.keep_candidate(RunDirectory(kept.parents[1]), run)
    assert {path: path.read_bytes() for path in run.checkpoints.iterdir()} == files
    assert run.begun
    for changed in (["--seed=1"], ["--model.min_count=3"]):
        other = steadfast("train", RECIPE, SMALL, changed)
        assert other.status == 1
        assert "got run 'notes', which was begun with other settings" in other.err
    Path("runs/other").mkdir()
    Path("runs/other/config.yaml").write_text("seed_everything: 0\n")
    other = steadfast("train", RECIPE, SMALL, "--run=other")
    assert other.status == 1
    assert "got run 'other', which was trained without this recipe" in other.err


def test_wrong_data_are_an_error_before_any_training(here: Path, steadfast: Steadfast) -> None:
    write_notes(here / "notes.tsv")
    Path("one.tsv").write_text("text\tlabel\n" + "a note\tgood\n" * 9)
    Path("empty.tsv").write_text("text\tlabel\n")
    for words, message in (
        (["--data=one.tsv"], "got 1 distinct labels in column 'label'"),
        (["--data.validation=empty.tsv"], "empty.tsv: got no usable row"),
        (["--data=nosuch.tsv"], "nosuch.tsv"),
        (["--data=SST3"], "got --data SST3, expected a file (.tsv, .csv, .json, "),
        (["--data.nosuch=1"], "expected settings of TextFiles"),
        (["--data=MRPC", "--data_dir=."], "got MRPC with pairs of texts"),
        (["--k", "0"], "got --k 0, expected numbers of at least 1, or all"),
        (["--num_samples=0"], "--num_samples=0"),
    ):
        outcome = steadfast("train", RECIPE, words)
        assert outcome.status == 1, outcome.out
        assert message in outcome.err, outcome.err
        assert not Path("runs").exists()
