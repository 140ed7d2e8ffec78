"""`transfer` as a stage of a study: `attack pairs` with the run that comes first."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.commands.attack_pairs import parser
from app.study.cell_check import _plainly
from app.study.cells import StudyContext, command_line
from app.study.reuse import missing
from app.study.study import Cell, Stage
from attacks.digests import file_digest
from run_files.run_directory import RunDirectory
from tests.unit.app.study.run_samples import digest, make_run, write_attack

STAGE = Stage(command="transfer", options={"attack": "pwws,textfooler"})


def cell(after: str | None) -> Cell:
    whole: dict[str, Any] = {"corpus": "", "seed": 1, "config": (), "settings": {}}
    return Cell(row="r", run="s-r-s1", stages=(STAGE,), after=after, **whole)


def test_its_command_reads_the_texts_of_the_first_run(tmp_path: Path) -> None:
    place = StudyContext(study="s", runs_dir=tmp_path)
    words = command_line(cell("s-plain-s1"), STAGE, place)
    assert words[:5] == ["attack", "pairs", "--run", "s-plain-s1", "s-r-s1"]
    read = _plainly(parser(), words[1:])
    assert (read["run"], read["attack"]) == (["s-plain-s1", "s-r-s1"], "pwws,textfooler")
    assert read["runs_dir"] == str(tmp_path)
    # The first run reads its own texts.
    assert command_line(cell(None), STAGE, place)[2:4] == ["--run", "s-r-s1"]


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (None, "transfer of pwws is not measured"),
        ({}, None),
        ({"plain": "other"}, "measured with sources"),
        ({"r": "other"}, "measured with sources"),
    ],
)
def test_it_is_used_again_if_both_weights_are_the_same(
    tmp_path: Path, stored: dict[str, str] | None, reason: str | None
) -> None:
    first = make_run(tmp_path / "plain", metrics={})
    own = hashlib.sha256(b"r").hexdigest()  # of the weights that `make_run` writes
    sources = {"plain": digest(first.path), "r": own, **(stored or {})}
    about = {"checkpoint": own, "sources": sources}
    names = () if stored is None else ("transfer/pwws", "transfer/textfooler")
    run = make_run(tmp_path / "r", metrics={}, about=dict.fromkeys(names, about))
    # The parsed settings are those of the first seed.
    settings = {"run": ["plain", "of another seed"], "attack": "pwws, textfooler"}
    said = missing(run, STAGE, settings)
    assert said is None if reason is None else reason in str(said)


@pytest.mark.parametrize(
    ("order", "reason"), [(("plain", "r"), None), (("r", "plain"), "measured with sources")]
)
def test_the_transfer_of_another_row_has_the_figures_of_the_first_run(
    tmp_path: Path, order: tuple[str, str], reason: str | None
) -> None:
    own = hashlib.sha256(b"plain").hexdigest()  # of the weights that `make_run` writes
    about = {"checkpoint": own, "sources": dict.fromkeys(order, "other") | {"plain": own}}
    make_run(tmp_path / "plain", metrics={}, about={"transfer/pwws": about})
    run = RunDirectory(tmp_path / "plain")
    stage = Stage(command="transfer", options={"attack": "pwws"})
    said = missing(run, stage, {"run": ["plain"], "attack": "pwws"})
    assert said is None if reason is None else reason in str(said)


def test_it_is_measured_again_if_an_attack_has_other_texts(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, metrics={}) for name in ("plain", "r")]
    for run in runs:
        write_attack(run, "pwws", "10", "10", "10")
    checkpoints = {run.name: digest(run.path) for run in runs}
    records = {run.name: file_digest(run.path / "attacks/pwws.jsonl") for run in runs}
    about = {"checkpoint": checkpoints["r"], "sources": checkpoints, "records": records}
    shutil.rmtree(runs[1].path)
    run = make_run(tmp_path / "r", metrics={}, about={"transfer/pwws": about})
    write_attack(run, "pwws", "10", "10", "10")
    stage = Stage(command="transfer", options={"attack": "pwws"})
    settings = {"run": ["plain", "r"], "attack": "pwws"}
    assert missing(run, stage, settings) is None
    # The first run was attacked on more texts.
    write_attack(runs[0], "pwws", "1010", "1010", "1010")
    assert "measured with records" in str(missing(run, stage, settings))
