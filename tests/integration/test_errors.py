import os
import re
from pathlib import Path

import pytest
import torch

from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast, results

EPOCH = "--trainer.max_epochs=1"


def test_a_logger_without_a_folder(here: Path, steadfast: Steadfast) -> None:
    arguments = ["fit", *OLSA, *REVIEWS, *TINY, EPOCH, "--run=a", "--trainer.logger=CSVLogger"]
    outcome = steadfast(arguments)
    assert outcome.status == 2
    assert outcome.err.startswith(
        "error: got --trainer.logger CSVLogger without save_dir, expected "
        "--trainer.logger.save_dir as well (`"
    )
    # What it says works.
    assert steadfast(arguments, "--trainer.logger.save_dir=logs").status == 0
    assert list(Path("logs").rglob("metrics.csv"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model.no_such=1"], "no_such"),
        (["--trainer.max_epoch=1"], "max_epoch"),
        (["--model.width=wide"], "got --model.width wide, expected a whole number"),
        (["--run=../elsewhere"], "expected a name (letters, digits and . _ @ + = -, a letter or"),
        (["--run="], "got --run '', expected a name (letters"),
        (["--checkpoint.mode=best"], "got --checkpoint.mode best, expected one of min, max"),
        (["--checkpoint_every_n_minutes=-1"], "minutes -1, expected NonNegativeFloat (v>=0)"),
        (["--config=absent.yaml"], "absent.yaml"),
    ],
)
def test_a_wrong_command_line_has_status_2(
    here: Path, steadfast: Steadfast, arguments: list[str], message: str
) -> None:
    outcome = steadfast("fit", OLSA, REVIEWS, TINY, arguments)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.endswith(" (`steadfast fit --help` lists the options)\n")
    assert outcome.err.count("\n") == 1
    assert not list(here.iterdir())


def test_unknown_key_in_a_settings_file(here: Path, steadfast: Steadfast) -> None:
    Path("c.yaml").write_text("model:\n  class_path: OLSA\ndata: Reviews\nmodle: 1\n")
    outcome = steadfast("fit", "--config=c.yaml")
    assert outcome.status == 2
    assert "modle" in outcome.err


def test_no_command(here: Path, steadfast: Steadfast) -> None:
    assert steadfast().status == 2


def test_missing_data_directory(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast(
        "fit", OLSA, "--data=SST2", "--data.data_dir=nowhere", TINY, EPOCH, "--run=a"
    )
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1].startswith("error: ")
    assert "nowhere" in outcome.err
    assert "Traceback" not in outcome.err
    # What is corrected is not refused as another setting of a run that never began.
    assert not Path("runs/a/config.yaml").exists()


def test_debug_shows_where(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*OLSA, "--data=SST2", "--data.data_dir=nowhere", *TINY, EPOCH]
    assert "Traceback" in steadfast("fit", arguments, "--debug").err
    monkeypatch.setenv("STEADFAST_DEBUG", "1")
    assert "Traceback" in steadfast("fit", arguments).err


def test_a_setting_out_of_range(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("fit", "--model=OLSA", "--model.depth=-1", REVIEWS, TINY)
    assert outcome.status == 1
    assert outcome.err.strip() == "error: got depth=-1, expected a whole number of at least 0"


@pytest.mark.parametrize("command", ["test", "certify", "predict", "validate", "fit"])
def test_corrupt_checkpoint(trained: Path, steadfast: Steadfast, command: str) -> None:
    extra = ["--trainer.max_epochs=5"] if command == "fit" else []
    for path in (trained / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:1000])
    outcome = steadfast(command, "--run=done", extra)
    assert outcome.status == 1
    last = outcome.err.strip().splitlines()[-1]
    assert re.match(r"error: .*got checkpoint runs/done/checkpoints/.*cannot be read", last)
    assert "Traceback" not in outcome.err


def test_foreign_and_absent_checkpoints(trained: Path, steadfast: Steadfast) -> None:
    torch.save({"state_dict": {}}, "foreign.ckpt")
    arguments = [*OLSA, *REVIEWS, *TINY]
    outcome = steadfast("test", arguments, "--ckpt_path=foreign.ckpt")
    assert outcome.status == 1
    assert "was not written by this project" in outcome.err
    outcome = steadfast("test", arguments, "--ckpt_path=absent.ckpt")
    assert outcome.status == 1
    assert "absent.ckpt, not found" in outcome.err


def test_checkpoint_of_another_method(trained: Path, steadfast: Steadfast) -> None:
    best = "--ckpt_path=runs/done/checkpoints/best.ckpt"
    outcome = steadfast("test", "--model=TextClassifier", REVIEWS, TINY, best, "--run=b")
    assert outcome.status == 1
    assert "of method OLSA, expected TextClassifier" in outcome.err


def test_absent_run(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("test", OLSA, REVIEWS, "--run=absent")
    assert outcome.status == 1
    assert outcome.err.strip() == (
        "error: got run 'absent', which is not in runs (there are: done); train it first"
    )


def test_a_mistyped_run_or_checkpoint(trained: Path, steadfast: Steadfast) -> None:
    cases = {
        "--run=absent": "got run 'absent', which is not in runs (there are: done); train it first",
        "--ckpt_path=absent.ckpt": "got checkpoint absent.ckpt, not found; expected one "
        "written by `fit` or `train`",
        "--pgd.steps=2": "got neither --run nor --ckpt_path, expected one of them: `test` is about "
        "a trained model",
    }
    for argument, message in cases.items():
        outcome = steadfast("test", argument, TINY)
        assert outcome.status == 1
        assert outcome.err == f"error: {message}\n"


def test_unknown_monitor(here: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("fit", OLSA, REVIEWS, TINY, EPOCH, "--checkpoint.monitor=val/f2", "--run=a")
    assert outcome.status == 1
    assert "expected auto or one of val/accuracy, val/f1, val/loss, val/" in outcome.err


def test_other_classes(trained: Path, steadfast: Steadfast) -> None:
    Path("d/ag_news").mkdir(parents=True)
    Path("d/ag_news/test.jsonl").write_text('{"text": "a b", "label": 0}\n')
    arguments = [
        "--ckpt_path=runs/done/checkpoints/best.ckpt",
        "--data=AGNews",
        "--data.data_dir=d",
    ]
    outcome = steadfast("test", OLSA, arguments, TINY, "--run=b")
    assert outcome.status == 1
    assert "expected the model's ['negative', 'positive']" in outcome.err
    assert "use a corpus of the same task" in outcome.err
    assert "--data.classes" not in outcome.err


def test_classes_with_other_names(trained: Path, steadfast: Steadfast) -> None:
    Path("a.tsv").write_text("text\tlabel\na b\t0\nb a\t1\n")
    own = ["--data=TextFiles", "--data.train=a.tsv", "--data.test=a.tsv"]
    source = ["--ckpt_path=runs/done/checkpoints/best.ckpt", "--run=b", *TINY]
    outcome = steadfast("test", source, own)
    assert outcome.status == 1
    assert outcome.err.endswith("does: --data.classes '[negative, positive]'\n")
    outcome = steadfast("test", source, own, "--data.classes", "[negative, positive]", ATTACK)
    assert outcome.status == 0, outcome.err


def test_other_data_than_the_runs(trained: Path, steadfast: Steadfast) -> None:
    outcome = steadfast("test", "--run=done", TINY, "--data=TextFiles", "--data.test=a.tsv")
    assert outcome.status == 1
    best = "runs/done/checkpoints/best.ckpt"
    assert outcome.err.endswith(f"a name of its own: --ckpt_path {best} --run NEW\n")


def test_bad_rows_stand_on_lines_of_their_own(here: Path, steadfast: Steadfast) -> None:
    Path("a.tsv").write_text("text\tlabel\na b\t0\nb a\t1\n\t0\n \t1\n")
    outcome = steadfast("fit", OLSA, TINY, EPOCH, "--data=TextFiles", "--data.train=a.tsv")
    assert outcome.status == 1
    error, *rows = outcome.err.splitlines()[:-1]
    assert error.startswith("error: got 2 bad row(s), expected none")
    assert [row.split(":")[0] for row in rows] == ["a.tsv, line 4", "a.tsv, line 5"]


def test_full_disk_while_writing_results(trained: Path, steadfast: Steadfast) -> None:
    # /dev/full gives the same error as a full disk, from the kernel.
    path = trained / "results.json"
    before = path.read_text()
    part = trained / f".results.json.{os.getpid()}.part"
    part.symlink_to("/dev/full")
    outcome = steadfast("test", "--run=done", TINY, ATTACK)
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1] == (
        "error: could not write runs/done/results.json: No space left on device; what was there "
        "before is unchanged; make room or correct the permissions, then give the same command "
        "again"
    )
    assert path.read_text() == before
    assert not list(trained.glob(".*.part"))
    assert steadfast("test", "--run=done", TINY, ATTACK).status == 0


def test_full_disk_at_the_end_of_a_fit(trained: Path, steadfast: Steadfast) -> None:
    (trained / f".results.json.{os.getpid()}.part").symlink_to("/dev/full")
    (trained / "results.json").unlink()
    arguments = ["--run=done", "--trainer.max_epochs=3"]
    assert steadfast("fit", arguments).status == 1
    assert not (trained / "results.json").exists()
    # Nothing is lost: the same command finds the training done, and notes it.
    assert steadfast("fit", arguments).status == 0
    assert set(results("done")["seconds"]) == {"fit"}


def test_full_disk_while_writing_a_checkpoint(trained: Path, steadfast: Steadfast) -> None:
    last = trained / "checkpoints" / "last.ckpt"
    before = last.read_bytes()
    (last.parent / f".last.ckpt.{os.getpid()}.part").symlink_to("/dev/full")
    outcome = steadfast("fit", "--run=done", "--trainer.max_epochs=3")
    assert outcome.status == 1
    assert "could not write" in outcome.err
    assert "No space left on device" in outcome.err
    assert last.read_bytes() == before
    assert steadfast("fit", "--run=done", "--trainer.max_epochs=3").status == 0


def test_a_damaged_results_file_is_not_overwritten(trained: Path, steadfast: Steadfast) -> None:
    (trained / "results.json").write_text('{"run"')
    outcome = steadfast("test", "--run=done", TINY, ATTACK)
    assert outcome.status == 1
    assert "cannot be read" in outcome.err
    assert (trained / "results.json").read_text() == '{"run"'


@pytest.mark.parametrize("lists", ["absent.json", "."])
def test_a_file_that_is_not_there_is_named(here: Path, steadfast: Steadfast, lists: str) -> None:
    arguments = [
        "encode-words",
        f"--lists={lists}",
        "--texts",
        "some.txt",
        "--output",
        "words.json",
    ]
    outcome = steadfast("resources", arguments)
    assert outcome.status == 1
    assert outcome.err.startswith(f"error: got {lists}, ")
    assert len(outcome.err.splitlines()) == 1
    assert not (here / "words.json").exists()
