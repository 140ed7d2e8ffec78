import errno
import gc
import logging
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from app.cli import main as module
from app.cli.main import entry
from lit_modules import CheckpointError
from training.interrupt import Stopped, interruption


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("got a,\n  expected b"), 1, "error: got a, expected b\n"),
        (CheckpointError("got c"), 1, "error: got c\n"),
        (FileNotFoundError("got d"), 1, "error: got d\n"),
        (TypeError("got a list, expected a name"), 1, "error: got a list, expected a name\n"),
        (TypeError("f() takes 1"), 1, "error: TypeError: f() takes 1 (--debug shows where)\n"),
        (KeyError("e"), 1, "error: KeyError: 'e' (--debug shows where)\n"),
        (ValueError(), 1, "error: ValueError:  (--debug shows where)\n"),
        (SystemExit(2), 2, ""),
        (SystemExit(1), 1, "error: a library ended the program with exit status 1 and no reason\n"),
        (SystemExit(None), 0, ""),
        (SystemExit("text"), 1, "text\n"),
        # Of a worker, say; standard output is whole.
        (BrokenPipeError(32, "Broken pipe"), 1, "error: [Errno 32] Broken pipe\n"),
        (Stopped(signal.SIGINT), 130, "stopped by Ctrl-C: no checkpoint was written for it\n"),
        (Stopped(signal.SIGTERM), 143, "stopped by SIGTERM: no checkpoint was written for it\n"),
        (None, 0, ""),
    ],
)
def test_exit_status(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException | None,
    status: int,
    message: str,
) -> None:
    def fake(_: object) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(module, "main", fake)
    assert entry(["fit"]) == status
    assert capsys.readouterr().err == message


def test_ctrl_c_while_the_data_are_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "check_user_data", fake)
    assert entry(["fit"]) == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C: no checkpoint was written for it\n"


@pytest.mark.parametrize(
    "saved",
    ["checkpoints/last.ckpt", "pgd.parts", "attacks/pwws.parts", "others/step-1-a/pgd.parts"],
)
def test_what_is_saved_names_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: str
) -> None:
    def fake(_: object) -> None:
        interruption.saved = str(tmp_path / "a" / saved)
        raise Stopped(signal.SIGTERM)

    monkeypatch.setattr(module, "main", fake)
    assert entry(["test"]) == 143
    assert capsys.readouterr().err.endswith(f"{saved}; the same command resumes from there\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").touch()
    assert entry(["test"]) == 143
    assert capsys.readouterr().err.endswith("; the same command with --run a resumes from there\n")


def test_a_worker_that_dies_in_the_middle_of_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(_: object) -> None:
        try:
            msg = "DataLoader worker (pid(s) 7) exited unexpectedly"
            raise RuntimeError(msg)
        finally:
            msg = "unexpected pos 64 vs 0"
            raise RuntimeError(msg)

    monkeypatch.setattr(module, "main", fake)
    assert entry(["fit"]) == 1
    said = capsys.readouterr().err
    assert "--data.num_workers has started is gone (DataLoader worker (pid(s) 7)" in said


def test_an_error_that_is_raised_again_ends_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the two is the reason of the other: whoever follows them must come to an end."""
    full = OSError(errno.ENOSPC, "No space left on device", "runs/a/events")

    def fake(_: object) -> None:
        try:
            msg = "you tried to log a value"
            raise ValueError(msg) from full
        finally:
            raise full

    monkeypatch.setattr(module, "main", fake)
    assert entry(["fit"]) == 1
    assert "could not write runs/a/events: No space left on device" in capsys.readouterr().err


def test_what_a_constructor_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(_: object) -> None:
        text = "Does not validate against any of the Union subtypes ..."
        raise ValueError(text) from ValueError("got depth=-1")

    monkeypatch.setattr(module, "main", fake)
    assert entry(["fit"]) == 1
    assert capsys.readouterr().err == "error: got depth=-1\n"


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADFAST_REVISION", "abc123")
    assert entry(["--version"]) == 0
    assert re.fullmatch(r"steadfast \S+ \(git abc123\)\n", capsys.readouterr().out)


@pytest.mark.long
def test_resources_need_no_torch() -> None:
    program = (
        "import sys; from app.cli.main import entry; status = entry(['resources', '--help']); "
        "print(status, [name for name in ('torch', 'pytorch_lightning') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[4],
    )
    assert "usage: " in done.stdout
    assert done.stdout.endswith("0 []\n")


def test_wrong_resources(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry(["resources", "nonsense"]) != 0
    assert "nonsense" in capsys.readouterr().err


def test_files_of_ones_own_are_imported_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_layers.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("STEADFAST_IMPORT", "my_layers, my_layers")
    monkeypatch.setattr(module, "main", lambda argv: None)
    assert entry(["fit"]) == 0
    assert sys.modules.pop("my_layers", None) is not None
    monkeypatch.setenv("STEADFAST_IMPORT", "no_such_layers")
    assert entry(["fit"]) == 1
    assert "No module named 'no_such_layers'" in capsys.readouterr().err


def test_messages_of_lightning_that_nobody_needs(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    messages = ["Seed set to 0", "GPU available: False, used: False", "Restoring states from a"]
    messages += ["Loading `train_dataloader` to estimate", "💡 Tip: litlogger"]
    messages += ["Loaded model weights from b", "`Trainer.fit` stopped: `max_epochs=2` reached."]
    needed = "`Trainer.fit` stopped: `max_steps=7` reached."
    with caplog.at_level(logging.INFO, log.name), warnings.catch_warnings():
        for debug in (False, True):
            module._quieten(debug=debug)
            for message in [*messages, needed]:
                log.info(message)
    assert caplog.messages == [needed, *messages, needed]


def test_loading_searches_for_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    searching: list[bool] = []

    def load(name: str) -> None:
        searching.append(gc.isenabled())
        raise ImportError(name)

    monkeypatch.setenv("STEADFAST_IMPORT", "anything")
    monkeypatch.setattr(module, "import_module", load)
    assert module._load(debug=False) == 1
    assert searching == [False]
    assert gc.isenabled()
    # Of a program that calls `entry` and has switched it off.
    gc.disable()
    try:
        module._load(debug=False)
        assert not gc.isenabled()
    finally:
        gc.enable()
