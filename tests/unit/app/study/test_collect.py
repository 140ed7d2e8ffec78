import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.study.collect import collect, collect_run
from app.study.study import Cell, CellFigures, Column, Stage, StudyError
from run_files.run_directory import RunDirectory
from tests.unit.app.study.run_samples import digest, make_run, write_attack, write_lines, write_pgd
from tests.unit.app.study.study_samples import ACCURACY, ATTACKED, NEWS, SST2, study

LABELS, ANSWERS, STOOD = "10110", "10100", "10000"


def collected(run: Path, *metrics: str) -> CellFigures:
    columns = [Column(name=metric, title=metric, metric=metric) for metric in metrics]
    return make_figures(run, columns)


def make_figures(path: Path, columns: list[Column]) -> CellFigures:
    return collect_run(RunDirectory(path), columns, row="a", corpus="sst2", seed=0)


def test_accuracy_without_and_under_pgd(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={"test/accuracy": 0.8, "test/pgd_accuracy": 0.4})
    write_pgd(run, LABELS, ANSWERS, STOOD)
    found = collected(run.path, "test/accuracy")
    assert found.values == {"test/accuracy": 0.8}
    assert list(found.outcomes["test/accuracy"]) == [1, 1, 1, 0, 1]
    assert found.labels == {"test/accuracy": (1, 0, 1, 1, 0)}
    assert found.predictions == {"test/accuracy": (1, 0, 1, 0, 0)}
    assert found.ids == {"test/accuracy": (0, 1, 2, 3, 4)}
    assert found.collapsed is False
    assert found.weights == digest(run.path)
    assert found.data == {"test": "rows of the test"}
    assert found.seconds == {"fit": 2.0, "test": 1.0}
    write_pgd(run, LABELS, ANSWERS, "10001")
    assert collected(run.path, "test/pgd_accuracy").outcomes["test/pgd_accuracy"] == (1, 0, 0, 0, 1)


def test_predictions_when_there_is_no_pgd(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={"test/accuracy": 0.5})
    assert collected(run.path, "test/accuracy").outcomes == {}
    stamp = {"checkpoint": digest(run.path)[:12]}
    lines: list[dict[str, Any]] = [
        {"sample_id": 0, "label": 1, "prediction": 1, **stamp},
        {"sample_id": 1, "label": 1, "prediction": 0, **stamp},
    ]
    write_lines(run.path / "predictions.jsonl", lines)
    assert collected(run.path, "test/accuracy").outcomes == {"test/accuracy": (1, 0)}
    # Without labels there is nothing to compare.
    write_lines(
        run.path / "predictions.jsonl",
        [{key: value for key, value in line.items() if key != "label"} for line in lines],
    )
    assert collected(run.path, "test/accuracy").outcomes == {}
    # Nor are tags of words a figure for each sample.
    tags = [{**line, "label": [1, 0], "prediction": [1, 1]} for line in lines]
    write_lines(run.path / "predictions.jsonl", tags)
    assert collected(run.path, "test/accuracy").outcomes == {}


def test_a_correlation(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={"test/spearman": 0.8, "test/pearson": None})
    stamp = {"checkpoint": digest(run.path)[:12]}
    write_lines(
        run.path / "predictions.jsonl",
        [
            {"sample_id": i, "label": gold, "prediction": answer, **stamp}
            for i, (gold, answer) in enumerate([(0.0, 0.5), (1.5, 0.7), (3.0, 2.5), (5.0, 2.0)])
        ],
    )
    found = collected(run.path, "test/spearman", "test/pearson")
    assert found.outcomes == {"test/spearman": (0.5, 0.7, 2.5, 2.0)}
    assert found.labels == {"test/spearman": (0.0, 1.5, 3.0, 5.0)}
    assert found.values["test/pearson"] is None


def test_certificates(tmp_path: Path) -> None:
    metrics = {
        "certify/radius": 0.75,
        "certify/radius_correct": 0.5,
        "certify/accuracy@0": 0.75,
        "certify/accuracy@0.5": 0.25,
    }
    run = make_run(tmp_path / "r", metrics=metrics)
    write_lines(
        run.path / "certificates.jsonl",
        [
            {"sample_id": i, "label": 1, "prediction": p, "radius": r}
            for i, (p, r) in enumerate([(1, 1.5), (1, 0.5), (0, 1.0), (1, 0.0)])
        ],
    )
    found = collected(run.path, *metrics)
    assert found.outcomes == {
        "certify/radius": (1.5, 0.5, 1.0, 0.0),
        "certify/radius_correct": (1.5, 0.5, 0.0, 0.0),
        "certify/accuracy@0": (1, 1, 0, 1),
        "certify/accuracy@0.5": (1, 0, 0, 0),
    }
    assert len(set(found.samples.values())) == 1


@pytest.mark.parametrize("name", ["textfooler", "textfooler-probability"])
def test_an_attack(tmp_path: Path, name: str) -> None:
    metrics = {f"attack/{name}/accuracy": 0.4, f"attack/{name}/clean_accuracy": 0.8}
    run = make_run(tmp_path / "r", metrics=metrics, about={f"attack/{name}": {}})
    write_attack(run, name, LABELS, ANSWERS, "01100")
    found = collected(run.path, *metrics)
    # In the order of the ids, whatever that of the lines.
    assert found.outcomes[f"attack/{name}/accuracy"] == (1, 0, 0, 0, 1)
    assert found.outcomes[f"attack/{name}/clean_accuracy"] == (1, 1, 1, 0, 1)
    assert found.unreliable == ()
    queries = collected(run.path, f"attack/{name}/queries")
    assert queries.values == {}


def test_the_mean_of_attacks(tmp_path: Path) -> None:
    metrics = {
        "attack/pwws/accuracy": 0.6,
        "attack/textfooler/accuracy": 0.4,
        "attack/pwws-probability/accuracy": 0.0,
        "attack/mean_accuracy": 0.5,
        "attack/worst_accuracy": 0.2,
    }
    run = make_run(tmp_path / "r", metrics=metrics)
    write_attack(run, "textfooler", LABELS, ANSWERS, "01100")
    assert collected(run.path, "attack/mean_accuracy").outcomes == {}
    write_attack(run, "pwws", LABELS, ANSWERS, "00001")
    figures = collected(run.path, *metrics)
    assert figures.values == metrics
    assert list(figures.outcomes["attack/pwws/accuracy"]) == [1, 1, 1, 0, 0]
    assert list(figures.outcomes["attack/mean_accuracy"]) == [1, 0.5, 0.5, 0, 0.5]
    assert list(figures.outcomes["attack/worst_accuracy"]) == [1, 0, 0, 0, 0]
    # A mean that is not that of these attacks has no outcomes.
    run = make_run(tmp_path / "older", metrics={**metrics, "attack/mean_accuracy": 0.4})
    write_attack(run, "textfooler", LABELS, ANSWERS, "01100")
    write_attack(run, "pwws", LABELS, ANSWERS, "00001")
    assert collected(run.path, "attack/mean_accuracy").outcomes == {}


def collected_mean(runs: Path, run: str, recipe: str) -> CellFigures:
    """The mean and the worst of the attacks that a study asks for."""
    columns = [Column(name=n, title=n, metric=f"attack/{n}_accuracy") for n in ("mean", "worst")]
    stages = (Stage(command="fit"), Stage(command="attack", options={"recipe": recipe}))
    cell = Cell(row="a", corpus="sst2", seed=0, run=run, config=(), settings={}, stages=stages)
    return collect(study(columns=columns, compared=()), cell, runs)


def test_how_figures_were_measured(tmp_path: Path) -> None:
    metrics = {"attack/pwws/accuracy": 0.6, "attack/mean_accuracy": 0.6}
    metrics |= {"test/accuracy": 0.8, "test/pgd_accuracy": 0.4}
    about = {"test": {"pgd": {"epsilon": 0.5}}}
    run = make_run(tmp_path / "r", metrics=metrics, about=about)
    threat = {"name": "words", "k": "2", "digest": "of the words of the model"}
    write_attack(run, "pwws", LABELS, ANSWERS, "00001", score="margin", threat=threat)
    attack = {"score": "margin", "threat.name": "words", "threat.k": "2"}
    found = collected(run.path, *metrics).protocols
    assert found["attack/pwws/accuracy"].items() >= attack.items()
    assert found["test/pgd_accuracy"] == {"pgd": {"epsilon": 0.5}}
    assert "test/accuracy" not in found
    write_attack(run, "pwws", LABELS, ANSWERS, "00001", score="margin")
    outside = collected(run.path, *metrics).protocols["attack/pwws/accuracy"]
    assert outside.items() >= {"threat.name": None, "threat.k": None}.items()
    write_attack(run, "pwws", LABELS, ANSWERS, "00001", score="margin", threat=threat)
    mean = collected_mean(tmp_path, "r", "pwws").protocols["mean"]
    assert mean.items() >= {"attacks": ["pwws"], **attack}.items()


def test_a_mean_without_a_blind_attack_is_flagged(tmp_path: Path) -> None:
    """Other runs have the mean over both attacks."""
    metrics = {
        "attack/pwws/accuracy": 0.6,
        "attack/textfooler/unreliable_accuracy": 0.8,
        "attack/mean_accuracy": 0.6,
        "attack/worst_accuracy": 0.6,
    }
    run = make_run(tmp_path / "r", metrics=metrics)
    write_attack(run, "pwws", LABELS, ANSWERS, "00001")
    write_attack(run, "textfooler", LABELS, ANSWERS, "00000")
    found = collected_mean(tmp_path, "r", "pwws,textfooler")
    assert found.values == {"mean": 0.6, "worst": 0.6}
    assert found.unreliable == ("mean", "worst")
    assert collected_mean(tmp_path, "r", "pwws").unreliable == ()


def test_a_mean_is_over_the_attacks_of_the_study(tmp_path: Path) -> None:
    """An attack that was run by hand is in that of `results.json`, and of this run alone."""
    metrics = {
        "attack/pwws/accuracy": 0.6,
        "attack/pwws/samples": 5.0,
        "attack/textfooler/accuracy": 0.4,
        "attack/textfooler/samples": 5.0,
        "attack/mean_accuracy": 0.5,
        "attack/worst_accuracy": 0.2,
    }
    run = make_run(tmp_path / "r", metrics=metrics)
    write_attack(run, "pwws", LABELS, ANSWERS, "00001")
    write_attack(run, "textfooler", LABELS, ANSWERS, "01100")
    found = collected_mean(tmp_path, "r", "pwws")
    assert found.values == {"mean": 0.6, "worst": 0.6}
    assert list(found.outcomes["mean"]) == [1, 1, 1, 0, 0]
    both = collected_mean(tmp_path, "r", "pwws,textfooler")
    assert both.values == {"mean": 0.5, "worst": 0.2}
    assert both.unreliable == ()


def test_the_texts_that_withstand_two_attacks(tmp_path: Path) -> None:
    """The least outcome of each text under both scores; flagged only if both attacks are."""
    accuracy, blind = "attack/pwws/accuracy", "attack/pwws-probability/unreliable_accuracy"
    joined = "attack/pwws+pwws-probability/accuracy"
    run = make_run(tmp_path / "r", metrics={accuracy: 0.6, blind: 0.4})
    write_attack(run, "pwws", LABELS, ANSWERS, "00001")
    assert collected(run.path, joined).values == {}
    write_attack(run, "pwws-probability", LABELS, ANSWERS, "01100")
    found = collected(run.path, joined, accuracy)
    assert list(found.outcomes[accuracy]) == [1, 1, 1, 0, 0]
    assert list(found.outcomes[joined]) == [1, 0, 0, 0, 0]
    assert found.values[joined] == 0.2
    assert found.unreliable == ()
    # On other texts there is no such figure.
    write_attack(run, "pwws-probability", "0111", "0111", "0110")
    run.results_path.write_text(run.results_path.read_text().replace("0.4", "0.5"))
    assert collected(run.path, joined).values == {}
    both = make_run(tmp_path / "both", metrics={blind: 0.4, "attack/pwws/unreliable_accuracy": 0.6})
    write_attack(both, "pwws", LABELS, ANSWERS, "00001")
    write_attack(both, "pwws-probability", LABELS, ANSWERS, "01100")
    assert collected(both.path, joined).unreliable == (joined,)


def test_a_figure_that_an_attack_flagged(tmp_path: Path) -> None:
    metrics = {"attack/textfooler/unreliable_accuracy": 0.4}
    run = make_run(tmp_path / "r", metrics=metrics)
    write_attack(run, "textfooler", LABELS, ANSWERS, "01100")
    found = make_figures(run.path, [ATTACKED])
    assert found.unreliable == ("fooled",)
    assert found.values == {"fooled": 0.4}
    assert found.outcomes["fooled"] == (1, 0, 0, 0, 1)


def test_figures_without_outcomes(tmp_path: Path) -> None:
    metrics = {"test/loss": 0.25, "attack/pwws/success_rate": 0.5, "val/accuracy": 0.9}
    run = make_run(tmp_path / "r", metrics=metrics)
    found = collected(run.path, *metrics, "test/absent")
    assert found.values == metrics
    assert found.outcomes == {}
    assert found.samples == {}


def test_outcomes_that_do_not_amount_to_the_figure(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={"test/accuracy": 0.9})
    write_pgd(run, LABELS, ANSWERS, STOOD)
    with pytest.raises(StudyError) as error:
        collected(run.path, "test/accuracy")
    for said in ("test/accuracy = 0.9", "0.8 from the 5 samples", "pgd.jsonl", "measure"):
        assert said in str(error.value)
    # Another file has them.
    stamp = {"checkpoint": digest(run.path)[:12]}
    answers = [{"sample_id": i, "label": 1, "prediction": int(i > 0), **stamp} for i in range(10)]
    write_lines(run.path / "predictions.jsonl", answers)
    assert len(collected(run.path, "test/accuracy").outcomes["test/accuracy"]) == 10


@pytest.mark.long
def test_a_single_sample_more_is_noticed(tmp_path: Path) -> None:
    labels = "1" * 20_000
    run = make_run(tmp_path / "r", metrics={"test/accuracy": 19_999 / 20_000})
    write_pgd(run, labels, labels, labels)
    with pytest.raises(StudyError, match="expected the same"):
        collected(run.path, "test/accuracy")


def test_other_weights(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={"test/accuracy": 0.8})
    write_pgd(run, LABELS, ANSWERS, STOOD)
    (run.path / "checkpoints" / "best.ckpt").write_bytes(b"trained further")
    with pytest.raises(StudyError, match="figures of test about other weights"):
        collected(run.path, "test/accuracy")


@pytest.mark.parametrize("file", ["pgd.jsonl", "attacks/textfooler.json"])
def test_records_of_other_weights(tmp_path: Path, file: str) -> None:
    metrics = {"test/accuracy": 0.8, "attack/textfooler/accuracy": 0.4}
    run = make_run(tmp_path / "r", metrics=metrics)
    write_pgd(run, LABELS, ANSWERS, STOOD)
    write_attack(run, "textfooler", LABELS, ANSWERS, "01100")
    collected(run.path, *metrics)
    path = run.path / file
    path.write_text(path.read_text().replace(digest(run.path)[:12], "0" * 12))
    with pytest.raises(StudyError, match="about other weights"):
        collected(run.path, *metrics)


@pytest.mark.parametrize("line", ["[]", "{", '{"label": 1}', '{"sample_id": 1, "label": 1}'])
def test_lines_that_are_no_records(tmp_path: Path, line: str) -> None:
    run = make_run(tmp_path / "r", metrics={"test/accuracy": 0.8})
    (run.path / "pgd.jsonl").write_text(line + "\n")
    with pytest.raises(StudyError, match="expected these: delete it"):
        collected(run.path, "test/accuracy")


def test_a_number_of_diagnose(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={})
    content = {
        "attacks": {
            "pwws": {
                "weights": {"checkpoint": digest(run.path)},
                "distances": {"mean": 1.5},
                "similarities": {"all": {"mean": [0.9, 0.7]}},
            }
        }
    }
    (run.path / "diagnostics.json").write_text(json.dumps(content))
    metrics = [
        "diagnose/pwws/distances/mean",
        "diagnose/pwws/similarities/all/mean/1",
        "diagnose/pwws/similarities/all/mean/7",
        "diagnose/pwws/distances/absent",
        "diagnose/textfooler/distances/mean",
    ]
    assert collected(run.path, *metrics).values == {metrics[0]: 1.5, metrics[1]: 0.7}
    with pytest.raises(StudyError, match="no number"):
        collected(run.path, "diagnose/pwws/distances")
    (run.path / "checkpoints" / "best.ckpt").write_bytes(b"trained further")
    with pytest.raises(StudyError, match="other weights"):
        collected(run.path, *metrics)


def test_a_run_without_figures(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={})
    run.results_path.unlink()
    with pytest.raises(StudyError, match=r"without results\.json"):
        collected(run.path, "test/accuracy")


def test_a_cell(tmp_path: Path) -> None:
    run = make_run(tmp_path / "tiny-a-sst2-s0", metrics={"test/accuracy": 0.8})
    write_pgd(run, LABELS, ANSWERS, STOOD)
    columns = [
        ACCURACY,
        replace(ACCURACY, name="there", corpus="sst2"),
        replace(ACCURACY, name="elsewhere", corpus="news"),
    ]
    made = study(columns=columns, corpora=[SST2, NEWS])
    cell = Cell(row="a", corpus="sst2", seed=0, run=run.name, config=(), settings={}, stages=())
    found = collect(made, cell, tmp_path)
    assert (found.row, found.corpus, found.seed, found.run) == ("a", "sst2", 0, run.name)
    assert found.values.keys() == {"accuracy", "there"}
    # What is not compared has outcomes as well.
    assert found.outcomes.keys() == {"accuracy", "there"}
    with pytest.raises(FileNotFoundError, match="tiny-a-sst2-s0"):
        collect(made, replace(cell, run="absent"), tmp_path)


def test_a_model_that_gives_one_answer_has_collapsed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", metrics={"test/accuracy": 0.6})
    write_pgd(run, LABELS, "11111", "11111")
    assert collected(run.path, "test/accuracy").collapsed is True
    # Also where no column asks for its answers; and of an attack alone.
    assert collected(run.path, "test/loss").collapsed is True
    (run.path / "pgd.jsonl").unlink()
    assert collected(run.path, "test/loss").collapsed is None
    write_attack(run, "pwws", LABELS, "00000", "00000")
    assert collected(run.path, "test/loss").collapsed is True
    # Where all texts are of one class, one answer is right.
    write_attack(run, "pwws", "11111", "11111", "00000")
    assert collected(run.path, "test/loss").collapsed is None


def test_the_revisions_of_a_run(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "r",
        metrics={"test/accuracy": 0.8},
        about={"test": {"program": "steadfast 0.1.0 (git 0123456789ab)"}},
    )
    assert collected(run.path, "test/accuracy").revisions == ("0123456789ab",)
    content = json.loads(run.results_path.read_text())
    content["versions"]["revision"] = "fedcba987654-dirty"
    run.results_path.write_text(json.dumps(content))
    both = ("0123456789ab", "fedcba987654-dirty")
    assert collected(run.path, "test/accuracy").revisions == both
