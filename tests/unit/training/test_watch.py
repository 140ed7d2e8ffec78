import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning.plugins.environments import LightningEnvironment  # type: ignore[attr-defined] # it is public
from pytorch_lightning.strategies.launchers import subprocess_script
from torch.distributed import DistNetworkError

from run_files.distributed import LostRankError
from training import watch as ranks
from training.last_error import ERRORS_VARIABLE, LAUNCHER_VARIABLE, leave_error, printing
from training.last_error import reported as failure_reported
from training.watch import Watcher, watched

ROOT = Path(__file__).parents[3]


def child(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


@pytest.fixture(autouse=True)
def nothing_reported() -> None:
    failure_reported.clear()  # a command that failed in this process, in another test, has set it


@pytest.fixture
def statuses() -> list[int]:
    return []


def test_ends_when_a_child_is_killed(
    statuses: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    children = [child("import time; time.sleep(600)") for _ in range(2)]
    watcher = Watcher(lambda: children, None, grace=0.0, end=statuses.append)
    assert watcher.lost() is None
    watcher.start()
    children[1].kill()
    watcher.join(60)
    assert statuses == [1]
    message = capsys.readouterr().err
    assert f"rank 2 on this machine (process {children[1].pid}) was ended by SIGKILL" in message
    assert children[0].wait(60) == -signal.SIGKILL  # it does not stay behind


def test_a_child_that_has_done_its_work_may_go(statuses: list[int]) -> None:
    children = [child("")]
    assert children[0].wait(60) == 0
    watcher = Watcher(lambda: children, None, grace=0.0, end=statuses.append)
    assert watcher.lost() is None


def test_a_child_that_failed_is_named() -> None:
    children = [child("raise SystemExit(3)")]
    children[0].wait(60)
    lost = Watcher(lambda: children, None).lost()
    assert lost is not None
    assert "has ended with exit status 3" in lost


def test_a_child_that_has_left_its_error_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ERRORS_VARIABLE, str(tmp_path))
    leave = """
        import os
        from training.last_error import leave_error
        os.environ["STEADFAST_LAUNCHER"] = str(os.getppid())
        leave_error("got a, expected b\\nand more")
        raise SystemExit(1)
    """
    children = [child(textwrap.dedent(leave))]
    children[0].wait(600)
    lost = Watcher(lambda: children, None).lost()
    assert lost is not None
    assert lost.endswith("has ended with exit status 1: got a, expected b")
    # One that has not ended yet, too.
    slow: Any = SimpleNamespace(pid=children[0].pid, poll=lambda: None)
    lost = Watcher(lambda: [slow], None).lost()
    assert lost is not None
    assert lost.endswith("has failed: got a, expected b")
    # The first process itself leaves none.
    monkeypatch.setenv(LAUNCHER_VARIABLE, str(os.getpid()))
    leave_error("mine")
    assert [path.name for path in tmp_path.iterdir()] == [str(children[0].pid)]


@pytest.mark.parametrize("status", [143, -15])
def test_a_signal_is_named_however_it_is_told(status: int) -> None:
    lost = Watcher(lambda: [dead(status)], None).lost()
    assert lost is not None
    assert lost.endswith("was ended by SIGTERM")


@pytest.mark.parametrize("reported", [False, True])
def test_no_process_is_ended_without_a_line(
    statuses: list[int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reported: bool,
) -> None:
    """The main thread knows why, but is too slow to print it, as on a busy machine."""
    monkeypatch.setattr(ranks, "_SETTLE", 0.0)
    monkeypatch.setattr(ranks, "GRACE", 0.0)
    monkeypatch.setattr(Watcher.__init__, "__kwdefaults__", {"grace": 0.0, "end": statuses.append})
    monkeypatch.delenv(LAUNCHER_VARIABLE, raising=False)
    with pytest.raises(LostRankError, match="SIGKILL"):
        fail(trainer([dead()]), GLOO)
    if reported:
        failure_reported.set()
    (thread,) = [one for one in threading.enumerate() if isinstance(one, Watcher)]
    thread.join(60)
    assert statuses == [1]
    assert ("was ended by SIGKILL" in capsys.readouterr().err) == (not reported)


def test_the_main_thread_prints_no_second_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The process ends while the main thread wants to print its own error."""
    locked: list[bool] = []
    Watcher(lambda: [dead()], None, grace=0.0, end=lambda _: locked.append(printing.locked())).run()
    assert locked == [True]
    assert capsys.readouterr().err.count("error: ") == 1


def test_the_main_thread_has_time_to_end_by_itself(statuses: list[int]) -> None:
    children = [child("raise SystemExit(3)")]
    watcher = Watcher(lambda: children, None, grace=600.0, end=statuses.append)
    watcher.start()
    children[0].wait(60)
    watcher.stop()
    watcher.join(60)
    assert not watcher.is_alive()
    assert statuses == []


@pytest.mark.long
def test_a_process_that_hangs_ends_when_the_one_that_started_it_is_killed(tmp_path: Path) -> None:
    """As in a collective of NCCL: the main thread never comes back."""
    (tmp_path / "rank.py").write_text(
        textwrap.dedent("""
            import os, time
            from training.watch import Watcher, _launcher
            Watcher(list, _launcher(), grace=0.0).start()
            print(os.getpid(), flush=True)
            while True: time.sleep(600)
        """)
    )
    (tmp_path / "first.py").write_text(
        textwrap.dedent("""
            import os, subprocess, sys, time
            os.environ["STEADFAST_LAUNCHER"] = str(os.getpid())
            subprocess.Popen([sys.executable, sys.argv[1]])
            time.sleep(600)
        """)
    )
    first = subprocess.Popen(
        [sys.executable, str(tmp_path / "first.py"), str(tmp_path / "rank.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert first.stdout is not None
    assert int(first.stdout.readline()) > 0
    first.kill()
    # Both ends of the pipe are closed only when the second process has ended, too.
    _, err = first.communicate(timeout=120)
    assert f"the first process of the run (process {first.pid}) is gone" in err


@pytest.mark.usefixtures("harmless")
def test_lightning_does_not_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watch kills this process without a word, before ours can tell why."""
    monkeypatch.setattr(subprocess_script, "_launch_process_observer", None)
    launcher = subprocess_script._SubprocessScriptLauncher(LightningEnvironment(), 2, 1)
    monkeypatch.setattr(launcher, "_call_children_scripts", lambda: None)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = threading.enumerate()
    with watched(trainer([])):
        assert launcher.launch(threading.enumerate) == before


def trainer(children: list[Any], *, world: int = 2, external: bool = True) -> Any:
    return SimpleNamespace(
        world_size=world,
        strategy=SimpleNamespace(
            launcher=SimpleNamespace(procs=children),
            cluster_environment=SimpleNamespace(creates_processes_externally=external),
        ),
    )


def dead(status: int = -signal.SIGKILL) -> Any:
    return SimpleNamespace(pid=17, poll=lambda: status, kill=lambda: None)


@pytest.fixture(autouse=True)
def lightnings_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it back after the test."""
    name = "_launch_process_observer"
    monkeypatch.setattr(subprocess_script, name, getattr(subprocess_script, name))


@pytest.fixture
def harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread: it would end the tests."""
    monkeypatch.setattr(Watcher, "start", lambda self: None)
    monkeypatch.setattr(ranks, "_SETTLE", 0.0)
    monkeypatch.delenv(LAUNCHER_VARIABLE, raising=False)


def fail(trainer: Any, error: Exception) -> None:
    with watched(trainer):
        raise error


GLOO = RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer")


@pytest.mark.usefixtures("harmless")
def test_a_broken_connection_is_said_to_be_the_death_that_it_is() -> None:
    with pytest.raises(LostRankError, match=r"process 17\) was ended by SIGKILL"):
        fail(trainer([dead()]), GLOO)


@pytest.mark.usefixtures("harmless")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (GLOO, "lost the connection to another process"),
        (RuntimeError("Broken pipe"), "lost the connection to another process"),
        (RuntimeError("gloo: Timed out waiting 15000ms"), "got no answer from another process"),
        (DistNetworkError("failed to listen (EADDRINUSE)"), "set MASTER_PORT to a free port"),
    ],
)
def test_what_is_known_of_other_machines(error: Exception, message: str) -> None:
    with pytest.raises(LostRankError, match=message):
        fail(trainer([]), error)


@pytest.mark.usefixtures("harmless")
def test_ranks_that_still_run_are_named() -> None:
    running = SimpleNamespace(pid=18, poll=lambda: None, kill=lambda: None)
    with pytest.raises(LostRankError, match=r"still running: rank 1 \(process 18\)"):
        fail(trainer([running]), RuntimeError("gloo: Timed out waiting 15000ms"))


@pytest.mark.usefixtures("harmless")
def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match=r"^no such file$"):
        fail(trainer([dead(1)]), ValueError("no such file"))
    # Of a worker of the loader.
    with pytest.raises(ConnectionResetError):
        fail(trainer([dead(1)]), ConnectionResetError("Connection reset by peer"))


@pytest.mark.usefixtures("harmless")
def test_one_process_watches_nobody() -> None:
    with pytest.raises(RuntimeError, match="Read error"):
        fail(trainer([dead()], world=1), GLOO)


@pytest.mark.usefixtures("harmless")
def test_those_who_are_started_know_by_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAUNCHER_VARIABLE, "0")  # taken back after the test
    with watched(trainer([], external=False)):
        assert os.environ[LAUNCHER_VARIABLE] == str(os.getpid())
    assert ranks._parent() is None
    stranger = os.getpid() + os.getppid()  # neither of the two
    monkeypatch.setenv(LAUNCHER_VARIABLE, str(stranger))
    assert ranks._parent() == stranger
    lost = Watcher(list, ranks._parent()).lost()
    assert lost is not None
    assert f"the first process of the run (process {stranger}) is gone" in lost
    monkeypatch.delenv(LAUNCHER_VARIABLE)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert ranks._parent() == os.getppid()
