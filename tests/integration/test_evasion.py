"""Evasion of detectors by the real command line: a run, its shards, and a service."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import QUIET, Steadfast, lines, results
from tests.unit.attacks.victims.service import Service, positive, serving

ALONE = ["--attack.batch_size=1", "--attack.in_flight=5", *QUIET]
NAMES = ("append-benign", "leetspeak")


def records(folder: str) -> list[dict[str, Any]]:
    return [
        {**line, "seconds": 0} for name in NAMES for line in lines(f"{folder}/attacks/{name}.jsonl")
    ]


def test_detections_of_a_run(trained: Path, steadfast: Steadfast) -> None:
    del trained
    command = ["attack", "--run=done", f"--attack={','.join(NAMES)}", "--attack.goal=evade"]
    refused = steadfast(command, *ALONE)
    assert "no detector, expected its positive class: --attack.positive neg" in refused.err
    command += ["--attack.positive=negative", "--num_samples=4", *ALONE]
    refused = steadfast(command, "--attack.threshold=0.9")
    assert "got threshold 0.9 for a run, whose own threshold counts" in refused.err

    shutil.copytree("runs", "before")
    outcome = steadfast(command)
    assert outcome.status == 0, outcome.err
    assert "flip rate" in outcome.out
    whole = records("runs/done")
    # Samples are those of the positive class, so many as the command says.
    assert len(whole) == 8
    assert {record["label_name"] for record in whole} == {"negative"}
    metrics = results("done")["metrics"]
    for name in NAMES:
        own = lines(f"runs/done/attacks/{name}.jsonl")
        flips = sum(record["outcome"] == "succeeded" for record in own)
        attacked = sum(record["outcome"] != "skipped" for record in own)
        assert metrics[f"attack/{name}/attacked"] == attacked
        assert metrics[f"attack/{name}/flip_rate"] == flips / attacked
    assert steadfast(command).status == 0
    assert records("runs/done") == whole
    shutil.rmtree("runs")
    shutil.copytree("before", "runs")
    for index in (1, 2):
        shard = steadfast(command, f"--attack.shard={index}/2")
        assert shard.status == 0, shard.err
    merged = steadfast("attack", "merge", "--run=done")
    assert merged.status == 0, merged.err
    assert "flip rate" in merged.out
    assert records("runs/done") == whole
    assert results("done")["metrics"] == metrics


def test_detections_of_a_service(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    del here
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    texts = ["good deal", "a good good good offer", "bad", "plain bad day", "good", "good odd good"]
    rows = [f"{text}\t{'pos' if 'good' in text else 'neg'}\n" for text in texts]
    Path("texts.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    with serving(Service()) as service:
        outcome = steadfast(
            *("attack", f"--victim=http:{service.url}", "--dataset=texts.tsv"),
            *("--classes=neg,pos", f"--attack={','.join(NAMES)}", "--output=out"),
            *("--attack.goal=evade", "--attack.positive=pos", "--attack.threshold=0.73"),
        )
    assert outcome.status == 0, outcome.err
    for record in records("out"):
        assert "good" in record["text"]
        assert (record["outcome"] == "skipped") == (positive(record["text"]) < 0.73)
        if record["outcome"] == "succeeded":
            assert positive(record["adversarial"]) < 0.73
    # The words of the pool are those of the other texts of the file.
    added = {
        record["adversarial"].split()[-1] for record in records("out")[:4] if record["adversarial"]
    }
    assert added & {"bad", "plain", "day"}
    page = Path("out/attacks/leetspeak.html").read_text()
    assert "<tr><th>threshold</th><td>probability 0.73</td></tr>" in page
    assert "<tr><th>positive class</th><td>pos</td></tr>" in page
