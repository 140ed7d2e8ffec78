"""`attack pairs` by the real command line."""

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Steadfast

SCORES = "def scores(texts):\n    return [[1.0, 2.0 * ('fine' in t)] for t in texts]\n"


@pytest.fixture
def victim(here: Path) -> list[str]:
    (here / "pair_scores.py").write_text(SCORES)
    return ["--victim=python:pair_scores:scores", "--classes=negative,positive", "--out=out"]


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
    del trained
    Path("texts.tsv").write_text("text\tlabel\na fine film\tpositive\na dull one\tnegative\n")
    line = ["attack", *victim, "--dataset=texts.tsv", "--attack=deepwordbug"]
    assert steadfast(*line).status == 0
    found = steadfast(
        *("attack", "pairs", "out/attacks/deepwordbug.jsonl", "--victim=run:done", "--device=cpu"),
        "--out=other",
    )
    assert found.status == 0, found.err
    assert "records, 2 texts" in found.out
    assert "difference" in found.out


def test_wrong_files_are_one_line(victim: list[str], steadfast: Steadfast) -> None:
    found = steadfast("attack", "pairs", "nowhere.txt", *victim)
    assert found.status == 1
    assert found.err.count("\n") == 1
