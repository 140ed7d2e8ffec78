import json
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.study.study import StudyError
from run_files.results import write
from run_files.run_directory import RunDirectory
from tests.run_command import run_command
from tests.unit.app.study.run_samples import (
    SETTINGS,
    digest,
    make_run,
    write_attack,
    write_lines,
    write_pgd,
)

main = partial(run_command, "compare")

GOLD = "1" * 40


def answers(right: int) -> str:
    return "1" * right + "0" * (40 - right)


def run(
    name: str, seed: int, right: int, *, gamma: float = 0.5, rows: str = "rows", more: Any = ()
) -> RunDirectory:
    settings: dict[str, Any] = deepcopy(SETTINGS)
    settings["model"]["init_args"]["objective"]["gamma"] = gamma
    settings["model"]["init_args"]["init_from"] = f"runs/study-pretrained-s{seed}/x.ckpt"
    settings["trainer"]["accelerator"] = f"any {seed}"
    made = make_run(
        Path("runs") / name,
        seed=seed,
        metrics={"test/accuracy": right / 40, "test/loss": 0.5, **dict(more)},
        settings=settings,
        rows=rows,
    )
    write_pgd(made, GOLD, answers(right), answers(right))
    return made


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cells(text: str) -> list[list[str]]:
    return [
        [part.strip() for part in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_seeds_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1, 10):
        run(f"plain-s{seed}", seed, 10 + seed)
        run(f"strong-s{seed}", seed, 30 + seed % 3, gamma=2.0)
    names = [f"{name}-s{seed}" for name in ("plain", "strong") for seed in (0, 1, 10)]
    assert main(["--run", *names]) == 0
    printed = capsys.readouterr().out
    lines = cells(printed)
    assert ["", "test/accuracy, %"] in lines
    assert ["plain", "34.2 ± 13.8"] in lines
    difference = next(line for line in lines if line[:1] == ["strong"] and len(line) > 2)
    assert difference[2].startswith("+42.5 [")
    assert difference[3] == "< 0.001"
    # All that differs, and nothing else: neither seeds nor what a run computes on.
    assert lines[lines.index(["setting", "plain", "strong"]) + 2 :] == [
        ["model.objective.gamma", "0.5", "2.0"]
    ]


def test_runs_of_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    run("a", 0, 20)
    run("b", 0, 21, gamma=1.0)
    assert main(["--run", "a", "b", "a"]) == 0
    printed = capsys.readouterr().out
    assert ["a", "50.0"] in cells(printed)
    assert "McNemar" in printed


@pytest.mark.long
def test_metrics_and_formats(capsys: pytest.CaptureFixture[str]) -> None:
    run("a", 0, 20)
    run("b", 0, 21, gamma=1.0)
    assert main(["--run", "a", "b", "--metrics", "test/loss", "test/accuracy"]) == 0
    printed = capsys.readouterr().out
    assert ["", "test/loss", "test/accuracy, %"] in cells(printed)
    assert "not tested as a whole, and get no mark" in " ".join(printed.split())
    assert main(["--run", "a", "b", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("kind,")
    assert main(["--run", "a", "b", "--format", "latex"]) == 0
    assert "model.objective.gamma & 0.5 & 1.0" in capsys.readouterr().out
    with pytest.raises(StudyError, match=r"test/f1, which no run has, expected some of test/acc"):
        main(["--run", "a", "b", "--metrics", "test/f1"])


def test_other_test_sets_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    run("a", 0, 20)
    run("b", 0, 40, gamma=1.0, rows="others")
    assert main(["--run", "a", "b"]) == 0
    printed = capsys.readouterr().out
    assert "p texts" not in printed
    said = "test/accuracy, %: b and a are not compared: measured with other rows of test."
    assert said in printed


def attacked(name: str, right: int, *, gamma: float, flag: str = "", **about: Any) -> None:
    figure = f"attack/pwws/{flag}accuracy"
    more = {figure: right / 80, "attack/pwws/samples": 40}
    made = run(name, 0, right, gamma=gamma, more=more)
    fooled = "1" * (right // 2) + "0" * (40 - right // 2)
    write_attack(made, "pwws", GOLD, answers(right), fooled, **about)
    content = made.results()
    assert content is not None
    content["about"]["attack/pwws"] = {**content["about"]["test"], **about}
    write(made.results_path, content)


def test_attacks_of_other_settings_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    attacked("a", 20, gamma=0.5, score="margin", goal="untargeted")
    attacked("b", 30, gamma=1.0, score="probability", goal="untargeted", flag="unreliable_")
    attacked("c", 30, gamma=2.0, score="margin", goal="untargeted", program="2.0")
    assert main(["--run", "a", "b", "c"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "| b | 75.0 | 37.5† |" in printed.replace("▲", "")
    said = "b and a are not compared: measured with score margin and probability."
    assert f"attack/pwws/accuracy, %: {said}" in printed
    assert "**Differences from: a** | row" in printed
    assert "| c | attack/pwws/accuracy, % | +12.5 [" in printed


def test_the_place_of_lists_does_not_count_but_their_content_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metric = "certify_synonyms/accuracy@1"
    for gamma, name in ((0.5, "a"), (1.0, "b"), (2.0, "c")):
        lists, held = ("2" if name == "c" else "1"), int(20 * gamma)
        made = run(name, 0, 20, gamma=gamma, more={metric: gamma / 2})
        content = made.results()
        assert content is not None
        about = {"lists": lists, "threat_from": {"lists": f"{name}/lists.json", "words": "ascii"}}
        content["about"]["certify_synonyms"] = {**content["about"]["test"], **about}
        write(made.results_path, content)
        known = {"label": 1, "prediction": 1, "checkpoint": digest(made.path)[:12]}
        records = [{"sample_id": 10 * i, "holds": {"1": i < held}, **known} for i in range(40)]
        write_lines(made.path / "certificates_synonyms.jsonl", records)
    assert main(["--run", "a", "b", "c", "--metrics", metric]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "c and a are not compared: measured with lists 1 and 2" in printed
    assert "| b | certify_synonyms/accuracy@1, % | +25.0 [" in printed


def test_means_over_other_attacks_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    for name, gamma, score in (("a", 0.5, "margin"), ("b", 1.0, "probability")):
        attacked(name, 20, gamma=gamma, score=score)
        content = RunDirectory(Path("runs") / name).results()
        assert content is not None
        content["metrics"]["attack/mean_accuracy"] = content["metrics"]["attack/pwws/accuracy"]
        write(RunDirectory(Path("runs") / name).results_path, content)
    assert main(["--run", "a", "b", "--metrics", "attack/mean_accuracy"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "b and a are not compared: measured with score of pwws margin and probab" in printed


def test_seeds_that_were_measured_otherwise_are_not_averaged() -> None:
    for seed in (0, 1):
        run(f"a-s{seed}", seed, 20, rows=f"rows of {seed}")
    run("b", 0, 20, gamma=2.0)
    with pytest.raises(StudyError) as error:
        main(["--run", "a-s0", "a-s1", "b"])
    for said in ("a-s0 and a-s1", "differ only by the seed", "other rows of test", "--metrics"):
        assert said in str(error.value)


def test_wrong_runs() -> None:
    run("a", 0, 20)
    with pytest.raises(StudyError, match="got 1 run, expected at least two different ones"):
        main(["--run", "a", "a"])
    with pytest.raises(FileNotFoundError, match="there are: a"):
        main(["--run", "a", "absent"])
    run("b", 0, 20).results_path.unlink()
    with pytest.raises(StudyError, match="`python -m steadfast test --run b`"):
        main(["--run", "a", "b"])


def test_the_same_run_twice() -> None:
    run("a", 0, 20)
    run("copy", 0, 20)
    with pytest.raises(StudyError, match="got runs a and copy, both"):
        main(["--run", "a", "copy"])


def read_texts(name: str, source: str, *, gamma: float, score: str = "margin") -> None:
    """A run that has read the texts of an attack on another run."""
    more = {"transfer/pwws/accuracy": 0.5, "transfer/pwws/samples": 40}
    made = run(name, 0, 20, gamma=gamma, more=more)
    content = made.results()
    assert content is not None
    content["about"]["attack/pwws"] = {**content["about"]["test"], "score": score}
    sources = {source: "weights of the source", name: digest(made.path)}
    content["about"]["transfer/pwws"] = {"checkpoint": digest(made.path), "sources": sources}
    write(made.results_path, content)


def test_texts_of_other_attacks_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    read_texts("a", "plain", gamma=0.5)
    read_texts("b", "plain", gamma=1.0)
    read_texts("c", "plain", gamma=2.0, score="probability")
    read_texts("d", "other", gamma=3.0)
    assert main(["--run", *"abcd", "--metrics", "transfer/pwws/accuracy"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "b and a are not compared" not in printed
    assert "c and a are not compared: measured with score margin and probability" in printed
    assert "d and a are not compared: measured with texts of plain and other" in printed


def test_diagnoses_with_other_options_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    for name, pairs in (("a", 30), ("b", 30), ("c", 99)):
        made = run(name, 0, 20, gamma=float(pairs + ord(name)))
        diagnosis = {"distances": {"mean": 0.5}, "options": {"num_pairs": pairs}}
        diagnosis["weights"] = {"checkpoint": digest(made.path)}
        text = json.dumps({"run": name, "attacks": {"pwws": diagnosis}})
        (made.path / "diagnostics.json").write_text(text)
    assert main(["--run", *"abc", "--metrics", "diagnose/pwws/distances/mean"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "b and a are not compared" not in printed
    assert "c and a are not compared: measured with num_pairs 30 and 99" in printed


def test_attacks_inside_a_threat_stand_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """`results.json` does not have the threat; the file of the attack does."""
    for name, threat in (("a", None), ("b", None), ("c", {"name": "words", "k": "1"})):
        attacked(name, 20, gamma=float(ord(name)), score="margin")
        path = Path("runs") / name / "attacks" / "pwws.json"
        content = json.loads(path.read_text())
        if threat is not None:
            content["about"]["threat"] = {**threat, "digest": "of the words of the model"}
        path.write_text(json.dumps(content))
    assert main(["--run", *"abc", "--metrics", "attack/pwws/accuracy"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "b and a are not compared" not in printed
    assert "c and a are not compared: measured with threat.k null and 1, threat.name" in printed
