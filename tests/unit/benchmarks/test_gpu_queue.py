"""The queue of measurements for a GPU: what it runs, what it leaves out, what it keeps."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from app.cli.main import entry
from benchmarks import gpu_queue
from benchmarks.gpu_queue import LIMIT, QUEUE, Entry, brief, main

GOOD = Entry("good", "works", "json.tool --help", "", seconds=30)
BAD = Entry("bad", "fails", "no_such_module_at_all", "", seconds=30)
SLOW = Entry("slow", "is not begun", "json.tool --help", "", seconds=480)


def content(out: Path, name: str) -> dict[str, Any]:
    (file,) = out.glob(f"*/{name}.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_every_command_is_short_and_has_its_own_name() -> None:
    assert len({entry.name for entry in QUEUE}) == len(QUEUE)
    assert all(0 < entry.seconds <= LIMIT for entry in QUEUE)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(QUEUE)
    assert main(["--list", "--only", "attention"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("| attention |")


@pytest.mark.slow
def test_failures_are_kept_and_tried_again_and_what_is_finished_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_queue, "QUEUE", (BAD, GOOD))
    assert main(["--out", str(tmp_path)]) == 1
    assert "no_such_module_at_all" in content(tmp_path, "bad")["error"]
    good = content(tmp_path, "good")
    assert good["status"] == "finished"
    assert "usage" in good["printed"]
    ran = capsys.readouterr().err
    assert "bad:" in ran
    assert "good:" in ran
    assert main(["--out", str(tmp_path)]) == 1
    ran = capsys.readouterr().err
    assert "bad:" in ran
    assert "good:" not in ran


def test_a_command_that_does_not_fit_into_the_budget_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_queue, "QUEUE", (GOOD, SLOW))
    assert main(["--out", str(tmp_path), "--budget", "100"]) == 0
    out = capsys.readouterr().out
    assert "slow may take 480 s" in out
    assert "| slow | not run |" in out
    assert not list(tmp_path.glob("*/slow.json"))


def test_a_command_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_queue, "LIMIT", 0.2)
    # A module of Python that waits: it serves until it is ended.
    endless = Entry("endless", "waits", "http.server --bind 127.0.0.1 0", "", seconds=1)
    monkeypatch.setattr(gpu_queue, "QUEUE", (endless,))
    assert main(["--out", str(tmp_path)]) == 1
    assert content(tmp_path, "endless")["error"] == "not finished within 0 s"


def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    two = GOOD._replace(name="two", gpus=2)
    monkeypatch.setattr(gpu_queue, "QUEUE", (two, GOOD._replace(needs="resources")))
    assert main(["--out", str(tmp_path), "--check"]) == 0
    out = capsys.readouterr().out
    assert "left out: needs 2 GPUs, got 1" in out
    assert "left out: needs --resources DIR" in out


def test_the_figures_of_the_table() -> None:
    figures = {"methods": {"A": {"ratio": 1.25, "seconds": 3.0}}, "recipes": [{"efficiency": 0.5}]}
    assert list(brief(figures)) == ["methods A ratio 1.25", "recipes 0 efficiency 0.5"]


def call_here(_: object, words: Sequence[str], limit: float) -> tuple[str, str, str]:
    """Run a command of the program in this process, which has loaded it."""
    assert words[:3] == [sys.executable, "-m", "app"]
    return ("failed" if entry(words[3:]) else "finished"), "", ""


@pytest.mark.long
@pytest.mark.parametrize("name", ["projection", pytest.param("unibert", marks=pytest.mark.slow)])
def test_commands_of_the_queue_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "unibert":  # the other one runs as it is
        monkeypatch.setattr(gpu_queue.Queue, "_call", call_here)
        monkeypatch.chdir(gpu_queue.ROOT)
        monkeypatch.setenv("PL_GLOBAL_SEED", "0")  # the command leaves it, and this takes it away
    assert main(["--out", str(tmp_path), "--check", "--only", name]) == 0
    found = content(tmp_path, name)
    assert found["status"] == "finished"
    assert list(brief(found["figures"]))
