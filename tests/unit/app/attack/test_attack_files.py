import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.attack.attack_files import AttackFiles
from app.attack.attack_mean import Mean, former, mean_accuracy
from app.attack.attack_split import parts_of
from app.runs import results
from app.runs.run_directory import RunDirectory
from attacks.composition import Attack
from attacks.goals import Targeted
from attacks.resources.neighbours import VectorNeighbours
from attacks.resources.vectors import WordVectors
from attacks.search import Greedy
from attacks.summary import summarise
from attacks.transformations import EmbeddingSwap
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


def test_the_content_of_a_resource_is_a_setting(files: AttackFiles) -> None:
    def about(digest: str, target: int) -> dict[str, Any]:
        vectors = WordVectors(["a", "b"], np.eye(2, dtype=np.float32), digest=digest)
        swap = EmbeddingSwap(VectorNeighbours(vectors), 1)
        goal = Targeted(target=target)
        return parts_of(Attack(name="swap", transformation=swap, search=Greedy(), goal=goal))

    files.begin(about("first", 0))
    assert files.problem(about("first", 1)) is None  # the goal is a setting of the command
    problem = files.problem(about("second", 0))
    assert problem is not None
    assert 'attack.transformation.neighbours.vectors.digest "first" -> "second"' in problem


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
    with pytest.raises(
        ValueError,
        match=r"line 1, which cannot be read .* expected records of an attack",
    ):
        files.records()


PROTOCOL = {
    "checkpoint": "a1",
    "samples": "b2",
    "split": "test",
    "choice": "drawn",
    "goal": "untargeted",
    "score": "margin",
    "query_budget": None,
}


def file(run: RunDirectory, name: str, *, broken: int = 1, count: int = 4, **about: Any) -> Mean:
    """File an attack; returns the mean."""
    unreliable = about.pop("unreliable", False)
    records = [flipped(i) for i in range(broken)]
    records += [record(i, saturated=unreliable) for i in range(broken, count)]
    found = summarise(records, score="probability")
    about = {"recipe": name, **PROTOCOL, **about}
    AttackFiles(run, name).finish(about, 1.0, found)
    stage = f"attack/{name}"
    metrics = {f"{stage}/{key}": value for key, value in found.metrics().items()}
    mean = mean_accuracy(former(run, stage, metrics))
    metrics |= mean.metrics()
    results.merge(run.results_path, stage, identity=IDENTITY, metrics=metrics, seconds=1.0)
    return mean


def stored(run: RunDirectory) -> dict[str, float | None]:
    found = results.read(run.results_path)
    assert found is not None
    return found["metrics"]


def test_mean_accuracy_is_over_the_six(run: RunDirectory) -> None:
    one = file(run, "pwws")
    assert (one.value, one.line()) == (0.75, "")
    two = file(run, "bae", broken=3)
    assert two.line() == "mean accuracy under 2 attacks (bae, pwws): 0.500"
    assert stored(run)["attack/mean_accuracy"] == 0.5
    assert stored(run)["attack/mean_count"] == 2
    # What it may be compared with: the same samples without attack.
    assert stored(run)["attack/mean_clean_accuracy"] == 1
    assert stored(run)["attack/mean_samples"] == 4
    # Neither other settings of the same recipe, nor the baseline.
    file(run, "bae-budget", broken=0, query_budget=5)
    file(run, "random", broken=0)
    assert stored(run)["attack/mean_accuracy"] == 0.5
    assert stored(run)["attack/random/accuracy"] == 1


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"count": 8}, "bae and pwws differ in num_samples 4 -> 8"),
        ({"samples": "c3"}, 'differ in samples "b2" -> "c3"'),
        ({"choice": "first"}, 'differ in choice "drawn" -> "first"'),
        ({"goal": "positive"}, 'differ in goal "untargeted" -> "positive"'),
        ({"score": "probability"}, 'differ in score "margin" -> "probability"'),
        ({"query_budget": 50}, "differ in query_budget null -> 50"),
        ({"checkpoint": "a2"}, 'differ in checkpoint "a1" -> "a2"'),
    ],
)
def test_attacks_of_other_protocols_have_no_mean(
    run: RunDirectory, other: dict[str, Any], reason: str
) -> None:
    file(run, "bae")
    mean = file(run, "pwws", **other)
    assert mean.value is None
    assert mean.line().startswith("no mean accuracy under 2 attacks (bae, pwws): bae and pwws ")
    assert reason in mean.line()
    assert not [name for name in stored(run) if name.startswith("attack/mean_")]
    # Under the same protocol again, there is one.
    assert file(run, "pwws", broken=3).value == 0.5


def test_an_attack_whose_settings_are_lost_is_in_no_mean(run: RunDirectory) -> None:
    file(run, "bae")
    AttackFiles(run, "bae").side.unlink()
    assert "differ in checkpoint null" in file(run, "pwws").line()


def test_an_unreliable_figure_takes_the_place_of_a_former_one(run: RunDirectory) -> None:
    file(run, "pwws")
    file(run, "pwws", unreliable=True)
    found = stored(run)
    assert "attack/pwws/accuracy" not in found
    assert found["attack/pwws/unreliable_accuracy"] == 0.75
    assert "attack/mean_accuracy" not in found
    file(run, "pwws")
    assert "attack/pwws/unreliable_accuracy" not in stored(run)
    assert stored(run)["attack/mean_accuracy"] == 0.75
