"""`certify --threat` as a stage of a study."""

from pathlib import Path
from typing import Any

import pytest

from app.commands.certify import parser
from app.study import runner
from app.study.cell_check import _plainly
from app.study.cells import StudyContext, command_line
from app.study.collect import _Reader
from app.study.reuse import missing
from app.study.study import Cell, Stage
from attacks.digests import file_digest
from run_files.run_directory import RunDirectory
from tests.unit.app.study.run_samples import digest, make_run, write_lines

STAGE = Stage(
    command="certify",
    options={"threat": "synonyms", "lists": "l.json", "k": [1, "all"], "tag": "x"},
)


def settings(lists: Path, **options: Any) -> dict[str, Any]:
    words = ["--run=a", "--threat=synonyms", f"--lists={lists}", "--k", "1", "all"]
    return {**vars(parser().parse_args(words)), **options}


def test_the_name_of_its_files() -> None:
    assert STAGE.threat == "synonyms-x"
    assert Stage(command="certify", options={"threat": "words"}).threat == "words"
    assert Stage(command="certify", options={"threat": "pwws,typos"}).threat == "pwws+typos"
    assert Stage(command="certify", options={"bound": "kim"}).threat is None


def test_its_command_can_be_given(tmp_path: Path) -> None:
    cell = Cell(row="r", corpus="", seed=0, run="s-r-s0", config=(), settings={}, stages=(STAGE,))
    place = StudyContext(study="s", runs_dir=tmp_path, data_dir=tmp_path / "data")
    words = command_line(cell, STAGE, place)
    assert words[0] == "certify"
    read = _plainly(parser(), words)
    assert (read["threat"], read["k"], read["tag"]) == ("synonyms", ["1", "all"], "x")
    assert read["data_dir"] == str(tmp_path / "data")
    with pytest.raises(ValueError, match=r"perturbation set 'nosuch'.*or one of synonyms"):
        _plainly(parser(), ["certify", "--run=a", "--threat=nosuch"])


def test_it_is_used_again_if_nothing_has_changed(tmp_path: Path) -> None:
    lists = tmp_path / "l.json"
    lists.write_text("{}")
    about = {"k": ["1", "all"], "lists": file_digest(lists), "num_samples": None, "split": "test"}
    stage = Stage(command="certify", options={"threat": "synonyms"})
    run = make_run(tmp_path / "a", metrics={}, about={"certify_synonyms": about})
    assert missing(run, stage, settings(lists)) is None
    assert "num_samples" in str(missing(run, stage, settings(lists, num_samples=5)))
    assert "measured with k" in str(missing(run, stage, settings(lists, k=["2"])))
    assert missing(run, STAGE, settings(lists)) == "not measured"
    lists.write_text('{"good": ["fine"]}')
    assert "measured with lists" in str(missing(run, stage, settings(lists)))


def test_its_outcomes_are_found(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", metrics={})
    records = [
        {
            "sample_id": i,
            "label": 1,
            "prediction": prediction,
            "holds": {"1": held, "all": False},
            "checkpoint": digest(run.path)[:12],
        }
        for i, (prediction, held) in enumerate([(1, True), (1, False), (0, True), (1, True)])
    ]
    write_lines(run.path / "certificates_synonyms.jsonl", records)
    reader = _Reader(run)
    for metric, value, outcomes in (
        ("certify_synonyms/accuracy", 0.75, (1.0, 1.0, 0.0, 1.0)),
        ("certify_synonyms/accuracy@1", 0.5, (1.0, 0.0, 0.0, 1.0)),
        ("certify_synonyms/accuracy@all", 0.0, (0.0, 0.0, 0.0, 0.0)),
    ):
        found = reader.samples(metric, value)
        assert found is not None
        assert found.outcomes == outcomes
    assert reader.samples("certify_synonyms/cut", 0.0) is None
    assert isinstance(run, RunDirectory)


def test_it_is_not_compared_with_the_settings_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "check_start", lambda *_, **__: None)
    run = make_run(tmp_path / "a", metrics={})
    cell = Cell(row="r", corpus="", seed=0, run="a", config=(), settings={}, stages=(STAGE,))
    place = StudyContext(study="s", runs_dir=tmp_path, data_dir=None)
    work = runner.Work(settings={}, context=place, where=str(tmp_path))
    runner._check(cell, STAGE, run, settings(tmp_path / "l.json", seed_everything=0), work)
    with pytest.raises(ValueError, match="other settings"):
        runner._check(cell, STAGE, run, {"model": {"class_path": "x"}, "seed_everything": 0}, work)
