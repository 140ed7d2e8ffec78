"""Checks of `doctor`, one by one; tests/integration/test_doctor.py runs the command."""

import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import constants

from app.doctor import findings, installation, machine, trials
from app.doctor.findings import Finding
from app.doctor.trial_process import Trial, TrialProcess

# Versions


def test_what_is_required_is_read_from_the_project() -> None:
    python, libraries = installation.required()
    assert python == ">=3.11"
    assert len(libraries) > 10
    assert any(line.startswith("pytorch-lightning>=2.6.6,<2.7") for line in libraries)


def test_versions_of_this_installation() -> None:
    found = list(installation.check_versions())
    assert [finding.name for finding in found] == ["program", "Python", "libraries"]
    assert {finding.status for finding in found} == {"ok"}
    assert "torch 2." in found[-1].found


def test_other_versions(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nrequires-python = ">=4"\n'
        "dependencies = ['torch[x]>=99; python_version > \"3\"', 'no-such-library', 'numpy>=2', "
        "'not-here; python_version < \"3\"']\n"
    )
    _, python, libraries = installation.check_versions(tmp_path)
    assert python.status == libraries.status == "FAILED"
    assert "(>=4 allowed)" in python.found
    assert "torch 2." in libraries.found
    assert "(>=99 allowed)" in libraries.found
    assert "no-such-library is not installed (any allowed)" in libraries.found
    assert "numpy" not in libraries.found
    assert "not-here" not in libraries.found


@pytest.mark.parametrize(
    "content", ["[project]", "[", '[project]\nrequires-python = "?"\ndependencies = []']
)
def test_a_project_that_cannot_be_read(content: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    (finding,) = installation.check_versions(tmp_path)
    assert finding.status == "FAILED"


def test_without_the_library_that_compares_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    (finding,) = installation.check_versions()
    assert finding.status == "FAILED"
    assert "packaging" in finding.found


def test_a_malicious_upload_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = installation.installed
    fake = {"lightning": "2.6.3"}
    monkeypatch.setattr(installation, "installed", lambda name: fake.get(name) or real(name))
    finding = list(installation.check_versions())[-1]
    assert (finding.status, finding.found) == ("FAILED", "lightning 2.6.3 is a malicious upload")


# Trials in another process


def works() -> Trial:
    yield Finding("works", "FAILED", "")
    os.write(1, b"what a library prints")
    yield Finding("works", "ok", "it does")


def ends_in(end: Callable[[], object]) -> Trial:
    yield Finding("ends", "warning", "here: ", "do this")
    end()
    yield Finding("ends", "ok", "it does not")


def wrong() -> None:
    msg = "what is\nwrong"
    raise ValueError(msg)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (wrong, ["works", "here: ValueError: what is wrong", "works"]),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            ["works", "here: the process was ended by SIGKILL"],
        ),
        (lambda: os._exit(3), ["works", "here: the process was ended with status 3"]),
        pytest.param(
            lambda: time.sleep(600),
            ["works", "here: no answer within 2 s"],
            marks=pytest.mark.long,
        ),
    ],
    ids=["exception", "signal", "status", "silence"],
)
@pytest.mark.filterwarnings("ignore:.*use of fork.* may lead to deadlocks:DeprecationWarning")
def test_a_trial_that_fails(
    end: Callable[[], object], expected: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    found = list(TrialProcess([works(), ends_in(end), works()], seconds=2).findings())
    good = Finding("works", "ok", "it does")
    assert found == [
        good if text == "works" else Finding("ends", "warning", text, "do this")
        for text in expected
    ]
    assert capfd.readouterr() == ("", "")


# torch and the GPUs


def outcome(trial: Trial) -> list[Finding]:
    next(trial)  # what it means if it fails
    return list(trial)


def test_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "__version__", "2.13.0")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(machine, "cores", lambda _: 2)
    text = "2.13.0, built for CUDA 13.0, 2 thread(s)"
    assert outcome(trials.torch_works()) == [Finding("torch", "ok", text)]
    monkeypatch.setattr(machine, "cores", lambda _: 1.0)
    (finding,) = outcome(trials.torch_works())
    assert finding.status == "warning"
    assert "OMP_NUM_THREADS=1" in finding.advice


def test_nothing_is_tried_where_torch_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert len(list(trials.of_torch())) == 1


def test_what_gloo_needs() -> None:
    failure = next(trials.gloo())
    assert failure.status == "warning"
    assert "GLOO_SOCKET_IFNAME" in failure.advice


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine with GPUs, as torch and the driver tell of it."""

    def place(
        count: int,
        listed: int,
        *,
        cuda: str | None = "13.0",
        visible: str | None = None,
        reason: str = "",
        free: Sequence[int] = (),
    ) -> None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

        def fail() -> None:
            raise RuntimeError(reason)

        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(trials, "driver", lambda: ["580.1"] * listed)
        monkeypatch.setattr(trials, "_calculate", lambda device: None)
        for name, answer in {
            "is_available": lambda: count > 0,
            "device_count": lambda: count,
            "init": fail if reason else lambda: None,
            "get_device_capability": lambda index: (9, 0),
            "get_device_name": lambda index: "H200",
            "mem_get_info": lambda index: (free[index] * 2**30, 140 * 2**30),
        }.items():
            monkeypatch.setattr(torch.cuda, name, answer)

    return place


@pytest.mark.parametrize(
    ("machine_has", "status", "text"),
    [
        ({"count": 0, "listed": 0}, "ok", "none: training is on the CPU"),
        ({"count": 0, "listed": 2, "cuda": None}, "warning", "make VARIANT=cuda"),
        ({"count": 0, "listed": 2, "visible": ""}, "warning", "CUDA_VISIBLE_DEVICES hides them"),
        ({"count": 0, "listed": 2, "reason": "driver is too old"}, "FAILED", "driver is too old"),
        ({"count": 2, "listed": 2}, "ok", "2 usable, CUDA 13.0, driver 580.1"),
        ({"count": 1, "listed": 2}, "warning", "2 in the machine"),
        ({"count": 1, "listed": 2, "visible": "0"}, "warning", "CUDA_VISIBLE_DEVICES=0 leaves"),
        ({"count": 1, "listed": 0}, "ok", "driver of unknown version"),
    ],
)
def test_gpus(
    machine_has: dict[str, Any], status: str, text: str, cards: Callable[..., None]
) -> None:
    cards(**machine_has)
    (finding,) = outcome(trials.gpus())
    assert finding.status == status
    assert text in f"{finding.found} {finding.advice}"


def test_each_gpu(cards: Callable[..., None]) -> None:
    cards(2, 2, free=[130, 1])
    text = "H200, compute capability 9.0, 130 GiB of 140 GiB free"
    assert outcome(trials.gpu(0)) == [Finding("GPU 0", "ok", text)]
    (finding,) = outcome(trials.gpu(1))
    assert finding.status == "warning"
    assert "nvidia-smi" in finding.advice
    failure = next(trials.gpu(1))
    assert (failure.status, failure.found) == ("FAILED", "H200, compute capability 9.0: ")


def test_a_device_that_calculates_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "ones", lambda *shape, device: torch.zeros(*shape))
    with pytest.raises(ArithmeticError, match="gives 0"):
        trials._calculate("cpu")


@pytest.mark.parametrize(("count", "status"), [(1, "warning"), (2, "FAILED")])
def test_nccl_matters_with_several_gpus(
    count: int, status: str, cards: Callable[..., None]
) -> None:
    cards(count, count)
    assert next(trials.nccl()).status == status


# The machine


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def test_control_groups_of_version_2(tmp_path: Path) -> None:
    """The limit may be set on any group above one's own."""
    root = write(
        tmp_path,
        {
            "own": "0::/a/b\n",
            "cg/cpu.max": "max 100000\n",
            "cg/a/cpu.max": "150000 100000\n",
            "cg/a/memory.max": str(4 * 2**30),
            "cg/a/memory.current": str(3 * 2**30),
            "cg/a/memory.stat": f"anon 1\ninactive_file {2**30}\n",
            "cg/a/b/cpu.max": "max 100000\n",
            "cg/a/b/memory.max": "max\n",
        },
    )
    groups = machine.control_groups(root / "cg", root / "own")
    assert [group.name for group in groups] == ["b", "a", "cg"]
    assert machine.cpu_limit(groups) == 1.5
    assert machine.memory_limit(groups) == (4 * 2**30, 2 * 2**30)


def test_control_groups_of_version_1_in_a_container(tmp_path: Path) -> None:
    """The path is the host's, and not to be found inside."""
    root = write(
        tmp_path,
        {
            "own": "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n",
            "cg/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
            "cg/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "cg/memory/memory.limit_in_bytes": str(2**30),
            "cg/memory/memory.usage_in_bytes": "1000\n",
        },
    )
    groups = machine.control_groups(root / "cg", root / "own")
    assert machine.cpu_limit(groups) == 2
    assert machine.memory_limit(groups) == (2**30, 1000)
    (root / "cg/cpu,cpuacct/cpu.cfs_quota_us").write_text("-1\n")
    (root / "cg/memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert machine.cpu_limit(groups) is None
    assert machine.memory_limit(groups) is None


def test_control_groups_that_are_not_there_or_lead_elsewhere(tmp_path: Path) -> None:
    assert machine.control_groups(tmp_path, tmp_path / "none") == []
    write(tmp_path, {"own": "0::/../../..\nnonsense\n", "cg/x": ""})
    assert machine.control_groups(tmp_path / "cg", tmp_path / "own") == [tmp_path / "cg"]


def test_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert machine.check_cores([]).status == "ok"
    write(tmp_path, {"cpu.max": "150000 100000"})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    check = machine.check_cores([tmp_path])
    assert check.status == "warning"
    assert "OMP_NUM_THREADS=1" in check.advice
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.check_cores([tmp_path]).status == "ok"


def test_memory(tmp_path: Path) -> None:
    write(tmp_path, {"meminfo": "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"})
    assert machine.check_memory([], tmp_path / "meminfo") == Finding(
        "memory", "ok", "32.0 GiB of 64.0 GiB available"
    )
    write(tmp_path, {"memory.max": str(3 * 2**30), "memory.current": str(2 * 2**30)})
    check = machine.check_memory([tmp_path], tmp_path / "meminfo")
    assert check.status == "warning"
    assert check.found.startswith("1.0 GiB of 3.0 GiB available (the control group's limit")
    assert machine.check_memory([], tmp_path / "none").status == "ok"


@pytest.mark.parametrize(("total", "status"), [(64, "warning"), (2048, "ok")])
def test_shared_memory(total: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room = (total * 2**20, 0, total * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    check = machine.check_shared_memory()
    assert check.status == status
    assert ("--shm-size" in check.advice) == (status == "warning")


def test_no_shared_memory(tmp_path: Path) -> None:
    assert machine.check_shared_memory(tmp_path / "none").status == "ok"


def check_runs(path: Path) -> Finding:
    return machine.check_folder(machine.RUNS, path, "FAILED", "make room")


def test_runs_directory_is_left_as_it_was(tmp_path: Path) -> None:
    finding = check_runs(tmp_path / "a" / "b")
    assert finding.status in ("ok", "warning")  # a test machine may be full
    assert finding.found.startswith(f"{tmp_path}/a/b can be written")
    assert not list(tmp_path.iterdir())
    write(tmp_path, {"runs/first/config.yaml": "x"})
    check_runs(tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]


def test_runs_directory_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    finding = check_runs(tmp_path / "file" / "runs")
    assert finding.status == "FAILED"
    assert "Not a directory" in finding.found
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"other")
    finding = check_runs(tmp_path)
    assert finding.status == "FAILED"
    assert "returns other bytes" in finding.found
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="to root, no directory is read-only")
def test_read_only_runs_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    check = check_runs(tmp_path / "runs")
    tmp_path.chmod(0o700)
    assert check.status == "FAILED"
    assert "Permission denied" in check.found


def test_little_room_and_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    room = SimpleNamespace(total=2**40, used=0, free=10 * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    check = check_runs(tmp_path)
    assert check.status == "warning"
    assert "no locks" in check.advice
    room.free = 2**20
    check = check_runs(tmp_path)
    assert check.status == "warning"
    assert "make room" in check.advice
    assert "1.0 MiB free" in check.found


def test_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "not" / "yet"))
    *_, cache, temporary = machine.check_machine(tmp_path)
    assert (cache.name, cache.status) == ("caches", "ok")
    assert (temporary.name, temporary.status) == ("temporary files", "ok")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "file" / "cache"))
    *_, first, second, _ = machine.check_machine(tmp_path)
    assert (first.name, first.status) == ("caches", "ok")
    assert (second.name, second.status) == ("caches", "warning")
    assert "TORCH_HOME" in second.advice


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (2**10, "1 kB"), (64 * 2**20, "64.0 MiB"), (140 * 2**30, "140 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert machine.size(count) == text


# The hub


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, "ok"), (401, "ok"), (404, "ok"), (407, "warning"), (502, "warning")],
)
def test_hub_that_answers(status: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(status) as endpoint:
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        check = outcome(trials.hub())[0]
    assert check.status == expected
    assert check.found.startswith(endpoint)


@pytest.mark.usefixtures("direct")
def test_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(
            constants, "ENDPOINT", f"http://me:secret@127.0.0.1:{closed.getsockname()[1]}/x?y=z"
        )
        check = outcome(trials.hub())[0]
    assert check.status == "warning"
    assert "Connection refused" in check.found
    assert "secret" not in check.found
    assert "y=z" not in check.found
    assert "--data.data_dir" in check.advice
    assert "HF_HOME" in check.advice


@pytest.mark.usefixtures("direct")
def test_hub_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        check = outcome(trials.hub(0.2))[0]
    assert check.status == "warning"
    assert "timed out" in check.found


@pytest.mark.usefixtures("direct")
def test_hub_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200) as proxy:
        monkeypatch.setenv("http_proxy", proxy.replace("://", "://me:secret@"))
        monkeypatch.setattr(constants, "ENDPOINT", "http://hub.invalid")
        check = outcome(trials.hub())[0]
    assert check.found == f"http://hub.invalid through {proxy.replace('://', '://***@')} answers"


@pytest.mark.usefixtures("direct")
def test_hub_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check = outcome(trials.hub())[0]
    assert check.status == "ok"
    assert "HF_HUB_OFFLINE=1" in check.found


# Data and backbone


def test_data_directory(tmp_path: Path) -> None:
    rows = "sentence\tlabel\na\t1\n"
    write(tmp_path, {f"sst2/{split}.tsv": rows for split in ("train", "validation")})
    (tmp_path / "sst-2").mkdir()
    (finding,) = outcome(trials.data(tmp_path))
    text = f"{tmp_path}: sst2 (train, validation, test); not used: sst-2"
    assert finding == Finding("data directory", "ok", text)


def test_absent_splits(tmp_path: Path) -> None:
    for corpus in ("dream", "rte", "wnut17"):
        (tmp_path / corpus).mkdir()
    (finding,) = outcome(trials.data(tmp_path))
    assert finding.status == "warning"
    fetched, *others = finding.advice.split("; ")
    assert fetched.startswith("rte/train, ")
    assert fetched.endswith(" will be fetched from the hub: add the files to avoid it")
    assert sorted(other.split("/")[0] for other in others) == ["dream", "wnut17"]
    for other in others:
        assert " cannot be fetched: add the files (" in other
        assert "https://" in other


CORPORA: dict[str, tuple[dict[str, str], dict[str, str | None]]] = {
    "plain": (
        {
            "sst2/train.jsonl": '{"sentence": "a", "label": 1}\n',
            "sst2/test.csv": "sentence,label\n",
        },
        {"train": None, "validation": "absent", "test": "no rows"},
    ),
    "validation taken from train": (
        {"ag_news/train.tsv": "text\tlabel\na\t1\n"},
        {"train": None, "test": "absent"},
    ),
    "validation that there is all the same": (
        {"ag_news/validation.tsv": "text\tlabel\na\n"},
        {"train": "absent", "validation": "got 1 fields, expected 2", "test": "absent"},
    ),
    "test taken from validation": (
        {"rte/validation.tsv": "sentence1\tsentence2\tlabel\na\tb\t1\n"},
        {"train": "absent", "validation": None, "test": None},
    ),
    "a target": (
        {"stsb/train.tsv": "sentence1\tsentence2\tscore\na\tb\t2.5\n"},
        {"train": None, "validation": "absent", "test": "absent"},
    ),
    "rounds": (
        {
            **{f"anli/train_r{i}.tsv": "premise\thypothesis\tlabel\na\tb\t1\n" for i in (1, 2, 3)},
            "anli/test_r1.tsv": "premise\thypothesis\tlabel\na\tb\t1\n",
        },
        {"train": None, "validation": "absent", "test": "absent"},
    ),
    "genres": (
        {"mnli/validation_matched.tsv": "premise\thypothesis\tlabel\na\tb\t1\n"},
        {"train": "absent", "validation": None, "test": None},
    ),
    "tagged words": (
        {"wnut17/train.conll": "a\tO\n\nb\tX\n", "wnut17/test.conll": "a\tB-time\n"},
        {"train": None, "validation": "absent", "test": "got tag 'B-time', expected one of"},
    ),
    "choices": (
        {"hellaswag/validation.jsonl": '{"ctx": "a", "endings": ["b"], "label": 0}\n'},
        {"train": "absent", "validation": None, "test": None},
    ),
    "questions": (
        {
            "dream/train.json": '[[["a"], [{"question": "b", "choice": ["c", "d", "e"]}], "1"]]',
            "dream/validation.json": "[]",
            "dream/test.json": "{}",
        },
        {"train": None, "validation": "no rows", "test": "expected a JSON list"},
    ),
}
"""Files of a data directory, and what is found of the corpus."""


@pytest.mark.parametrize(("files", "expected"), CORPORA.values(), ids=CORPORA)
def test_what_is_found_of_a_corpus(
    files: dict[str, str], expected: dict[str, str | None], tmp_path: Path
) -> None:
    (finding,) = outcome(trials.data(write(tmp_path, files)))
    corpus = next(iter(files)).split("/")[0]
    good = ", ".join(split for split, problem in expected.items() if problem is None)
    said, *broken = finding.found.split("; ")
    assert said == f"{tmp_path}: {corpus} ({good or 'nothing usable'})"
    problems = {split: text for split, text in expected.items() if text not in (None, "absent")}
    assert len(broken) == len(problems)
    for found, (split, text) in zip(broken, problems.items(), strict=True):
        assert found.startswith(f"{corpus}/{split}: ")
        assert str(text) in found
    if not broken:
        absent = finding.advice.partition(" will be ")[0].partition(" cannot be ")[0]
        assert absent == ", ".join(f"{corpus}/{s}" for s, text in expected.items() if text)


def test_folders_that_are_no_corpus(tmp_path: Path) -> None:
    names = ["reviews", "running_text", "sst-2", "tagged_files", "text_files", "x1", "x2", "x3"]
    for name in [*names, "x4"]:
        (tmp_path / name).mkdir()
    (finding,) = outcome(trials.data(tmp_path))
    assert finding.status == "warning"
    text = f"{tmp_path} holds no corpus of ours; not used: {', '.join(names)}, ..."
    assert finding.found == text


def test_no_data_directory(tmp_path: Path) -> None:
    trial = trials.data(tmp_path / "none")
    assert next(trial).status == "FAILED"
    with pytest.raises(FileNotFoundError):
        next(trial)


# What is shown


def test_secrets_are_masked() -> None:
    environment = {"HF_TOKEN": "hf_abcdef", "API_KEY": "12345678", "MONKEY": "banana-split"}
    text = "http://me:pw@host/x hf_abcdef 12345678 banana-split https://host/a@b"
    assert (
        findings.masked(text, environment)
        == "http://***@host/x *** *** banana-split https://host/a@b"
    )


def test_table_and_json() -> None:
    text, advice = "a\x1b[2J\nb " + "word " * 30, "do " + "this " * 30
    failure = findings.printable(Finding("data directory", "FAILED", text, advice))
    checks = [Finding("torch", "ok", "2.13.0"), failure]
    table = findings.as_table(checks, 80)
    assert max(map(len, table.splitlines())) <= 80
    assert "\x1b" not in table
    assert table.splitlines()[0] == "ok       torch           2.13.0"
    assert r"FAILED   data directory  a\x1b[2J b word" in table
    assert "-> do this" in table
    assert table.endswith("1 ok, 0 warning, 1 FAILED")
    content = json.loads(findings.as_json(checks))
    assert content["ok"] is False
    assert content["checks"][0] == {
        "name": "torch",
        "status": "ok",
        "found": "2.13.0",
        "advice": "",
    }
