import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.composition import Attack
from attacks.goals import Targeted
from attacks.resources.neighbours import VectorNeighbours
from attacks.resources.vectors import WordVectors
from attacks.search import Greedy
from attacks.summary import summarise
from attacks.transformations import EmbeddingSwap
from measure.attack_mean import Mean, mean_accuracy, read_accuracies
from measure.text_attack import ELSEWHERE, parts_of
from run_files import results
from run_files.ledger import Ledger, attack_ledger
from run_files.run_directory import RunDirectory
from tests.unit.attacks.outcomes import flipped, record

ABOUT = {"recipe": "pwws", "seed": 0, "columns": ["text"]}
IDENTITY = {"run": "a", "method": "OLSA", "corpus": "sst2", "seed": 0}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "a")


@pytest.fixture
def ledger(run: RunDirectory) -> Ledger:
    return attack_ledger(run, "pwws")


def problem_of(ledger: Ledger, subject: dict[str, Any]) -> str:
    problem = ledger.problem(subject, ELSEWHERE)
    assert problem is not None
    assert "\n" not in problem
    return problem


def test_a_new_attack(ledger: Ledger) -> None:
    assert ledger.problem(ABOUT, ELSEWHERE) is None
    assert ledger.seconds() == 0
    assert ledger.records() == []
    ledger.begin(ABOUT)
    assert ledger.problem(ABOUT, ELSEWHERE) is None


def test_an_attack_is_resumed(ledger: Ledger) -> None:
    summary = summarise([record()], score="margin").line()
    ledger.begin(ABOUT)
    ledger.finish(ABOUT, 20.0, summary)
    ledger.begin(ABOUT)  # more samples: what there is stays
    content = json.loads(ledger.path.read_text())
    assert content == {"about": ABOUT, "seconds": 20.0, "summary": summary}


def test_other_settings_are_named(ledger: Ledger) -> None:
    ledger.begin(ABOUT)
    problem = problem_of(ledger, {**ABOUT, "seed": 1, "columns": ("text",)})
    assert "seed 0 -> 1;" in problem
    assert "columns" not in problem
    assert "--attack.tag" in problem


def test_the_content_of_a_resource_is_a_setting(ledger: Ledger) -> None:
    def about(digest: str, target: int) -> dict[str, Any]:
        vectors = WordVectors(["a", "b"], np.eye(2, dtype=np.float32), digest=digest)
        swap = EmbeddingSwap(VectorNeighbours(vectors), 1)
        goal = Targeted(target=target)
        return parts_of(Attack(name="swap", transformation=swap, search=Greedy(), goal=goal))

    ledger.begin(about("first", 0))
    # The goal is a setting of the command.
    assert ledger.problem(about("first", 1), ELSEWHERE) is None
    problem = problem_of(ledger, about("second", 0))
    assert 'attack.transformation.neighbours.vectors.digest "first" -> "second"' in problem


def test_what_is_known_is_compared(ledger: Ledger) -> None:
    ledger.begin(ABOUT)
    assert ledger.problem({"recipe": "pwws"}, ELSEWHERE) is None
    assert ledger.problem({"recipe": "bae"}, ELSEWHERE) is not None


def test_records_of_unknown_origin_are_not_overwritten(ledger: Ledger) -> None:
    ledger.records_path.parent.mkdir(parents=True)
    ledger.records_path.write_text(json.dumps(record().line()) + "\n")
    assert "without pwws.json" in problem_of(ledger, ABOUT)


@pytest.mark.parametrize("content", ["{", "[]", '{"about": 1}', ""])
def test_an_unreadable_entry(ledger: Ledger, content: str) -> None:
    ledger.path.parent.mkdir(parents=True)
    ledger.path.write_text(content)
    assert "unreadable content" in problem_of(ledger, ABOUT)


def test_unreadable_records(ledger: Ledger) -> None:
    ledger.records_path.parent.mkdir(parents=True)
    ledger.records_path.write_text("{\n")
    with pytest.raises(
        ValueError, match=r"line 1, which cannot be read .* expected records of a measurement"
    ):
        ledger.records()


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
    ledger = attack_ledger(run, name)
    ledger.records_path.parent.mkdir(parents=True, exist_ok=True)
    ledger.records_path.write_text("".join(json.dumps(r.line()) + "\n" for r in records))
    ledger.finish(about, 1.0, found.line())
    stage = f"attack/{name}"
    metrics = {f"{stage}/{key}": value for key, value in found.metrics().items()}
    mean = mean_accuracy(read_accuracies(run, stage, metrics))
    metrics |= mean.metrics()
    results.merge(run.results_path, stage, identity=IDENTITY, metrics=metrics, seconds=1.0)
    return mean


def stored(run: RunDirectory) -> dict[str, float | None]:
    found = results.read(run.results_path)
    assert found is not None
    return found["metrics"]


@pytest.mark.parametrize(
    "about", [{"threat": {"name": "characters", "k": "1", "digest": "c3"}}, {"positive": "spam"}]
)
def test_attacks_of_another_set_of_texts_have_no_mean(
    run: RunDirectory, about: dict[str, Any]
) -> None:
    file(run, "pwws")
    mean = file(run, "bae", **about)
    assert mean.value is None
    assert mean.reason.startswith(f"bae and pwws differ in {next(iter(about))}")
    assert "attack/mean_accuracy" not in stored(run)
    assert "attack/worst_accuracy" not in stored(run)


def test_mean_accuracy_is_over_the_six(run: RunDirectory) -> None:
    one = file(run, "pwws")
    assert (one.value, one.line()) == (0.75, "")
    two = file(run, "bae", broken=3)
    assert two.line() == (
        "mean accuracy under 2 attacks (bae, pwws): 0.500, under the worst of them for each text: "
        "0.250"
    )
    assert stored(run)["attack/worst_accuracy"] == 0.25
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


def test_the_worst_attack_of_each_text(run: RunDirectory) -> None:
    assert file(run, "pwws", broken=2).worst == 0.5
    # The same texts are broken: more attacks change nothing, where a product of shares would.
    assert file(run, "bae", broken=2).worst == 0.5
    assert file(run, "textfooler", broken=0).worst == 0.5
    attack_ledger(run, "bae").records_path.unlink()
    mean = file(run, "textfooler", broken=3)
    assert mean.value == pytest.approx(1.25 / 3)
    assert mean.worst is None
    assert "attack/worst_accuracy" not in stored(run)
    assert "worst" not in mean.line()


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
        ({"threat": {"name": "words", "k": "1"}}, "differ in threat null"),
        ({"positive": "spam"}, 'differ in positive null -> "spam"'),
        ({"delta": 0.5}, "differ in delta null -> 0.5"),
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
    attack_ledger(run, "bae").path.unlink()
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
