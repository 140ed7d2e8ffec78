"""Files of torch that execute nothing and ask for any memory all the same."""

import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from text.torch_archive import check_archive, check_pickle

HEAD = b"\x80\x02"


def call(name: str, arguments: bytes) -> bytes:
    return HEAD + b"c" + name.replace(" ", "\n").encode() + b"\n" + arguments + b"R."


def tensor(storage: bytes, size: bytes, stride: bytes) -> bytes:
    body = (
        b"(" + storage + b"Q" + b"K\0" + size + stride + b"\x89" + b"ccollections\nOrderedDict\n)R"
    )
    return call("torch._utils _rebuild_tensor_v2", body + b"t")


STORAGE = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuK\2t"
LARGE = b"J\xff\xff\xff\x7f"
HARM = {
    "bytearray": call("builtins bytearray", LARGE + b"\x85"),
    "tensor": call("torch Tensor", LARGE + b"\x85"),
    "tensor of a kind": call("torch FloatTensor", LARGE + b"\x85"),
    "storage": call("torch.storage UntypedStorage", LARGE + b"\x85"),
    "typed storage": call("torch FloatStorage", LARGE + b"\x85"),
    "counter": call("collections Counter", b"X\1\0\0\0a\x85"),
    "a dictionary counted twice": HEAD
    + b"(}q\0K\1K\1sccollections\nCounter\nq\1h\0\x85Rh\1h\0\x85Rt.",
    "new object": HEAD + b"ctorch\nTensor\n" + LARGE + b"\x85\x81.",
    "nested": call("torch._utils _rebuild_nested_tensor", b")"),
    "meta": call("torch._utils _rebuild_meta_tensor_no_storage", b")"),
    "ordered dictionary of values": call("collections OrderedDict", b"]\x85"),
    "beyond its storage": tensor(STORAGE, b"K\3\x85", b"K\1\x85"),
    "expanded": tensor(STORAGE, LARGE + b"\x85", b"K\0\x85"),
    "more than stored": tensor(STORAGE.replace(b"K\2t", LARGE + b"t"), b"K\2\x85", b"K\1\x85"),
    "negative": tensor(STORAGE, b"J\xff\xff\xff\xff\x85", b"K\1\x85"),
    "set_": HEAD + b"ctorch\nTensor\n)R" + b"K\1\x85b.",
    "key of tuples": HEAD + b"})q\0" + b"h\0h\0\x86q\0" * 40 + b"K\1s.",
    "too deep": HEAD + b"]" * 200 + b"a" * 199 + b".",
    "code": HEAD + b"cposix\nsystem\nX\2\0\0\0ls\x85R.",
    "empty stack": HEAD + b"0.",
    "no such memo": HEAD + b"h\5.",
    "other protocol": pickle.dumps([1, {2}], protocol=4),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_pickles_that_ask_for_more(harm: bytes) -> None:
    with pytest.raises(ValueError, match=r"^its pickle"):
        check_pickle(harm, {"0": 8})


def test_the_same_pickle_within_its_storage() -> None:
    check_pickle(tensor(STORAGE, b"K\2\x85", b"K\1\x85"), {"0": 8})


@pytest.mark.parametrize(
    "content",
    [
        {"a": torch.zeros(2, 3), "b": [1, 2.5, None, "x", (True, 10**30)], 3: {}},
        {"t": torch.arange(12).view(3, 4).t(), "s": torch.tensor(1.0), "e": torch.zeros(0, 5)},
        {"h": torch.zeros(3, dtype=torch.bfloat16), "c": torch.zeros(2, dtype=torch.bool)},
        torch.nn.Linear(2, 3).state_dict(),
        OrderedDict(a=torch.zeros(2)),
    ],
)
def test_what_torch_writes(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(content, path)
    check_archive(path)


SETTINGS: dict[str, dict[str, Any]] = {
    "CosineAnnealingLR": {"T_max": 3},
    "CosineAnnealingWarmRestarts": {"T_0": 2},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 0.2},
    "ExponentialLR": {"gamma": 0.9},
    "LambdaLR": {"lr_lambda": lambda _: 1.0},
    "MultiStepLR": {"milestones": [1, 2, 2]},
    "MultiplicativeLR": {"lr_lambda": lambda _: 1.0},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 9},
    "StepLR": {"step_size": 2},
}
"""Settings that the schedulers of torch require."""
SCHEDULERS = [
    name
    for name, cls in vars(lr_scheduler).items()
    if isinstance(cls, type)
    and issubclass(cls, lr_scheduler.LRScheduler)
    and name not in ("_LRScheduler", "LRScheduler", "ChainedScheduler", "SequentialLR")
]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_state_of_every_scheduler(name: str, tmp_path: Path) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1, momentum=0.9)
    scheduler = getattr(lr_scheduler, name)(optimizer, **SETTINGS.get(name, {}))
    path = tmp_path / "a.pt"
    torch.save(scheduler.state_dict(), path)
    state = check_archive(path)
    assert state.keys() == scheduler.state_dict().keys()
    if name == "MultiStepLR":
        assert state["milestones"] == {1: 1, 2: 2}


def test_plain_values_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    names = ["bad", "good"]
    plain: dict[str, Any] = {
        "task": "classification",
        "names": names,
        "again": names,
        "k": (1, (2.5, {"e": []})),
    }
    torch.save({**plain, "state": OrderedDict(w=torch.zeros(2)), "pair": (torch.ones(1), 1)}, path)
    assert check_archive(path) == {**plain, "state": {"w": None}, "pair": (None, 1)}
    torch.save(torch.nn.Linear(2, 3).state_dict(), path)
    assert check_archive(path) == {"weight": None, "bias": None}


def test_it_takes_no_memory(tmp_path: Path) -> None:
    """350 bytes that reach gigabytes in torch, in a process that may not have them."""
    path = tmp_path / "a.ckpt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", HARM["bytearray"])
        archive.writestr("archive/version", "3\n")
    assert path.stat().st_size < 500
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from text.torch_archive import check_archive\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))\n"
        "try: check_archive(Path(sys.argv[1]))\n"
        "except ValueError as error: print(error)\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert "bytearray" in outcome.stdout


def test_two_lists_of_contents(tmp_path: Path) -> None:
    """Python's reader moves offsets by what is in front of an archive, torch's does not."""
    path = tmp_path / "a.pt"
    torch.save({"a": 1}, path)
    path.write_bytes(b"PK\3\4" + path.read_bytes())
    with pytest.raises(ValueError, match="list of contents"):
        check_archive(path)


def test_a_pickle_is_walked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = []
    monkeypatch.setattr("text.torch_archive.check_pickle", lambda *words: walked.append(words))
    for name, content in (("a", [1, "once"]), ("b", [1, "once"]), ("c", [2, "once"])):
        torch.save({"content": content}, tmp_path / name)
        for _ in range(2):
            check_archive(tmp_path / name)
    assert len(walked) == 2
