import os
import re
from pathlib import Path

import pytest

from run_files import run_directory
from run_files.run_directory import NAME_VARIABLE, RunDirectory


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME_VARIABLE, raising=False)
    for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_config(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "a")
    run.write_config({"b": 1, "a": {"c": [1.5, None, "x"]}})
    assert run.begun
    assert not RunDirectory(tmp_path / "b").begun
    assert run.name == "a"
    assert run.config() == {"b": 1, "a": {"c": [1.5, None, "x"]}}


@pytest.mark.parametrize("content", ["", "- a", "a: ]"])
def test_damaged_config(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(ValueError, match="expected settings of a run"):
        RunDirectory(tmp_path).config()


def test_of_checkpoint(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "a")
    assert run_directory.of_checkpoint(run.best) is None
    run.write_config({})
    found = run_directory.of_checkpoint(run.best)
    assert found is not None
    assert found.path == run.path
    assert run_directory.of_checkpoint(run.path / "best.ckpt") is None


def test_existing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there are no runs"):
        run_directory.existing(tmp_path, "a")
    RunDirectory(tmp_path / "b").write_config({})
    RunDirectory(tmp_path / "c").write_config({})
    with pytest.raises(FileNotFoundError, match="there are: b, c"):
        run_directory.existing(tmp_path, "a")
    assert run_directory.existing(tmp_path, "b").name == "b"


def test_fresh_names_differ(tmp_path: Path) -> None:
    names = set()
    for _ in range(3):
        name = run_directory.fresh_name(tmp_path, "OLSA", "Reviews")
        assert re.fullmatch(r"[\d-]{10}_[\d-]{8}_OLSA_Reviews(_\d)?", name)
        (tmp_path / name).mkdir()
        names.add(name)
    assert len(names) == 3


@pytest.mark.parametrize(
    ("variable", "value"), [("WORLD_SIZE", "2"), ("SLURM_STEP_NUM_TASKS", "8"), ("NODE_RANK", "1")]
)
def test_started_processes_take_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match="give one: --run NAME"):
        run_directory.fresh_name(tmp_path, "OLSA", "Reviews")
    monkeypatch.setenv(NAME_VARIABLE, "given")
    assert run_directory.fresh_name(tmp_path, "OLSA", "Reviews") == "given"


def test_lock(tmp_path: Path) -> None:
    one, two = RunDirectory(tmp_path / "a"), RunDirectory(tmp_path / "a")
    one.lock()
    with pytest.raises(ValueError, match="another process trains or measures it"):
        two.lock()
    one.unlock()
    two.lock()
    two.unlock()


@pytest.mark.parametrize("folder", ["", "attacks", "checkpoints"])
def test_unfinished_files_of_killed_commands_go(tmp_path: Path, folder: str) -> None:
    run = RunDirectory(tmp_path / "a")
    part = run.path / folder / ".x.jsonl.1.part"
    part.parent.mkdir(parents=True)
    part.touch()
    os.utime(part, (0, 0))
    run.lock()
    run.unlock()
    assert not part.exists()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="/file is a file, expected a folder; choose another"):
        RunDirectory(tmp_path / name).lock()
