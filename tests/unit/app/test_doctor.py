"""Checks of `doctor`, one by one; tests/integration/test_doctor.py runs the command."""

import errno
import fcntl
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants

from app.doctor import gpus, installation, machine, probes, report, surroundings
from app.doctor.report import Check

# Versions


@pytest.mark.parametrize(
    ("version", "bounds", "expected"),
    [
        ("2.13.0+cpu", ">=2.10", True),
        ("2.9.1", ">=2.10", False),
        ("2.10", ">=2.10.0", True),
        ("2.10.0", "==2.10", True),
        ("2.6.6", ">=2.6.6,<2.7,!=2.6.2,!=2.6.3", True),
        ("2.6.3", ">=2.6.1,<2.7,!=2.6.2,!=2.6.3", False),
        ("2.7.0", ">=2.6.6,<2.7", False),
        ("2.20.1", ">2.20", True),
        ("2.20", ">2.20", False),
        ("5.0rc1", ">=5,<6", True),
        ("3", "<=2", False),
        ("1", "", True),
        ("1", "~=1.0", True),
        ("unknown", ">=1", False),
    ],
)
def test_bounds(version: str, bounds: str, expected: bool) -> None:
    assert installation.allowed(version, bounds) == expected


def test_what_is_required_is_read_from_the_project() -> None:
    python, libraries = installation.required()
    assert python == ">=3.11"
    assert libraries["pytorch-lightning"].startswith(">=2.6.6,<2.7")
    assert libraries["jsonargparse"].startswith(">=4.39")
    assert len(libraries) > 10


def test_versions_of_this_installation() -> None:
    checks = installation.check_versions()
    assert [check.name for check in checks] == ["program", "Python", "libraries"]
    assert {check.status for check in checks} == {"ok"}
    assert "torch 2." in checks[-1].found


def test_other_versions(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nrequires-python = ">=4"\n'
        "dependencies = ['torch[x]>=99; python_version > \"3\"', 'no-such-library', 'numpy>=2']\n"
    )
    _, python, libraries = installation.check_versions(tmp_path)
    assert python.status == libraries.status == "FAILED"
    assert "expected >=4" in python.found
    assert "torch 2." in libraries.found
    assert "(>=99 allowed)" in libraries.found
    assert "no-such-library is not installed (any allowed)" in libraries.found
    assert "numpy" not in libraries.found
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (check,) = installation.check_versions(tmp_path)
    assert check.status == "FAILED"


def test_a_malicious_upload_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = installation.installed
    fake = {"lightning": "2.6.3"}
    monkeypatch.setattr(installation, "installed", lambda name: fake.get(name) or real(name))
    check = installation.check_versions()[-1]
    assert (check.status, check.found) == ("FAILED", "lightning 2.6.3 is a malicious upload")


# What a probe finds

TORCH = {"version": "2.13.0", "cuda": "13.0", "threads": 2, "distributed": True}
GOOD: dict[str, dict[str, Any]] = {
    "torch": TORCH,
    "gloo": {"processes": 2},
    "cuda": {"available": False, "visible": None, "devices": []},
    "nccl": {"used": False},
}


def device(**changes: Any) -> dict[str, Any]:
    given = {"name": "H200", "capability": "9.0", "error": None, "free": 130 * 2**30}
    return {**given, "total": 140 * 2**30, **changes}


def with_gpus(*devices: dict[str, Any], **changes: Any) -> dict[str, dict[str, Any]]:
    cuda = {"available": True, "visible": None, "devices": list(devices)}
    nccl = {"used": True, "version": "2.29.7"}
    return {**GOOD, "cuda": cuda, "nccl": nccl, **changes}


def test_torch_and_gloo() -> None:
    torch, gloo = installation.check_torch(GOOD, 2)
    assert torch == Check("torch", "ok", "2.13.0, built for CUDA 13.0, 2 thread(s)")
    assert gloo.status == "ok"
    torch, _ = installation.check_torch(GOOD, 1.0)
    assert torch.status == "warning"
    assert "OMP_NUM_THREADS=1" in torch.advice
    _, gloo = installation.check_torch({**GOOD, "gloo": {"error": "RuntimeError: no name"}}, 2)
    assert gloo.status == "warning"
    assert "GLOO_SOCKET_IFNAME" in gloo.advice
    (torch,) = installation.check_torch({"torch": {"error": "OSError: libcudart"}}, 2)
    assert torch.status == "FAILED"


def test_a_probe_that_died_has_failed_where_it_was() -> None:
    facts: dict[str, dict[str, Any]] = {"torch": TORCH}
    facts["end"] = {"error": "the process was ended by SIGSEGV (...)"}
    torch, gloo = installation.check_torch(facts, 2)
    assert torch.status == "ok"
    assert "SIGSEGV" in gloo.found
    (check,) = gpus.check_gpus(facts, None)
    assert (check.status, check.name) == ("FAILED", "GPUs")


DRIVER = ("580.1", ["H200", "H200"])


@pytest.mark.parametrize(
    ("facts", "driver", "status", "text"),
    [
        (GOOD, None, "ok", "none: training is on the CPU"),
        ({**GOOD, "torch": {**TORCH, "cuda": None}}, DRIVER, "warning", "make VARIANT=cuda"),
        (
            {**GOOD, "cuda": {**GOOD["cuda"], "visible": ""}},
            DRIVER,
            "warning",
            "CUDA_VISIBLE_DEVICES hides them",
        ),
        (
            {**GOOD, "cuda": {**GOOD["cuda"], "reason": "The NVIDIA driver is too old"}},
            DRIVER,
            "FAILED",
            "driver is too old",
        ),
        ({**GOOD, "cuda": {"error": "RuntimeError: x"}}, DRIVER, "FAILED", "RuntimeError: x"),
        (with_gpus(device(), device()), DRIVER, "ok", "2 usable, CUDA 13.0, driver 580.1"),
        (with_gpus(device()), DRIVER, "warning", "2 in the machine"),
        (with_gpus(device()), None, "ok", "driver of unknown version"),
    ],
)
def test_gpus(facts: Any, driver: gpus.Driver | None, status: str, text: str) -> None:
    check = gpus.check_gpus(facts, driver)[0]
    assert check.status == status
    assert text in f"{check.found} {check.advice}"


def test_each_gpu() -> None:
    facts = with_gpus(device(), device(free=2**30), device(error="CUDA error: no kernel image"))
    _, first, second, third, nccl = gpus.check_gpus(facts, None)
    assert first == Check(
        "GPU 0", "ok", "H200, compute capability 9.0, 130 GiB of 140 GiB free", ""
    )
    assert second.status == "warning"
    assert "nvidia-smi" in second.advice
    assert third.status == "FAILED"
    assert "no kernel image" in third.found
    assert nccl == Check("NCCL", "ok", "2.29.7, a group on the first GPU works")


@pytest.mark.parametrize(("count", "status"), [(1, "warning"), (2, "FAILED")])
def test_nccl_matters_with_several_gpus(count: int, status: str) -> None:
    facts = with_gpus(*[device()] * count, nccl={"error": "DistBackendError: x"})
    assert gpus.check_gpus(facts, None)[-1].status == status


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
    assert machine.check_memory([], tmp_path / "meminfo") == Check(
        "memory", "ok", "32.0 GiB of 64.0 GiB available"
    )
    write(tmp_path, {"memory.max": str(3 * 2**30), "memory.current": str(2 * 2**30)})
    check = machine.check_memory([tmp_path], tmp_path / "meminfo")
    assert check.status == "warning"
    assert check.found.startswith("1.0 GiB of 3.0 GiB available (the control group's limit")
    assert machine.check_memory([], tmp_path / "none").status == "ok"


@pytest.mark.parametrize(("total", "status"), [(64, "warning"), (2048, "ok")])
def test_shared_memory(total: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(f_blocks=total * 256, f_frsize=4096, f_bavail=total * 256)
    monkeypatch.setattr(os, "statvfs", lambda _: answer)
    check = machine.check_shared_memory()
    assert check.status == status
    assert ("--shm-size" in check.advice) == (status == "warning")


def test_no_shared_memory(tmp_path: Path) -> None:
    assert machine.check_shared_memory(tmp_path / "none").status == "ok"


def test_runs_directory_is_left_as_it_was(tmp_path: Path) -> None:
    check = machine.check_runs(tmp_path / "a" / "b")
    assert check.status in ("ok", "warning")  # a test machine may be full
    assert check.found.startswith(f"{tmp_path}/a/b can be written")
    assert not list(tmp_path.iterdir())
    write(tmp_path, {"runs/first/config.yaml": "x"})
    machine.check_runs(tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]


def test_runs_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = machine.check_runs(tmp_path / "file" / "runs")
    assert check.status == "FAILED"
    assert "Not a directory" in check.found
    probe = tmp_path / f"..doctor.{os.getpid()}.{os.getpid()}.part"
    probe.symlink_to("/dev/full")  # the kernel's own full disk
    check = machine.check_runs(tmp_path)
    assert check.status == "FAILED"
    assert "No space left on device" in check.found
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="to root, no directory is read-only")
def test_read_only_runs_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    check = machine.check_runs(tmp_path / "runs")
    tmp_path.chmod(0o700)
    assert check.status == "FAILED"
    assert "Permission denied" in check.found


def test_little_room_and_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    room = SimpleNamespace(total=2**40, used=0, free=10 * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    check = machine.check_runs(tmp_path)
    assert check.status == "warning"
    assert "no locks" in check.advice
    room.free = 2**20
    check = machine.check_runs(tmp_path)
    assert check.status == "warning"
    assert "make room" in check.advice
    assert "1.0 MiB free" in check.found


def test_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_HOME", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "not" / "yet"))
    caches, temporary = machine.check_caches()
    assert (caches.status, temporary.status) == ("ok", "ok")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "file" / "cache"))
    caches, _ = machine.check_caches()
    assert caches.status == "warning"
    assert "TORCH_HOME" in caches.found
    assert "HF_HOME" not in caches.found


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
    thread = threading.Thread(target=server.serve_forever)
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
        check = surroundings.check_hub()
    assert check.status == expected
    assert check.found.startswith(endpoint)


@pytest.mark.usefixtures("direct")
def test_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(
            constants, "ENDPOINT", f"http://me:secret@127.0.0.1:{closed.getsockname()[1]}/x?y=z"
        )
        check = surroundings.check_hub()
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
        check = surroundings.check_hub(0.2)
    assert check.status == "warning"
    assert "timed out" in check.found


@pytest.mark.usefixtures("direct")
def test_hub_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200) as proxy:
        monkeypatch.setenv("http_proxy", proxy.replace("://", "://me:secret@"))
        monkeypatch.setattr(constants, "ENDPOINT", "http://hub.invalid")
        check = surroundings.check_hub()
    assert check.found == f"http://hub.invalid through {proxy.replace('://', '://***@')} answers"


@pytest.mark.usefixtures("direct")
def test_hub_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check = surroundings.check_hub()
    assert check.status == "ok"
    assert "HF_HUB_OFFLINE=1" in check.found


# Data and backbone


def data(**corpora: dict[str, str | None]) -> dict[str, dict[str, Any]]:
    elsewhere = {"dream": "see dream.org", "wnut17": None}
    return {"data": {"corpora": corpora, "not_on_hub": elsewhere, "others": ["sst-2"]}}


@pytest.mark.parametrize(
    ("facts", "status", "text"),
    [
        (data(sst2={"train": None, "test": None}), "ok", "d: sst2 (train, test); not used: sst-2"),
        (data(snli={"train": "absent", "test": None}), "warning", "snli/train will be fetched"),
        (
            data(dream={"train": "absent"}, snli={"test": "absent"}, wnut17={"test": "absent"}),
            "warning",
            " snli/test will be fetched from the hub: add the files to avoid it; dream/train "
            "cannot be fetched: add the files (see dream.org); wnut17/test cannot be fetched: add "
            "the files",
        ),
        (data(snli={"train": "line 1: x", "test": None}), "FAILED", "snli/train: line 1: x"),
        (data(), "warning", "d holds no corpus of ours; not used: sst-2"),
        ({"data": {"error": "FileNotFoundError: d is no folder"}}, "FAILED", "is no folder"),
        ({"end": {"error": "ended by SIGKILL"}}, "FAILED", "ended by SIGKILL"),
    ],
)
def test_data_directory(facts: Any, status: str, text: str) -> None:
    check = surroundings.check_data(Path("d"), facts)
    assert check.status == status
    assert text in f"{check.found} {check.advice}"


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
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    facts = probes.data_facts(tmp_path)
    corpus = next(iter(files)).split("/")[0]
    assert list(facts["corpora"]) == [corpus]
    found = facts["corpora"][corpus]
    assert list(found) == list(expected)
    for split, problem in expected.items():
        assert found[split] is None if problem is None else problem in found[split]
    elsewhere = corpus in ("dream", "wnut17")
    assert list(facts["not_on_hub"]) == [corpus] * elsewhere
    assert all("https://" in origin for origin in facts["not_on_hub"].values())


def test_folders_that_are_no_corpus(tmp_path: Path) -> None:
    for name in ("text_files", "tagged_files", "running_text", "reviews", "sst-2"):
        (tmp_path / name).mkdir()
    found = probes.data_facts(tmp_path)
    assert not found["corpora"]
    assert found["others"] == ["reviews", "running_text", "sst-2", "tagged_files", "text_files"]


def test_no_data_directory() -> None:
    assert surroundings.check_data(None, {}).status == "ok"


def test_backbone() -> None:
    found = {"model": "bert", "layers": 6, "width": 384, "ids": 30522}
    check = surroundings.check_backbone(Path("f"), {"backbone": found})
    assert check == Check("backbone", "ok", "bert, 6 layers, width 384, 30522 ids, from f")
    check = surroundings.check_backbone(Path("f"), {"backbone": {"error": "ValueError: x"}})
    assert check.status == "FAILED"


# What is shown


def test_secrets_are_masked() -> None:
    environment = {"HF_TOKEN": "hf_abcdef", "API_KEY": "12345678", "MONKEY": "banana-split"}
    text = "http://me:pw@host/x hf_abcdef 12345678 banana-split https://host/a@b"
    assert (
        report.masked(text, environment)
        == "http://***@host/x *** *** banana-split https://host/a@b"
    )


def test_table_and_json() -> None:
    checks = report.fit_to_print(
        [
            Check("torch", "ok", "2.13.0"),
            Check("data directory", "FAILED", "a\x1b[2J\nb " + "word " * 30, "do " + "this " * 30),
        ]
    )
    table = report.as_table(checks, 80)
    assert max(map(len, table.splitlines())) <= 80
    assert "\x1b" not in table
    assert table.splitlines()[0] == "ok       torch           2.13.0"
    assert r"FAILED   data directory  a\x1b[2J b word" in table
    assert "-> do this" in table
    assert table.endswith("1 ok, 0 warning, 1 FAILED")
    content = json.loads(report.as_json(checks))
    assert content["ok"] is False
    assert content["checks"][0] == {
        "name": "torch",
        "status": "ok",
        "found": "2.13.0",
        "advice": "",
    }
