"""The scripts of `examples/` run, and stay short."""

import runpy
import shlex
from pathlib import Path

import pytest
import yaml

from app.commands import check
from examples import attack_your_own_model, certify_a_checkpoint, train_in_python

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40


@pytest.mark.parametrize(
    "path",
    [path for path in EXAMPLES if "sys.argv" in path.read_text()],
    ids=lambda path: path.stem,
)
def test_an_example_without_its_arguments_shows_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [str(path)])
    with pytest.raises(SystemExit, match=f"examples[./]{path.stem}"):
        runpy.run_path(str(path), run_name="__main__")


def test_a_function_of_ones_own_is_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    attack_your_own_model.main()
    table, *records = capsys.readouterr().out.split("\nsucceeded: ")
    assert "deepwordbug" in table
    assert records
    for record in records:
        text, adversarial = record.splitlines()[0].split(" -> ")
        before, after = attack_your_own_model.classify([text, adversarial])
        assert before.index(max(before)) != after.index(max(after))


def test_a_checkpoint_certifies_texts(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["not a bad evening", "bland food"]
    certify_a_checkpoint.main([str(trained / "checkpoints" / "best.ckpt"), *texts])
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == texts
    assert all(line.startswith(("negative", "positive")) for line in lines)


def test_olsa_is_trained_attacked_and_certified_in_python(here: Path) -> None:
    found = train_in_python.main(
        1,
        texts=64,
        accelerator="cpu",
        limit_test_batches=1,
        limit_val_batches=0,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # An attack inside the ball cannot undo what is certified.
    assert found["certify/accuracy@0.5"] <= found["test/pgd_accuracy"] <= found["test/accuracy"]
    assert not list(here.iterdir())


def test_the_command_of_the_workflow_can_be_given() -> None:
    workflow = yaml.safe_load((FOLDER / "gate" / "workflow.yml").read_text())
    steps = workflow["jobs"]["check"]["steps"]
    (command,) = [step["run"] for step in steps if "steadfast check" in step.get("run", "")]
    options = check.parser().parse_args(shlex.split(command)[2:])
    assert (options.victim, options.max_flip_rate) == ("python:my_filter:classify", 0.05)
    # The report is shown although the check has failed.
    assert all(step.get("if") == "always()" for step in steps[-2:])
