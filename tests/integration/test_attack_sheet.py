"""`attack sheet` by the real command line."""

import csv
import json
from pathlib import Path

from tests.integration.conftest import Steadfast

SCORES = "def scores(texts):\n    return [[0.0, 2.0 * t.count('good') - 1] for t in texts]\n"


def test_from_attack_to_corrected_success(here: Path, steadfast: Steadfast) -> None:
    (here / "sheet_scores.py").write_text(SCORES)
    rows = "".join(f"a good one, number {i}\tpos\n" for i in range(12))
    (here / "texts.tsv").write_text("text\tlabel\n" + rows)
    attacked = steadfast(
        *("attack", "--victim=python:sheet_scores:scores", "--classes=neg,pos", "--output=out"),
        *("--dataset=texts.tsv", "--attack=deepwordbug"),
    )
    assert attacked.status == 0, attacked.err
    line = ["attack", "sheet", "--records", "out/attacks/deepwordbug.jsonl", "--num_samples=6"]
    refused = steadfast(*line, "--classes=neg")
    assert refused.status == 1
    assert "expected a name for each class" in refused.err
    (here / "other").mkdir()
    (here / "other/deepwordbug.jsonl").write_bytes(Path(line[3]).read_bytes())
    twice = steadfast(*line[:4], "other/deepwordbug.jsonl", "--classes=neg,pos")
    assert twice.status == 1
    assert "expected files of different names" in twice.err
    made = steadfast(*line, "--classes=neg,pos", "--originals=3")
    assert made.status == 0, made.err
    assert "6 adversarial texts and 3 originals" in made.out
    again = steadfast(*line, "--classes=neg,pos")
    assert again.status == 1
    assert "where a sheet is already" in again.err

    with Path("sheet/sheet.csv").open() as stream:
        sheet = list(csv.DictReader(stream))
    for number in range(2):
        with Path(f"rated{number}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, ["item", "text", "class", "natural"])
            writer.writeheader()
            writer.writerows({**row, "class": "pos", "natural": 3 + number} for row in sheet)
    found = steadfast("attack", "sheet", "--read", "rated0.csv", "rated1.csv")
    assert found.status == 0, found.err
    assert "2 raters" in found.out
    assert "class undefined" in found.out  # all gave one class
    content = json.loads(Path("sheet/rated.json").read_text())
    one = content["attacks"]["deepwordbug"]
    assert one["valid"]["value"] == 1
    assert one["valid_success_rate"]["value"] == one["success_rate"]["value"]
    assert content["originals"]["natural"] == 3.5
