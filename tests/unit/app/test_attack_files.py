import json
from pathlib import Path

import pytest

from app import results
from app.attack import mean_accuracy
from app.attack_files import AttackFiles
from app.run_directory import RunDirectory
from attacks.summary import summarise
from tests.unit.attacks.outcomes import flipped, record

ABOUT = {"recipe": "pwws", "seed": 0, "columns": ["text"]}
IDENTITY = {"run": "a", "method": "OLSA", "corpus": "sst2", "seed": 0}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "a")


@pytest.fixture
def files(run: RunDirectory) -> AttackFiles:
    return AttackFiles(run, "pwws")


def test_a_new_attack(files: AttackFiles) -> None:
    assert files.problem(ABOUT) is None
    assert files.seconds() == 0
    assert files.records() == []
    files.begin(ABOUT)
    assert files.problem(ABOUT) is None


def test_an_attack_goes_on(files: AttackFiles) -> None:
    files.begin(ABOUT)
    files.pause(ABOUT, 12.5)
    assert files.seconds() == 12.5
    summary = summarise([record()], score="margin")
    files.finish(ABOUT, 20.0, summary)
    files.begin(ABOUT)  # more samples: what there is stays
    content = json.loads(files.side.read_text())
    assert content == {"about": ABOUT, "seconds": 20.0, "summary": summary.line()}
    files.pause(ABOUT, 25.0)
    assert json.loads(files.side.read_text())["summary"] == summary.line()


def test_other_settings_are_named(files: AttackFiles) -> None:
    files.begin(ABOUT)
    problem = files.problem({**ABOUT, "seed": 1, "columns": ("text",)})
    assert problem is not None
    assert "seed 0 -> 1;" in problem
    assert "columns" not in problem
    assert "--attack.tag" in problem
    assert "\n" not in problem


def test_what_is_known_is_compared(files: AttackFiles) -> None:
    files.begin(ABOUT)
    assert files.problem({"recipe": "pwws"}) is None
    assert files.problem({"recipe": "bae"}) is not None


def test_records_of_unknown_origin_are_not_overwritten(files: AttackFiles) -> None:
    files.outcome.parent.mkdir(parents=True)
    files.outcome.write_text(json.dumps(record().line()) + "\n")
    problem = files.problem(ABOUT)
    assert problem is not None
    assert "without pwws.json" in problem


@pytest.mark.parametrize("content", ["{", "[]", '{"about": 1}', ""])
def test_an_unreadable_side_file(files: AttackFiles, content: str) -> None:
    files.side.parent.mkdir(parents=True)
    files.side.write_text(content)
    problem = files.problem(ABOUT)
    assert problem is not None
    assert "unreadable content" in problem


def test_unreadable_records(files: AttackFiles) -> None:
    files.outcome.parent.mkdir(parents=True)
    files.outcome.write_text("{\n")
    with pytest.raises(ValueError, match="unreadable line, expected records: delete it"):
        files.records()


def metrics(name: str, *, unreliable: bool = False, broken: int = 1) -> dict[str, float]:
    records = [flipped(i) for i in range(broken)]
    records += [record(i, saturated=unreliable) for i in range(broken, 4)]
    found = summarise(records, score="probability").metrics()
    return {f"attack/{name}/{key}": value for key, value in found.items()}


def file(run: RunDirectory, name: str, found: dict[str, float]) -> dict[str, float | None]:
    stage = f"attack/{name}"
    merged = results.merge(
        run.results_path,
        stage,
        identity=IDENTITY,
        metrics=found | mean_accuracy(run, stage, found),
        seconds=1.0,
    )
    return merged["metrics"]


def test_mean_accuracy_is_over_the_six(run: RunDirectory) -> None:
    assert file(run, "pwws", metrics("pwws"))["attack/mean_accuracy"] == 0.75
    found = file(run, "bae", metrics("bae", broken=3))
    assert found["attack/mean_accuracy"] == 0.5
    assert found["attack/mean_count"] == 2
    # Neither other settings of the same recipe, nor the baseline.
    found = file(run, "bae-budget", metrics("bae-budget", broken=0))
    found = file(run, "random", metrics("random", broken=0))
    assert found["attack/mean_accuracy"] == 0.5
    assert found["attack/random/accuracy"] == 1


def test_an_unreliable_figure_takes_the_place_of_a_former_one(run: RunDirectory) -> None:
    file(run, "pwws", metrics("pwws"))
    found = file(run, "pwws", metrics("pwws", unreliable=True))
    assert "attack/pwws/accuracy" not in found
    assert found["attack/pwws/unreliable_accuracy"] == 0.75
    assert "attack/mean_accuracy" not in found
    found = file(run, "pwws", metrics("pwws"))
    assert "attack/pwws/unreliable_accuracy" not in found
    assert found["attack/mean_accuracy"] == 0.75
