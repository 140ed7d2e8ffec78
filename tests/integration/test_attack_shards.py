"""One attack in shards by the real command line, and their merge."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.program import Piped
from tests.integration.conftest import QUIET, Outcome, Steadfast, lines, results
from tests.integration.several import TWO, run_two
from tests.integration.test_attack import BEST, LETTERS, SLOW, comparable

FOLDER = Path("runs/done/attacks")
# Each text alone in its batch: then scores have the same digits, whatever else is attacked.
ALONE = ["--attack.batch_size=1", "--attack.in_flight=5"]


@pytest.fixture
def letters(trained: Path) -> str:
    """A file with an attack, in the working directory with a finished run."""
    Path("letters.yaml").write_text(yaml.safe_dump(LETTERS))
    return "letters.yaml"


def attack(steadfast: Steadfast, *arguments: str, count: int = 7) -> Outcome:
    wanted = ["--run=done", f"--num_samples={count}", *ALONE]
    outcome = steadfast("attack", wanted, arguments, QUIET)
    assert outcome.status == 0, outcome.err
    return outcome


def merge(steadfast: Steadfast, *arguments: str) -> Outcome:
    return steadfast("attack", "merge", "--run=done", *arguments)


def timeless(content: Any) -> Any:
    """Content without seconds."""
    if isinstance(content, dict):
        return {key: timeless(one) for key, one in content.items() if key != "seconds"}
    return [timeless(one) for one in content] if isinstance(content, list) else content


def filed(names: list[str]) -> list[str]:
    """All that is filed, as text, so that digits and order count, too."""
    found = [Path("runs/done/results.json").read_text()]
    found += [(FOLDER / f"{name}.json").read_text() for name in names]
    found += [line for name in names for line in (FOLDER / f"{name}.jsonl").read_text().split("\n")]
    pages = [(FOLDER / f"{name}.html").read_text() for name in names]
    clock = re.compile(r"<tr><td>seconds</td>.*")
    return [json.dumps(timeless(json.loads(one))) for one in found if one] + [
        clock.sub("", page) for page in pages
    ]


def test_an_ensemble_in_shards(letters: str, steadfast: Steadfast) -> None:
    shutil.copytree("runs", "before")
    worst = f"--attack=worst:deepwordbug,{letters}"
    outcome = attack(steadfast, worst, "--attack.csv=true")
    log = (FOLDER / "worst.csv").read_text()
    assert "worst: successes " in outcome.out
    whole = filed(["worst"])
    assert {line["recipe"] for line in lines(str(FOLDER / "worst.jsonl"))} <= {
        *("deepwordbug", "letters", None)
    }
    shutil.rmtree("runs")
    shutil.copytree("before", "runs")
    for index in (1, 2):
        attack(steadfast, worst, f"--attack.shard={index}/2")
    outcome = merge(steadfast, worst, "--attack.csv=true")
    assert outcome.status == 0, outcome.err
    assert (FOLDER / "worst.csv").read_text() == log
    assert "worst: successes " in outcome.out
    assert filed(["worst"]) == whole
    assert "attack/worst/accuracy" in results("done")["metrics"]


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_shards_file_what_one_attack_files(letters: str, steadfast: Steadfast, count: int) -> None:
    shutil.copytree("runs", "before")
    both = f"--attack={letters},deepwordbug"
    attack(steadfast, both)
    names = ["letters", "deepwordbug"]
    whole = filed(names)
    shutil.rmtree("runs")
    shutil.copytree("before", "runs")
    before = results("done")
    for index in reversed(range(1, count + 1)):
        outcome = attack(steadfast, both, f"--attack.shard={index}/{count}")
        assert f"letters: shard {index}/{count}, " in outcome.out
        assert "attack merge --run done" in outcome.out
        assert "clean accuracy" not in outcome.out
        # A figure of a part is none.
        assert results("done") == before
    assert not (FOLDER / "letters.jsonl").exists()
    outcome = merge(steadfast)
    assert outcome.status == 0, outcome.err
    assert filed(names) == whole
    assert results("done")["seconds"]["attack/letters"] > 0
    rows = [word[0] for word in re.findall(r"(?m)^(\w+) +([01]\.\d+)", outcome.out)]
    assert rows == names
    assert "mean accuracy" not in outcome.out  # of one of the six
    # Once more, or without shards, nothing changes.
    assert merge(steadfast, f"--attack={letters}").status == 0
    assert attack(steadfast, both).status == 0
    assert filed(names) == whole


def test_a_full_disk_while_merging(letters: str, steadfast: Steadfast) -> None:
    for index in (1, 2):
        attack(steadfast, f"--attack={letters}", f"--attack.shard={index}/2", count=2)
    (FOLDER / f".letters.html.{os.getpid()}.part").symlink_to("/dev/full")
    outcome = merge(steadfast)
    assert outcome.status == 1
    assert "letters.html: No space left on device" in outcome.err
    outcome = merge(steadfast)
    assert outcome.status == 0, outcome.err


def test_what_is_missing_is_named(letters: str, steadfast: Steadfast) -> None:
    assert "got no shards of any attack in runs/done/attacks" in merge(steadfast).err
    for index in (1, 4):
        attack(steadfast, f"--attack={letters}", f"--attack.shard={index}/5", count=9)
    (FOLDER / "letters.shard-4-of-5.json").unlink()
    outcome = merge(steadfast)
    assert outcome.status == 1
    assert "got letters in 5 shards" in outcome.err
    assert "(missing: 2, 3, 5; without .json: 4)" in outcome.err
    assert not (FOLDER / "letters.jsonl").exists()
    assert "there are those of letters" in merge(steadfast, "--attack", "pwws").err


def test_shards_of_other_settings_are_refused(letters: str, steadfast: Steadfast) -> None:
    word = f"--attack={letters}"
    attack(steadfast, word, "--attack.shard=1/2", count=4)
    attack(steadfast, word, "--attack.shard=2/2", "--seed=1", count=6)
    outcome = merge(steadfast)
    assert outcome.status == 1
    assert "in shard 2/2 of letters than in 1/2: seed 0 -> 1, chosen 4 -> 6; " in outcome.err
    # The same shard is refused where it has other settings, and where the whole attack has.
    once = ["attack", "--run=done", word, "--attack.shard=1/2", *QUIET, "--seed=2"]
    assert "got other settings than those of runs/done/attacks/letters.shard-1-of-2.jsonl" in (
        steadfast(once).err
    )
    attack(steadfast, word, count=3)
    outcome = steadfast(once, "--attack.shard=1/3")
    assert outcome.status == 1
    assert "got other settings than those of runs/done/attacks/letters.jsonl: seed 0 -> 2" in (
        outcome.err
    )
    attack(steadfast, word, "--attack.shard=1/3", count=4)
    assert "got shards of letters in 2 and in 3 parts" in merge(steadfast).err


@pytest.mark.slow
def test_more_samples_go_on(letters: str, steadfast: Steadfast) -> None:
    word = f"--attack={letters}"
    attack(steadfast, word, count=5)
    for count in (8, 15):
        for index in (1, 2):
            attack(steadfast, word, f"--attack.shard={index}/2", count=count)
    former = comparable(str(FOLDER / "letters.jsonl"))
    assert merge(steadfast, "--attack.show=1").status == 0
    every = comparable(str(FOLDER / "letters.jsonl"))
    assert len(every) == 15
    assert all(one in every for one in former)
    attack(steadfast, word, "--attack.tag=whole", count=15)
    assert comparable(str(FOLDER / "letters-whole.jsonl")) == every


def test_more_shards_than_samples(letters: str, steadfast: Steadfast) -> None:
    for index in (1, 2, 3):
        attack(steadfast, f"--attack={letters}", f"--attack.shard={index}/3", count=2)
    assert merge(steadfast).status == 0
    assert len(lines(FOLDER / "letters.jsonl")) == 2


def test_damaged_shards(letters: str, steadfast: Steadfast) -> None:
    for index in (1, 2):
        attack(steadfast, f"--attack={letters}", f"--attack.shard={index}/2", count=6)
    path = FOLDER / "letters.shard-2-of-2.jsonl"
    content = path.read_text()
    path.write_text("\n".join(content.splitlines()[:-1]) + "\n")
    assert "got 2 records in" in merge(steadfast).err
    path.write_text((FOLDER / "letters.shard-1-of-2.jsonl").read_text())
    assert "(3 of samples that other records are about)" in merge(steadfast).err
    path.write_text(content)
    side = path.with_suffix(".json")
    side.write_text(json.dumps({**json.loads(side.read_text()), "shard": {"shard": "2/2"}}))
    assert "unreadable content, expected the end of shard 2/2" in merge(steadfast).err
    assert "attack/letters/accuracy" not in results("done")["metrics"]


def test_shards_of_two_machines(letters: str, steadfast: Steadfast) -> None:
    shutil.copytree("runs/done", "elsewhere/done")
    attack(steadfast, f"--attack={letters}", count=7)
    whole = filed(["letters"])
    shutil.rmtree("runs/done")
    shutil.copytree("elsewhere/done", "runs/done")
    attack(steadfast, f"--attack={letters}", "--attack.shard=1/2", count=7)
    there = ["--runs_dir=elsewhere", "--run=done", "--num_samples=7", *ALONE, *QUIET]
    second = steadfast("attack", there, f"--attack={letters}", "--attack.shard=2/2")
    assert second.status == 0, second.err
    for path in Path("elsewhere/done/attacks").glob("letters.shard-2-of-2.*"):
        shutil.copy(path, FOLDER)
    shutil.copytree("runs/done", "laptop/done", ignore=shutil.ignore_patterns("*.ckpt"))
    assert merge(steadfast).status == 0
    assert filed(["letters"]) == whole
    # Neither model nor checkpoint is needed.
    outcome = merge(steadfast, "--runs_dir=laptop")
    assert outcome.status == 0, outcome.err
    found = json.loads(Path("laptop/done/results.json").read_text())
    assert found["metrics"] == results("done")["metrics"]


def test_shards_of_another_checkpoint(letters: str, steadfast: Steadfast) -> None:
    attack(steadfast, f"--attack={letters}", "--attack.shard=1/1", count=3)
    Path(BEST).write_bytes(Path("runs/done/checkpoints/last.ckpt").read_bytes())
    outcome = merge(steadfast)
    assert outcome.status == 1
    assert "got shards of letters of the checkpoint " in outcome.err


def test_a_run_that_a_shard_begins(letters: str, steadfast: Steadfast) -> None:
    stored = yaml.safe_load(Path("runs/done/config.yaml").read_text())
    whole = {key: stored[key] for key in ("model", "data", "seed_everything")}
    Path("a.yaml").write_text(yaml.safe_dump(whole))
    shutil.copy(BEST, "some.ckpt")
    words = ["--config=a.yaml", "--ckpt_path=some.ckpt", "--run=new", f"--attack={letters}"]
    for index in (1, 2):
        shard = [f"--attack.shard={index}/2", "--num_samples=5"]
        outcome = steadfast("attack", words, shard, QUIET)
        assert outcome.status == 0, outcome.err
    outcome = steadfast("attack", "merge", "--run=new")
    assert outcome.status == 0, outcome.err
    assert results("new")["metrics"]["attack/letters/samples"] == 5


def test_what_is_no_shard(letters: str, steadfast: Steadfast) -> None:
    outcome = steadfast("attack", "--run=done", f"--attack={letters}", "--attack.shard=4/3", QUIET)
    assert outcome.status == 1
    assert "got shard '4/3', expected I/N" in outcome.err


@pytest.mark.slow
def test_a_killed_shard_goes_on(trained: Path, steadfast: Steadfast) -> None:
    Path("slow.py").write_text(SLOW)
    spec = {**LETTERS, "transformation": {"class_path": "slow.Slow"}}
    Path("slow.yaml").write_text(yaml.safe_dump(spec))
    python_path = f"{Path.cwd()}:{Path(__file__).parents[2]}"
    words = ["--run=done", "--attack=slow.yaml", "--num_samples=40", "--attack.in_flight=3"]
    command = ["attack", *words, "--attack.shard=2/2", *QUIET]
    program = Piped(*command, PYTHONPATH=python_path)
    part = FOLDER / "slow.shard-2-of-2.parts" / "rank-0.jsonl"
    while not part.is_file() or part.read_bytes().count(b'"sample_id"') < 4:
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    done = part.read_bytes().count(b'"sample_id"')
    assert "(missing: 1; not ended: 2)" in merge(steadfast).err
    again = Piped(*command, PYTHONPATH=python_path, PAUSE="0")
    _, err = again.communicate()
    assert again.returncode == 0, err
    assert f"{done} samples were done before" in err
    assert len(lines(FOLDER / "slow.shard-2-of-2.jsonl")) == 20


@pytest.mark.slow
@pytest.mark.distributed
def test_a_shard_by_two_processes(letters: str, steadfast: Steadfast) -> None:
    word = f"--attack={letters}"
    attack(steadfast, word, "--attack.tag=one", count=13)
    attack(steadfast, word, "--attack.shard=1/2", count=13)
    words = ["--run=done", word, "--num_samples=13", "--attack.shard=2/2"]
    out = run_two("attack", *words, *QUIET, *TWO, where=Path.cwd()).out
    assert out.count("letters: shard 2/2, 6 of 13 samples") == 1
    assert merge(steadfast).status == 0
    found = [comparable(str(FOLDER / f"{name}.jsonl")) for name in ("letters", "letters-one")]
    assert found[0] == found[1]
