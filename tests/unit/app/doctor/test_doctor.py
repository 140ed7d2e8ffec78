"""Checks of `doctor`, one by one; tests/integration/test_doctor.py runs the command."""

import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
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
from huggingface_hub import close_session, constants

from app.doctor import findings, trials
from app.doctor.findings import Finding, Trial, TrialProcess, run_trial


def outcome(trial: Trial) -> list[Finding]:
    return [finding for final, finding in run_trial(trial) if final]


# Versions


def test_what_is_required_is_read_from_the_project() -> None:
    python, libraries = trials.required()
    assert python == ">=3.11"
    assert len(libraries) > 10
    assert any(line.startswith("pytorch-lightning>=2.6.6,<2.7") for line in libraries)


def test_versions_of_this_installation() -> None:
    found = outcome(trials.check_versions())
    assert [finding.name for finding in found] == ["program", "Python", "libraries"]
    assert {finding.status for finding in found} == {"ok"}
    assert "torch 2." in found[-1].found


def test_other_versions(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nrequires-python = ">=4"\n'
        "dependencies = ['torch[x]>=99; python_version > \"3\"', 'no-such-library', 'numpy>=2', "
        "'not-here; python_version < \"3\"']\n"
    )
    _, python, libraries = outcome(trials.check_versions(tmp_path))
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
    (finding,) = outcome(trials.check_versions(tmp_path))
    assert finding.status == "FAILED"


def test_without_the_library_that_compares_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    (finding,) = outcome(trials.check_versions())
    assert finding.status == "FAILED"
    assert "packaging" in finding.found


def test_a_malicious_upload_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = trials.installed
    fake = {"lightning": "2.6.3"}
    monkeypatch.setattr(trials, "installed", lambda name: fake.get(name) or real(name))
    finding = outcome(trials.check_versions())[-1]
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
            lambda: time.sleep(600), ["works", "here: no answer within 2 s"], marks=pytest.mark.long
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


def test_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "__version__", "2.13.0")
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(trials, "cores", lambda: 2)
    text = "2.13.0, 2 thread(s) on 2 of 64 processors"
    assert outcome(trials.torch_works()) == [Finding("torch", "ok", text)]
    monkeypatch.setattr(trials, "cores", lambda: 1.5)
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
        (
            {"count": 0, "listed": 2, "visible": ""},
            "warning",
            "CUDA_VISIBLE_DEVICES= hides GPUs: unset it",
        ),
        ({"count": 0, "listed": 2, "reason": "driver is too old"}, "FAILED", "driver is too old"),
        ({"count": 2, "listed": 2}, "ok", "2 usable, CUDA 13.0, driver 580.1"),
        ({"count": 1, "listed": 2}, "warning", "2 in the machine"),
        ({"count": 1, "listed": 2, "visible": "0"}, "warning", "CUDA_VISIBLE_DEVICES=0 hides GPUs"),
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
    text = "H200, compute capability 9.0, 130.0 GiB of 140.0 GiB free"
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


def test_memory(tmp_path: Path) -> None:
    write(tmp_path, {"meminfo": "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"})
    assert trials.check_memory([], tmp_path / "meminfo") == Finding(
        "memory", "ok", "32.0 GiB of 64.0 GiB available"
    )
    write(tmp_path, {"memory.max": str(3 * 2**30), "memory.current": str(2 * 2**30)})
    check = trials.check_memory([tmp_path], tmp_path / "meminfo")
    assert check.status == "warning"
    assert check.found.startswith("1.0 GiB of 3.0 GiB available (the control group's limit")
    assert trials.check_memory([], tmp_path / "none").status == "ok"


@pytest.mark.parametrize(("total", "status"), [(64, "warning"), (2048, "ok")])
def test_shared_memory(total: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room = (total * 2**20, 0, total * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    check = trials.check_shared_memory(Path("/dev/shm"))
    assert check.status == status
    assert ("--shm-size" in check.advice) == (status == "warning")


def check_runs(path: Path) -> Finding:
    (finding,) = outcome(trials.folder(trials.RUNS, path, "FAILED", "make room"))
    return finding


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
    assert "0.0 GiB free" in check.found


def folders_of(machine_has: Iterator[Trial]) -> list[Finding]:
    return [finding for trial in machine_has for finding in outcome(trial)][-2:]


def test_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "not" / "yet"))
    cache, temporary = folders_of(trials.of_machine(tmp_path))
    assert (cache.name, cache.status) == ("cache of the hub", "ok")
    assert (temporary.name, temporary.status) == ("temporary files", "ok")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    cache, _ = folders_of(trials.of_machine(tmp_path))
    assert (cache.name, cache.status) == ("cache of the hub", "warning")
    assert str(tmp_path / "file" / "cache" / "huggingface") in cache.found
    assert "HF_HOME" in cache.advice


def test_no_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    finding = folders_of(trials.of_machine(Path()))[-1]
    assert finding.status == "FAILED"
    assert "nothing can be written into any folder" in finding.found
    assert "TMPDIR" in finding.advice


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
    close_session()  # which has read the proxies of before


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
    through = proxy.replace("://", "://***@")
    assert check.found == f"http://hub.invalid through {through} answers with status 200"


@pytest.mark.usefixtures("direct")
def test_hub_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check = outcome(trials.hub())[0]
    assert check.status == "ok"
    assert "HF_HUB_OFFLINE" in check.found


# Data and backbone


def test_data_directory(tmp_path: Path) -> None:
    rows = "sentence\tlabel\na\t1\n"
    write(tmp_path, {f"sst2/{split}.tsv": rows for split in ("train", "validation")})
    (tmp_path / "sst-2").mkdir()
    assert outcome(trials.data(tmp_path)) == [
        Finding("data directory", "ok", f"{tmp_path} holds sst2; not used: sst-2"),
        Finding("corpus sst2", "ok", "train: ok; validation: ok; test: ok"),
    ]


def test_absent_splits(tmp_path: Path) -> None:
    for corpus in ("dream", "rte", "wnut17"):
        (tmp_path / corpus).mkdir()
    directory, *corpora = outcome(trials.data(tmp_path))
    assert directory.status == "ok"
    for finding, name in zip(corpora, ("dream", "rte", "wnut17"), strict=True):
        text = "train: absent; validation: absent; test: absent"
        assert finding[:3] == (f"corpus {name}", "warning", text)
        place = "will be downloaded from the hub" if name == "rte" else "https://"
        assert place in finding.advice


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
        {"train": None, "validation": None, "test": "absent"},
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
    _, finding = outcome(trials.data(write(tmp_path, files)))
    corpus = next(iter(files)).split("/")[0]
    assert finding.name == f"corpus {corpus}"
    said = dict(text.split(": ", 1) for text in finding.found.split("; "))
    assert said.keys() == expected.keys()
    for split, text in expected.items():
        assert said[split] == "ok" if text is None else text in said[split]
    broken = any(text not in (None, "absent") for text in expected.values())
    absent = "absent" in expected.values()
    assert finding.status == ("FAILED" if broken else "warning" if absent else "ok")


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
