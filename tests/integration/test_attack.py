"""`attack` by the real command line, with attacks that need no resources."""

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attacks.outcome import from_line
from tests.faults.program import Piped
from tests.integration.conftest import OLSA, QUIET, Steadfast, lines, results
from tests.integration.several import TWO, run_two
from tests.integration.test_matrix import corpus
from training.checkpoint_callbacks import AtomicCheckpointIO

BEST = "runs/done/checkpoints/best.ckpt"
LETTERS = {
    "transformation": {
        "class_path": "Composite",
        "init_args": {
            "transformations": [
                {"class_path": "DeleteCharacter"},
                {"class_path": "SubstituteCharacter"},
                {"class_path": "Homoglyphs"},
            ]
        },
    },
    "search": {"class_path": "Greedy", "init_args": {"ranking": "unk"}},
    "pre_constraints": [{"class_path": "RepeatModification"}],
}


@pytest.fixture
def letters(trained: Path) -> str:
    """A file with an attack, in the working directory with a finished run."""
    Path("letters.yaml").write_text(yaml.safe_dump(LETTERS))
    return "letters.yaml"


def attack(*arguments: str) -> list[str]:
    return ["attack", *arguments, *QUIET]


def comparable(path: str) -> list[dict[str, Any]]:
    """Records without what depends on the clock, or on what else was in a batch."""
    return [
        {
            **{key: value for key, value in line.items() if key != "seconds"},
            "score": line["score"] and round(line["score"], 3),
            "adversarial_score": line["adversarial_score"] and round(line["adversarial_score"], 3),
        }
        for line in lines(path)
    ]


def test_as_the_readme_has_it(trained: Path, steadfast: Steadfast) -> None:
    before = results("done")
    outcome = steadfast(
        attack(
            "--ckpt_path",
            BEST,
            "--attack",
            "deepwordbug",
            "--num_samples",
            "30",
            "--attack.show",
            "2",
        )
    )
    assert outcome.status == 0, outcome.err
    assert "deepwordbug" in outcome.out
    assert "\x1b" not in outcome.out  # no terminal
    assert "sample/s" not in outcome.err
    assert outcome.out.strip().endswith("runs/done")

    records = [from_line(line) for line in lines("runs/done/attacks/deepwordbug.jsonl")]
    assert len(records) == 30
    assert [one.sample_id for one in records] == sorted({one.sample_id for one in records})
    found = results("done")
    metrics = found["metrics"]
    assert before["metrics"].items() <= metrics.items()
    right = [one for one in records if one.prediction == one.label]
    standing = [one for one in right if one.outcome == "failed"]
    assert metrics["attack/deepwordbug/clean_accuracy"] == len(right) / 30
    assert metrics["attack/deepwordbug/accuracy"] == len(standing) / 30
    assert metrics["attack/mean_accuracy"] == metrics["attack/deepwordbug/accuracy"]
    assert found["seconds"]["attack/deepwordbug"] > 0
    assert outcome.out.count("\n  + ") == min(2, len(right) - len(standing))

    side = json.loads(Path("runs/done/attacks/deepwordbug.json").read_text())
    assert side["summary"]["accuracy"]["value"] == metrics["attack/deepwordbug/accuracy"]
    html = Path("runs/done/attacks/deepwordbug.html").read_text()
    for fact in ("done", "OLSA, seed", BEST, "reviews, test split", "30, drawn", "untargeted"):
        assert f"<td>{fact}" in html
    assert html.count("<tr><td>") >= 30
    assert not Path("runs/done/attacks/deepwordbug.parts").exists()

    events = EventAccumulator(str(trained), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    assert "attack/deepwordbug/accuracy" in events.Tags()["scalars"]
    assert "attack/deepwordbug/examples/text_summary" in events.Tags()["tensors"]

    # A later table names it.
    outcome = steadfast("test", "--run=done", "--pgd.epsilon=0", "--baseline=false", QUIET)
    assert "test/bag_accuracy" not in results("done")["metrics"]
    assert re.search(r"accuracy under deepwordbug .* on 30 texts, untargeted; ", outcome.out)


def test_the_same_command_does_nothing_again(letters: str, steadfast: Steadfast) -> None:
    command = attack("--run=done", f"--attack={letters}", "--num_samples=10")
    assert steadfast(command).status == 0
    path = "runs/done/attacks/letters.jsonl"
    before, table = Path(path).read_bytes(), results("done")["metrics"]
    outcome = steadfast(command)
    assert outcome.status == 0, outcome.err
    assert "done before" not in outcome.err
    assert Path(path).read_bytes() == before
    assert results("done")["metrics"] == table


def test_more_samples_go_on_from_those_that_are_done(letters: str, steadfast: Steadfast) -> None:
    path = "runs/done/attacks/letters.jsonl"
    first: list[dict[str, Any]] = []
    for count in (5, 12):
        arguments = (f"--attack={letters}", f"--num_samples={count}", "--attack.in_flight=7")
        assert steadfast(attack("--run=done", *arguments)).status == 0
        assert len(lines(path)) == count
        first = first or lines(path)
    assert [line for line in lines(path) if line in first] == first
    whole = ("--attack.tag=whole", f"--attack={letters}", "--num_samples=12")
    assert steadfast(attack("--run=done", *whole, "--attack.batch_size=3")).status == 0
    assert comparable("runs/done/attacks/letters-whole.jsonl") == comparable(path)
    # Fewer than there are: nothing is thrown away.
    fewer = (f"--attack={letters}", "--num_samples=3")
    assert steadfast(attack("--run=done", *fewer)).status == 0
    assert len(lines(path)) == 12
    assert results("done")["metrics"]["attack/letters/samples"] == 12


def test_other_settings_are_refused(letters: str, steadfast: Steadfast) -> None:
    command = attack("--run=done", f"--attack={letters}", "--num_samples=3")
    assert steadfast(command).status == 0
    before = Path("runs/done/attacks/letters.jsonl").read_bytes()
    for change, message in (
        ("--seed=1", "seed 0 -> 1"),
        ("--attack.query_budget=20", "query_budget null -> 20"),
        ("--attack.choice=first", 'choice "drawn" -> "first"'),
        ("--attack.split=validation", 'split "test" -> "validation"'),
        ("--attack.goal=positive", 'goal "untargeted" -> "positive"'),
    ):
        outcome = steadfast(command, change)
        assert outcome.status == 1
        assert message in outcome.err
        assert "--attack.tag NAME" in outcome.err
        assert Path("runs/done/attacks/letters.jsonl").read_bytes() == before
    assert steadfast(command, "--seed=1", "--attack.tag=other").status == 0
    assert results("done")["metrics"]["attack/letters-other/samples"] == 3


def test_another_checkpoint_is_refused(letters: str, steadfast: Steadfast) -> None:
    command = attack(f"--attack={letters}", "--num_samples=3", "--run=done")
    assert steadfast(command).status == 0
    # Of another size, though it may hold the same weights.
    Path(BEST).write_bytes(Path("runs/done/checkpoints/last.ckpt").read_bytes())
    outcome = steadfast(command)
    assert outcome.status == 1
    assert "checkpoint " in outcome.err


def test_several_attacks(letters: str, steadfast: Steadfast) -> None:
    Path("other.yaml").write_text(yaml.safe_dump({**LETTERS, "name": "second"}))
    recipes = f"--attack=deepwordbug, {letters},other.yaml"
    command = attack("--run=done", recipes, "--num_samples=8")
    outcome = steadfast(command)
    assert outcome.status == 0, outcome.err
    rows = [line.split()[0] for line in outcome.out.splitlines() if re.match(r"\w+ +[01]\.", line)]
    assert rows == ["deepwordbug", "letters", "second"]
    # One that cannot be filed stops all before the first begins.
    Path("runs/done/attacks/deepwordbug.json").unlink()
    before = results("done")
    outcome = steadfast(command, "--attack=other.yaml,deepwordbug", "--num_samples=9")
    assert outcome.status == 1
    assert results("done") == before


def test_a_target(letters: str, steadfast: Steadfast) -> None:
    command = attack("--run=done", f"--attack={letters}", "--num_samples=40")
    assert steadfast(command, "--attack.goal=positive").status == 0
    assert results("done")["metrics"]["attack/letters/target"] == 1
    for one in map(from_line, lines("runs/done/attacks/letters.jsonl")):
        assert one.outcome == "skipped" or one.prediction == 0
        if one.outcome == "succeeded":
            assert one.adversarial_prediction == 1


def test_a_blind_score_is_no_robustness(letters: str, steadfast: Steadfast) -> None:
    # A model as confident as one that is trained with a margin of 100.
    checkpoint = torch.load(BEST, weights_only=True)
    for name, weights in checkpoint["state_dict"].items():
        if name.endswith("head.weight"):
            weights.mul_(1e4)
    AtomicCheckpointIO().save_checkpoint(checkpoint, BEST)
    command = attack("--run=done", f"--attack={letters}", "--num_samples=20")
    outcome = steadfast(command, "--attack.score=probability")
    assert outcome.status == 0, outcome.err
    metrics = results("done")["metrics"]
    assert metrics["attack/letters/saturated"] > 0.5
    assert metrics["attack/letters/unreliable"] == 1
    assert "attack/letters/accuracy" not in metrics
    assert "attack/mean_accuracy" not in metrics
    assert "no measure of robustness" in outcome.err
    assert "?" in outcome.out
    outcome = steadfast(command, "--attack.tag=margin")
    metrics = results("done")["metrics"]
    assert metrics["attack/letters-margin/unreliable"] == 0
    assert metrics["attack/letters-margin/accuracy"] < metrics["attack/letters/unreliable_accuracy"]


@pytest.mark.parametrize(
    "kind", [pytest.param("TextFiles-single", marks=pytest.mark.slow), "TextFiles-pair"]
)
def test_other_corpora(here: Path, steadfast: Steadfast, kind: str) -> None:
    Path("letters.yaml").write_text(
        yaml.safe_dump(
            {
                **LETTERS,
                "pre_constraints": [{"class_path": "Columns", "init_args": {"names": None}}],
            }
        )
    )
    arguments = [*OLSA, *corpus(kind), *QUIET, "--trainer.max_epochs=1", "--run=a"]
    assert steadfast("fit", arguments).status == 0
    command = attack("--run=a", "--attack=letters.yaml", "--attack.show=1")
    outcome = steadfast(command)
    assert outcome.status == 0, outcome.err
    records = [from_line(line) for line in lines("runs/a/attacks/letters.jsonl")]
    assert len(records) == 15
    assert {isinstance(one.text, tuple) for one in records} == {kind == "TextFiles-pair"}
    validation = ("--attack.split=validation", "--attack.tag=v")
    assert steadfast(command, validation).status == 0
    assert len(lines("runs/a/attacks/letters-v.jsonl")) == 12


def test_a_split_without_labels(here: Path, steadfast: Steadfast, letters_file: str) -> None:
    arguments = [*OLSA, *corpus("TextFiles-single"), *QUIET, "--trainer.max_epochs=1", "--run=a"]
    assert steadfast("fit", arguments).status == 0
    rows = [{**row, "label": None} for row in lines("test.jsonl")]
    Path("test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = steadfast(attack("--run=a", letters_file))
    assert outcome.status == 1
    assert "got a test split without labels" in outcome.err
    assert "--attack.split validation" in outcome.err
    assert steadfast(attack("--run=a", letters_file, "--attack.split=validation")).status == 0


@pytest.fixture
def letters_file(here: Path) -> str:
    """The same attack, without a run."""
    Path("letters.yaml").write_text(yaml.safe_dump(LETTERS))
    return "--attack=letters.yaml"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attack=textfoler"], "got attack 'textfoler', expected all, worst, one of a2t"),
        (["--attack=letters.yaml", "--num_samples=0"], "got num_samples=0"),
        (["--attack=letters.yaml", "--attack.goal=happy"], "0 (negative), 1 (positive)"),
        (["--attack=letters.yaml", "--attack.goal=2"], "got goal '2'"),
        (["--attack=nowhere.yaml"], "got attack nowhere.yaml, not found"),
        (
            ["--attack=letters.yaml", "--attack.resources=nowhere"],
            "got nowhere, which is not there",
        ),
        (["--attack=letters.yaml", "--attack.tag=a/b"], "got tag 'a/b'"),
    ],
)
def test_what_cannot_be(
    letters: str, steadfast: Steadfast, arguments: list[str], message: str
) -> None:
    before = sorted(path.name for path in Path("runs/done").rglob("*"))
    outcome = steadfast(attack("--run=done", *arguments))
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1].startswith("error: ")
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    after = sorted(path.name for path in Path("runs/done").rglob("*"))
    assert [name for name in after if name != "attacks"] == before


@pytest.mark.parametrize(
    "arguments",
    [["--attack.nmu_samples=3"], ["--num_samples=x"], ["--attack.split=dev"], ["--attack"]],
)
def test_a_wrong_command_line_has_status_2(
    trained: Path, steadfast: Steadfast, arguments: list[str]
) -> None:
    assert steadfast(attack("--run=done", *arguments)).status == 2


def test_a_dry_run_leaves_nothing(letters: str, steadfast: Steadfast) -> None:
    before = results("done")
    outcome = steadfast(attack("--run=done", f"--attack={letters}", "--trainer.fast_dev_run=1"))
    assert outcome.status == 0, outcome.err
    assert not Path("runs/done/attacks").exists()
    assert results("done") == before


SLOW = """
import os
import time
from attacks.transformations import DeleteCharacter

class Slow(DeleteCharacter):
    def propose(self, jobs):
        time.sleep(float(os.environ.get("PAUSE", "0.02")))
        return super().propose(jobs)
"""


@pytest.mark.parametrize(
    ("signum", "status"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGKILL, -9, marks=pytest.mark.slow),
    ],
)
def test_a_kill_costs_what_was_in_flight(
    trained: Path, steadfast: Steadfast, signum: signal.Signals, status: int
) -> None:
    Path("slow.py").write_text(SLOW)
    spec = {**LETTERS, "transformation": {"class_path": "DeleteCharacter"}}
    Path("quick.yaml").write_text(yaml.safe_dump(spec))
    spec["transformation"] = {"class_path": "slow.Slow"}
    Path("slow.yaml").write_text(yaml.safe_dump(spec))
    command = attack("--run=done", "--num_samples=60", "--attack.in_flight=4")
    python_path = f"{Path.cwd()}:{Path(__file__).parents[2]}"
    program = Piped(*command, "--attack=slow.yaml", PYTHONPATH=python_path)
    part = Path("runs/done/attacks/slow.parts/rank-0.jsonl")
    while not part.is_file() or part.read_bytes().count(b'"sample_id"') < 6:
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)
    program.send_signal(signum)
    _, err = program.communicate()
    assert program.returncode == status, err
    assert "Traceback" not in err
    if signum != signal.SIGKILL:
        assert "the same command with --run done resumes from there" in err
    assert not Path("runs/done/attacks/slow.jsonl").exists()
    done = part.read_bytes().count(b'"sample_id"')
    assert 5 <= done < 60

    again = Piped(*command, "--attack=slow.yaml", PYTHONPATH=python_path, PAUSE="0")
    _, err = again.communicate()
    assert again.returncode == 0, err
    assert f"{done} samples were done before" in err
    assert steadfast(command, "--attack=quick.yaml").status == 0
    assert comparable("runs/done/attacks/slow.jsonl") == comparable("runs/done/attacks/quick.jsonl")


def test_a_model_that_breaks_down(
    letters: str, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lit_modules import OLSA as Module

    real, calls = Module.predict_texts, 0

    def fragile(self: Any, texts: Any, *, batch_size: int = 256) -> Any:
        nonlocal calls
        calls += 1
        answer = real(self, texts, batch_size=batch_size)
        return answer * float("nan") if calls == 30 else answer

    command = attack(
        "--run=done", f"--attack={letters}", "--num_samples=30", "--attack.in_flight=3"
    )
    with monkeypatch.context() as patch:
        patch.setattr(Module, "predict_texts", fragile)
        outcome = steadfast(command)
    # It costs the samples whose texts it was asked about, and no other one.
    assert outcome.status == 0, outcome.err
    records = comparable("runs/done/attacks/letters.jsonl")
    errors = [record for record in records if record["outcome"] == "error"]
    assert 1 <= len(errors) <= 3
    assert all("NaN" in record["reason"] for record in errors)
    assert f"{len(errors)} of 30 samples are left out" in outcome.out
    assert steadfast(command, "--attack.tag=sound").status == 0
    sound = {
        record["sample_id"]: record
        for record in comparable("runs/done/attacks/letters-sound.jsonl")
    }
    for record in records:
        if record["outcome"] != "error":
            assert record == sound[record["sample_id"]]


@pytest.mark.distributed
def test_two_processes_do_what_one_does(letters: str, steadfast: Steadfast) -> None:
    command = attack("--run=done", f"--attack={letters}", "--num_samples=31")
    out = run_two(*command, *TWO, "--attack.tag=two", "--attack.show=1", where=Path.cwd()).out
    assert out.count("clean accuracy") == 1
    assert out.count("letters-two\n") == 1
    assert steadfast(command).status == 0
    found = [comparable(f"runs/done/attacks/{name}.jsonl") for name in ("letters-two", "letters")]
    assert found[0] == found[1]
    assert len(found[0]) == 31
    metrics = results("done")["metrics"]
    for name in ("accuracy", "success_rate", "queries", "words_changed"):
        assert metrics[f"attack/letters-two/{name}"] == metrics[f"attack/letters/{name}"]
    # What two have begun, one can go on with: the parts are those of both.
    more = attack("--run=done", f"--attack={letters}", "--num_samples=35", "--attack.tag=two")
    assert steadfast(more).status == 0
    assert len(lines("runs/done/attacks/letters-two.jsonl")) == 35


def test_help_is_whole(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("attack", "--help")
    assert outcome.status == 0
    text = " ".join(outcome.out.split())
    for setting in ("resources", "query_budget", "compat", "goal", "show"):
        assert f"--attack.{setting} " in text
    # Shared options have their short names, and the second way is in the same help.
    for option in ("attack", "num_samples", "seed", "victim", "dataset", "http.chat"):
        assert f" --{option} " in text
    assert steadfast("attack", "--victim=x", "--help").out == outcome.out
    assert "`--attack NAME` is short for `--attack.recipe NAME`" in text


def test_a_missing_checkpoint(letters: str, steadfast: Steadfast) -> None:
    path = "--ckpt_path=runs/done/checkpoints/nowhere.ckpt"
    outcome = steadfast(attack(path, f"--attack={letters}"))
    assert outcome.status == 1
    assert "nowhere.ckpt, not found" in outcome.err


def test_settings_in_a_file(letters: str, steadfast: Steadfast) -> None:
    stored = yaml.safe_load(Path("runs/done/config.yaml").read_text())
    whole = {key: stored[key] for key in ("model", "data", "seed_everything")}
    whole["attack"] = {"recipe": letters, "num_samples": 4}
    Path("a.yaml").write_text(yaml.safe_dump(whole))
    outcome = steadfast("attack", "--config=a.yaml", "--run=done", QUIET)
    assert outcome.status == 0, outcome.err
    assert len(lines("runs/done/attacks/letters.jsonl")) == 4
