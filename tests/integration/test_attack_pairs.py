"""`attack pairs` by the real command line."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from attacks.digests import file_digest
from measure.evidence import read_evidence
from run_files.run_directory import RunDirectory
from tests.integration.conftest import Steadfast, results

SCORES = """def scores(texts):
    return [[1.0, 2.0 * ('fine' in t)] for t in texts]

def near(texts):
    return [[1.0, 2.0 * ('fin' in t)] for t in texts]

def turned(texts):
    return [row[::-1] for row in scores(texts)]

def stars(texts):
    return [[('dull' in t) + 0.0, 0.5, 2.0 * ('fine' in t)] for t in texts]
"""


@pytest.fixture
def victim(here: Path) -> list[str]:
    (here / "pair_scores.py").write_text(SCORES)
    return ["--victim=python:pair_scores:scores", "--classes=negative,positive", "--output=out"]


def test_of_text_fooler(victim: list[str], steadfast: Steadfast) -> None:
    rows = (
        [("1", "a fine film", "a okay film")] * 6
        + [("0", "dull", "fine")]
        + [("1", "so so", "so fine")]
    )
    Path("adversaries.txt").write_text(
        "".join(f"orig sent ({y}):\t{a}\nadv sent (?):\t{b}\n\n" for y, a, b in rows)
    )
    found = steadfast("attack", "pairs", "adversaries.txt", *victim)
    assert found.status == 0, found.err
    assert "TextFooler, 8 texts" in found.out
    assert "7 lost, 1 gained, McNemar p = 0.07" in found.out
    content = json.loads(Path("out/pairs-adversaries.json").read_text())
    assert content["all"]["paired"]["first"]["value"] == 7 / 8
    assert content["all"]["paired"]["second"]["value"] == 1 / 8


def test_of_adv_glue_by_names_of_classes(victim: list[str], steadfast: Steadfast) -> None:
    rows = [{"idx": 0, "label": 1, "sentence": "fine"}, {"idx": 1, "label": 0, "sentence": "fine"}]
    Path("dev.json").write_text(json.dumps({"sst2": rows}))
    turned = [word.replace("negative,positive", "POSITIVE,NEGATIVE") for word in victim]
    found = steadfast("attack", "pairs", "dev.json", *turned)
    assert found.status == 0, found.err
    assert "accuracy 0.500" in found.out
    assert "the file has no originals" in found.out


def test_of_an_attack_of_ours_on_another_model(
    trained: Path, victim: list[str], steadfast: Steadfast
) -> None:
    Path("texts.tsv").write_text("text\tlabel\na fine film\tpositive\na dull one\tnegative\n")
    line = ["attack", *victim, "--dataset=texts.tsv", "--attack=deepwordbug"]
    assert steadfast(*line).status == 0
    pairs = ["attack", "pairs", "out/attacks/deepwordbug.jsonl", "--victim=run:done"]
    pairs += ["--device=cpu", "--output=other"]
    found = steadfast(*pairs)
    assert found.status == 0, found.err
    assert "records, 2 texts" in found.out
    assert "difference" in found.out
    content = json.loads(Path("other/pairs-deepwordbug.json").read_text())
    assert content["source"] is None
    assert content["weights"] == file_digest(trained / "checkpoints" / "best.ckpt")
    assert not (trained / "transfer").exists()
    # The same records in a run, which say of which weights they are.
    Path("out/config.yaml").write_text("{}")
    entry = json.loads(Path("out/attacks/deepwordbug.json").read_text())
    entry["about"]["checkpoint"] = "a" * 64
    Path("out/attacks/deepwordbug.json").write_text(json.dumps(entry))
    assert steadfast(*pairs).status == 0
    content = json.loads((trained / "transfer" / "out" / "deepwordbug.json").read_text())
    source = {"run": "out", "checkpoint": "a" * 64, "attack": "deepwordbug"}
    records = file_digest(Path("out/attacks/deepwordbug.jsonl"))
    assert content["source"] == {**source, "records": records}
    assert read_evidence(RunDirectory(trained)).transfers[0].source == "out"


def test_of_several_runs(trained: Path, steadfast: Steadfast) -> None:
    shutil.copytree(trained, "runs/twin")
    for name in ("done", "twin"):
        line = ["attack", f"--run={name}", "--attack=deepwordbug", "--num_samples=6"]
        assert steadfast(*line, "--trainer.accelerator=cpu").status == 0
    found = steadfast("attack", "pairs", "--run", "done", "twin", "--device=cpu")
    assert found.status == 0, found.err
    assert "read by twin" in found.out
    # The same weights: every text that fools one fools the other.
    metrics = results("twin")["metrics"]
    assert metrics["transfer/deepwordbug/of/done/fooled"] == 1
    assert metrics["transfer/deepwordbug/accuracy"] == metrics["attack/deepwordbug/accuracy"]
    assert (Path("runs/twin/transfer/done/deepwordbug.json")).is_file()
    assert read_evidence(RunDirectory(Path("runs/twin"))).transfers[0].source == "done"
    for wrong, says in (
        (["--run", "done", "--victim=run:twin"], "expected FILE and --victim NAME, or --run A B"),
        (["--run", "done", "twin", "--attack=pwws"], "got pwws for done, twin, expected some of"),
    ):
        found = steadfast("attack", "pairs", *wrong, "--device=cpu")
        assert found.status != 0
        assert says in found.err
    Path("runs/twin/checkpoints/best.ckpt").unlink()
    found = steadfast("attack", "pairs", "--run", "done", "twin", "--device=cpu")
    assert "about other weights" in found.err


def test_of_victims_from_elsewhere(here: Path, steadfast: Steadfast) -> None:
    (here / "pair_scores.py").write_text(SCORES)
    Path("rows.tsv").write_text("text\tlabel\na fine film\t1\nfine\t1\nso dull\t0\n")
    names = [f"python:pair_scores:{name}" for name in ("scores", "near")]
    classes = "--classes=negative,positive"
    for name in names:
        line = ["attack", f"--victim={name}", classes, "--dataset=rows.tsv", "--attack=deepwordbug"]
        outcome = steadfast(*line)
        assert outcome.status == 0, outcome.err
    found = steadfast("attack", "pairs", "--run", *names, classes, "--output=out")
    assert found.status == 0, found.err
    cells = {
        (row["texts_of"].split("-")[2], row["read_by"].split("-")[2]): row
        for row in json.loads(Path("out/transfer-deepwordbug.json").read_text())
    }
    assert cells["scores", "scores"]["fooled_value"] == 1
    assert cells["scores", "near"]["fooled_count"] == cells["scores", "scores"]["fooled_count"] == 2
    assert Path("out/transfer-deepwordbug.csv").read_text().count("\n") == 5
    # Another function of the same name.
    (here / "pair_scores.py").write_text(SCORES.replace("'fine' in t", "'' in t"))
    sys.modules.pop("pair_scores", None)
    found = steadfast("attack", "pairs", "--run", *names, classes)
    assert "2 of 2 of its own adversarial texts do not fool it any more" in found.out


def test_of_detectors_with_a_threshold(here: Path, steadfast: Steadfast) -> None:
    (here / "spam_scores.py").write_text(
        "def scores(texts):\n    return [[0.0, 2.0 * t.count('win') + 0.5] for t in texts]\n"
    )
    Path("rows.tsv").write_text("text\tlabel\nwin now\tspam\nyou win\tspam\nso dull\tham\n")
    victim = ["python:spam_scores:scores", "--classes=ham,spam"]
    goal = ["--attack.goal=evade", "--attack.positive=spam", "--attack.threshold=0.9"]
    line = ["attack", "--victim", *victim, "--dataset=rows.tsv", "--attack=deepwordbug", *goal]
    outcome = steadfast(*line)
    assert outcome.status == 0, outcome.err
    found = steadfast("attack", "pairs", "--run", *victim, "--output=out")
    assert found.status == 0, found.err
    (cell,) = json.loads(Path("out/transfer-deepwordbug.json").read_text())
    # Spam stays the likelier class: 1 / (1 + e^-0.5) = 0.62, and below the threshold.
    assert (cell["fooled_value"], cell["fooled_count"], cell["accuracy_value"]) == (1, 2, 0)
    assert "do not fool it any more" not in found.out


def accuracy_of_originals() -> float:
    content = json.loads(Path("out/pairs-deepwordbug.json").read_text())
    return float(content["all"]["paired"]["first"]["value"])


def test_of_records_whose_model_has_the_classes_in_another_order(
    victim: list[str], steadfast: Steadfast
) -> None:
    Path("texts.tsv").write_text("text\tlabel\na fine film\tpositive\na dull one\tnegative\n")
    assert steadfast("attack", *victim, "--dataset=texts.tsv", "--attack=deepwordbug").status == 0
    turned = ["--victim=python:pair_scores:turned", "--classes=positive,negative", "--output=out"]
    found = steadfast("attack", "pairs", "out/attacks/deepwordbug.jsonl", *turned)
    assert found.status == 0, found.err
    assert accuracy_of_originals() == 1


def test_of_records_whose_classes_are_named_by_numbers(here: Path, steadfast: Steadfast) -> None:
    (here / "pair_scores.py").write_text(SCORES)
    rows = ["a fine film\t3", "a dull one\t1", "so so\t2", "fine\t3"]
    Path("texts.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    victim = ["--victim=python:pair_scores:stars", "--classes=1,2,3", "--output=out"]
    assert steadfast("attack", *victim, "--dataset=texts.tsv", "--attack=deepwordbug").status == 0
    path = Path("out/attacks/deepwordbug.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["label_name"] for one in records] == ["3", "1", "2", "3"]
    assert steadfast("attack", "pairs", str(path), *victim).status == 0
    assert accuracy_of_originals() == 1
    # Records of older versions have no names: the settings beside them do.
    old = [{k: v for k, v in one.items() if not k.endswith("_name")} for one in records]
    path.write_text("".join(json.dumps(one) + "\n" for one in old))
    assert steadfast("attack", "pairs", str(path), *victim).status == 0
    assert accuracy_of_originals() == 1
    path.rename("deepwordbug.jsonl")
    found = steadfast("attack", "pairs", "deepwordbug.jsonl", *victim)
    assert found.status == 1
    assert "indices of classes without names" in found.err
    told = steadfast("attack", "pairs", "deepwordbug.jsonl", *victim, "--label_names=1,2,3")
    assert told.status == 0, told.err
    assert accuracy_of_originals() == 1


def test_wrong_files_are_one_line(victim: list[str], steadfast: Steadfast) -> None:
    found = steadfast("attack", "pairs", "nowhere.txt", *victim)
    assert found.status == 1
    assert found.err.count("\n") == 1
