"""`train` writes the report of its run; `report` writes it again, with attacks."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import lit_modules
from measure.radius_sandwich import embedded_distances
from tests.integration.conftest import ATTACK, OLSA, QUIET, REVIEWS, TINY, Steadfast, lines
from tests.unit.attacks.outcomes import flipped

pytestmark = pytest.mark.report

PAGE = Path("runs/a/report/report.html")
TRAIN = ["train", *OLSA, *REVIEWS, *TINY, *ATTACK, "--trainer.max_epochs=1", "--run=a"]


def test_train_writes_it_and_an_attack_is_checked_against_certificates(
    here: Path, steadfast: Steadfast
) -> None:
    outcome = steadfast(TRAIN)
    assert outcome.status == 0, outcome.err
    assert outcome.out.strip().splitlines()[-3:] == [f"report: {PAGE}", "", "runs/a"]
    first = PAGE.read_text()
    assert "python -m steadfast attack --run a" in first
    again = steadfast("report", "--run=a")
    assert (again.status, again.out) == (0, f"{PAGE}\n")
    assert PAGE.read_text() == first

    attack = ["--attack=deepwordbug", "--num_samples=16"]
    assert steadfast("attack", attack, QUIET, "--run=a").status == 0
    assert steadfast("report", "--run=a").status == 0
    found = lines("runs/a/attacks/deepwordbug.jsonl")
    certified = {one["sample_id"] for one in lines("runs/a/certificates.jsonl")}
    changed = {one["sample_id"] for one in found if one["outcome"] == "succeeded"} & certified
    assert re.search(rf'<th scope="row">deepwordbug</th><td>{len(changed)}</td>', PAGE.read_text())

    # As if the proof were wrong.
    path = Path("runs/a/certificates.jsonl")
    records = [one | {"radius": 1e3, "lipschitz": 1.0} for one in lines(path)]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    outcome = steadfast("report", "--run=a")
    assert outcome.status == 1
    assert outcome.err.startswith("contradiction: run a: an attack has changed")
    assert "Contradiction in a" in PAGE.read_text()

    record = flipped(label=0, prediction=0, adversarial="a bad film", adversarial_prediction=1)
    checkpoint = Path("runs/a/checkpoints/best.ckpt")
    others = [
        record,
        replace(record, adversarial="good film"),
        replace(record, adversarial=record.text),
    ]
    swapped, shorter, same = embedded_distances(checkpoint, others)
    model = lit_modules.load(checkpoint)
    with torch.no_grad():
        clean, bad = (
            model.embed(model.encode_texts(text)) for text in ("a good film", "a bad film")
        )
    assert float((clean - bad).norm()) > 0
    assert swapped == pytest.approx(float((clean - bad).norm()), rel=1e-5)
    assert (shorter, same) == (None, 0.0)


def test_a_report_that_fails_is_a_warning(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(runs: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("app.report.report_page.write_report", fail)
    outcome = steadfast(TRAIN)
    assert outcome.status == 0
    assert "the report could not be written (no room)" in outcome.err
    assert outcome.out.strip().splitlines()[-1] == "runs/a"
    assert "report:" not in outcome.out
    assert Path("runs/a/results.json").is_file()
