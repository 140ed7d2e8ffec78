"""`doctor` as a shell sees it, where something real is wrong."""

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session

from app.doctor.findings import Finding, Trial, run_trial
from tests.integration.conftest import ROOT, Steadfast

ROWS = "sentence\tlabel\na good film\t1\n"
BROKEN = 'raise OSError("libcudart.so.13: cannot open shared object file: No such file")\n'
CRASHING = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
# As much of torch as is asked about GPUs, of which one has fallen off its bus.
GPUS = """
class Tensor:
    def __matmul__(self, other): return self
    def __mul__(self, other): return self
    def sum(self): return self.number
    def __init__(self, number): self.number = number
def ones(*shape, device="cpu"):
    if device == "cuda:1": raise RuntimeError("CUDA error: device is lost")
    return Tensor(64**3)
class Namespace:
    def __init__(self, **names): vars(self).update(names)
__version__ = "2.13.0"
def get_num_threads(): return 1
version = Namespace(cuda="13.0")
distributed = Namespace(is_available=lambda: True)
cuda = Namespace(
    is_available=lambda: True,
    device_count=lambda: 2,
    get_device_name=lambda index: "H200",
    get_device_capability=lambda index: (9, 0),
    mem_get_info=lambda index: (130 * 2**30, 140 * 2**30),
)
"""


def doctor(
    *args: str, before: Callable[[], None] | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, with nothing listening where the hub is."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    kept.pop("HF_HUB_OFFLINE", None)
    paths = os.pathsep.join(filter(None, (str(ROOT), settings.pop("PYTHONPATH", ""))))
    # A table of 80 columns would break the lines that the tests look for.
    fixed = {"HF_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": paths, "COLUMNS": "120"}
    environment = {**kept, **fixed, **settings}
    return subprocess.run(
        [sys.executable, "-m", "app", "doctor", *args],
        capture_output=True,
        text=True,
        env=environment,
        preexec_fn=before,
        check=False,
    )


def found(status: int, out: str) -> dict[str, dict[str, Any]]:
    content = json.loads(out)
    assert content["ok"] == (status == 0)
    return {check.pop("name"): check for check in content["checks"]}


def stub(folder: Path, **modules: str) -> str:
    """A folder for PYTHONPATH whose modules come before the installed ones."""
    for name, content in modules.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(content)
    return str(folder)


def test_a_sound_machine(here: Path) -> None:
    (here / "d" / "sst2").mkdir(parents=True)
    for split in ("train", "validation"):
        (here / "d" / "sst2" / f"{split}.tsv").write_text(ROWS)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # A hub that accepts and says nothing; its address and the token are secrets.
        port = silent.getsockname()[1]
        endpoint = f"http://me:hidden@127.0.0.1:{port}"
        done = doctor("--data_dir=d", HF_ENDPOINT=endpoint, HF_TOKEN="hf_hidden")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for begin in (
        "ok       Python ",
        "ok       libraries ",
        "ok       gloo              2 process(es)",
        "ok       loading ",
        "ok       TensorBoard ",
        "ok       data directory    d holds sst2",
        "ok       corpus sst2       train: ok; validation: ok; test: ok",
        f"warning  hub               http://127.0.0.1:{port} cannot be reached: ",
    ):
        assert any(line.startswith(begin) for line in lines), (begin, done.stdout)
    assert "hidden" not in done.stdout + done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["d"]


class Here:
    """Runs trials in this process, which has loaded what they load."""

    def __init__(self, trials: Iterable[Trial], seconds: float) -> None:
        self._trials = trials

    def findings(self) -> Iterator[Finding]:
        for trial in self._trials:
            yield from (finding for final, finding in run_trial(trial) if final)


def test_data_and_encoders_that_are_not_what_they_should_be(
    here: Path, steadfast: Steadfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.commands.doctor.TrialProcess", Here)
    monkeypatch.setattr("app.doctor.trials.of_torch", lambda: iter(()))  # in the test above
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    close_session()  # which has read the proxies of before
    folder = here / "d"
    for name in ("sst2", "snli", "ag_news", "qqp", "my\x1b[31m corpus"):
        (folder / name).mkdir(parents=True)
    (folder / "sst2" / "train.tsv").write_text(ROWS)  # and no validation
    (folder / "snli" / "train.tsv").write_text("premise\tlabel\na\t1\n")
    os.mkfifo(folder / "ag_news" / "train.tsv")
    (folder / "ag_news" / "test.csv").write_text("")
    (folder / "qqp" / "train.zip").write_bytes(b"PK\3\4")
    (here / "encoder").mkdir()
    done = steadfast("doctor", "--data_dir=d", "--backbone=encoder", "--json")
    close_session()
    assert done.status == 1
    checks = found(done.status, done.out)
    for name, status, texts in (
        ("data directory", "ok", ["d holds ag_news, qqp, s", r"not used: my\x1b[31m corpus"]),
        ("corpus sst2", "warning", ["train: ok; validation: absent; test: absent"]),
        ("corpus qqp", "warning", ["train: absent; validation: absent"]),
        ("corpus snli", "FAILED", ["train: ", "expected ['hypothesis'] among them"]),
        ("corpus ag_news", "FAILED", ["is a named pipe, expected a regular file"]),
        ("corpus ag_news", "FAILED", ["test: ", "got an empty file"]),
    ):
        assert checks[name]["status"] == status
        for text in texts:
            assert text in checks[name]["found"], checks[name]["found"]
    assert checks["backbone"]["status"] == "FAILED"
    assert "config.json" in checks["backbone"]["advice"]
    assert checks["hub"]["status"] == "warning"
    assert "Connection refused" in checks["hub"]["found"]


@pytest.mark.parametrize(
    ("content", "reason"), [(BROKEN, "libcudart.so.13"), (CRASHING, "ended by SIGSEGV")]
)
def test_a_broken_torch(here: Path, tmp_path: Path, content: str, reason: str) -> None:
    path = stub(tmp_path / "stub", torch=content)
    done = doctor("--json", "--runs_dir=there", PYTHONPATH=path)
    assert done.returncode == 1
    checks = found(done.returncode, done.stdout)
    for name in ("torch", "loading"):
        assert checks[name]["status"] == "FAILED"
        assert reason in checks[name]["found"]
        assert "make install" in checks[name]["advice"]
    # What does not need it is looked at all the same.
    assert checks["Python"]["status"] == checks["libraries"]["status"] == "ok"
    assert checks["runs directory"]["status"] in ("ok", "warning")
    assert "Traceback" not in done.stdout + done.stderr


def test_the_other_commands_point_to_it(here: Path, tmp_path: Path) -> None:
    path = os.pathsep.join((str(ROOT), stub(tmp_path / "stub", torch=BROKEN)))
    done = subprocess.run(
        [sys.executable, "-m", "app", "fit"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: the program cannot be loaded (OSError: libcudart.so.13")
    assert "`python -m steadfast doctor`" in line


def test_a_machine_with_gpus_and_old_libraries(here: Path, tmp_path: Path) -> None:
    """The probe is the real one; torch stands in for itself, on a machine with two GPUs."""
    path = Path(stub(tmp_path / "stub", torch=GPUS))
    (path / "tokenizers-0.1.dist-info").mkdir()
    (path / "tokenizers-0.1.dist-info" / "METADATA").write_text("Name: tokenizers\nVersion: 0.1\n")
    done = doctor("--json", PYTHONPATH=str(path))
    assert done.returncode == 1
    checks = found(done.returncode, done.stdout)
    assert checks["GPUs"]["found"].startswith("2 usable, CUDA 13.0")
    assert checks["GPU 0"] == {
        "status": "ok",
        "found": "H200, compute capability 9.0, 130.0 GiB of 140.0 GiB free",
        "advice": "",
    }
    assert checks["GPU 1"]["status"] == "FAILED"
    assert "device is lost" in checks["GPU 1"]["found"]
    assert checks["NCCL"]["status"] == "FAILED"
    assert checks["libraries"]["found"] == "tokenizers 0.1 (>=0.22 allowed)"


def test_nothing_can_be_written(here: Path, tmp_path: Path) -> None:
    """A limit of no bytes per file: the same errors as a full disk, for everything."""
    path = stub(tmp_path / "stub", torch=BROKEN)  # the rest has been looked at above
    done = doctor(
        "--json", PYTHONPATH=path, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    )
    assert done.returncode == 1
    checks = found(done.returncode, done.stdout)
    assert checks["runs directory"]["status"] == "FAILED"
    assert "File too large" in checks["runs directory"]["found"]
    assert "another --runs_dir" in checks["runs directory"]["advice"]
    assert checks["cache of the hub"]["status"] == "warning"
    assert [path.name for path in here.iterdir()] == ["stub"]


def test_help(steadfast: Steadfast) -> None:
    outcome = steadfast("doctor", "--help")
    assert outcome.status == 0
    for option in ("--runs_dir", "--data_dir", "--backbone", "--json", "Exit status"):
        assert option in outcome.out
    assert steadfast("doctor", "--no_such").status == 2
