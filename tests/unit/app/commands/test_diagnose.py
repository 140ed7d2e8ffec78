import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from attacks.outcome import AttackRecord
from measure.diagnosis import read
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from tests.run_command import run_command
from tests.unit.attacks.outcomes import flipped, record, skipped

main = partial(run_command, "diagnose")

RECORD, SKIPPED, UNMOVED = flipped(adversarial="a gpod film"), skipped(), record()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "runs" / "first")
    run.write_config({})
    return run


def attack(
    run: RunDirectory, *records: AttackRecord, about: Mapping[str, Any] | None = None
) -> None:
    ledger = attack_ledger(run, "textfooler")
    ledger.begin(about or {})
    lines = [json.dumps({**one.line(), "sample_id": i}) for i, one in enumerate(records)]
    ledger.records_path.write_text("".join(f"{line}\n" for line in lines))


def test_what_is_measured(run: RunDirectory) -> None:
    failed = replace(RECORD, outcome="failed", adversarial="an good film", words_changed=2)
    attack(run, RECORD, SKIPPED, UNMOVED, failed)
    records = read(run, "textfooler", samples=10)
    assert [one.sample_id for one in records.records] == [0, 1, 2, 3]
    # Whether it was misled or not; but not what was left alone.
    assert [one.sample_id for one in records.changed] == [0, 3]
    assert records.words_changed == pytest.approx(0.5)
    assert records.summary.accuracy.value == 0.5
    assert not records.summary.unreliable


def test_records_are_drawn_once_and_for_all(run: RunDirectory) -> None:
    attack(run, *[RECORD] * 50)
    found = [one.sample_id for one in read(run, "textfooler", samples=20).records]
    assert len(set(found)) == 20
    assert found == sorted(found)
    assert found != list(range(20))
    assert found == [one.sample_id for one in read(run, "textfooler", samples=20).records]


def test_blind_scores_are_doubted(run: RunDirectory) -> None:
    saturated = replace(RECORD, outcome="failed", saturated=True)
    attack(run, *[saturated] * 5, about={"score": "probability"})
    assert read(run, "textfooler", samples=10).summary.unreliable


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            "pwws",
            "got --recipe pwws and run first, which has those of textfooler; expected records of "
            "an attack: `python -m steadfast attack --run first --attack pwws` makes them",
        ),
        ("textfoler", r"--attack RECIPE \(a2t, .*textfooler, .*\)` makes them"),
        ("../config", "which has those of textfooler"),
    ],
)
def test_another_attack(run: RunDirectory, recipe: str, message: str) -> None:
    attack(run, RECORD)
    with pytest.raises(ValueError, match=message):
        read(run, recipe, samples=10)


def test_shards_are_no_attacks(run: RunDirectory) -> None:
    attack(run, RECORD)
    (run.path / "attacks" / "pwws.shard-1-of-2.jsonl").touch()
    with pytest.raises(ValueError, match="run first, which has those of textfooler; expected"):
        read(run, "pwws", samples=10)


def test_no_attack_yet(run: RunDirectory) -> None:
    with pytest.raises(ValueError, match="run first, which was never attacked; expected records"):
        read(run, "textfooler", samples=10)


@pytest.mark.parametrize("records", [[], [SKIPPED], [SKIPPED, UNMOVED]])
def test_nothing_was_changed(run: RunDirectory, records: list[AttackRecord]) -> None:
    attack(run, *records)
    with pytest.raises(ValueError, match=rf"got {len(records)} record\(s\) in .* of which none"):
        read(run, "textfooler", samples=10)


@pytest.mark.parametrize("content", ["{", '{"sample_id": 1}', "[1, 2]", "3"])
def test_records_that_are_none(run: RunDirectory, content: str) -> None:
    attack(run, RECORD)
    attack_ledger(run, "textfooler").records_path.write_text(content + "\n")
    with pytest.raises(
        ValueError, match=r"textfooler\.jsonl( with |, line 1, which cannot be read)"
    ):
        read(run, "textfooler", samples=10)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"about": 3}'])
def test_settings_that_cannot_be_read_are_left_out(run: RunDirectory, content: str) -> None:
    attack(run, RECORD)
    attack_ledger(run, "textfooler").path.write_text(content)
    assert read(run, "textfooler", samples=10).subject == {}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], ValueError, "got neither --run nor --ckpt_path"),
        (["--run=second"], FileNotFoundError, "got run 'second', which is not in .*there are: fir"),
        (["--run=first"], ValueError, "never attacked"),
        (["--run=first", "--num_samples=0"], ValueError, "got --num_samples=0, expected"),
        (["--run=first", "--batch_size=0"], ValueError, "got --batch_size=0, expected"),
        (["--run=first", "--device=gpu"], ValueError, "got --device gpu, which cannot be used"),
        (["--run=first", "--against", "third"], FileNotFoundError, "got run 'third'"),
        (["--ckpt_path=a.ckpt"], ValueError, "got a.ckpt, which lies in no run, expected --run"),
    ],
)
def test_what_cannot_be(
    run: RunDirectory, arguments: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        main([f"--runs_dir={run.path.parent}", *arguments])


@pytest.mark.parametrize("arguments", [["--pooling=max"], ["--sample=3"], ["--num_samples=x"]])
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--run=first", *arguments])
    assert stopped.value.code == 2
    assert "`steadfast diagnose --help` lists" in capsys.readouterr().err
