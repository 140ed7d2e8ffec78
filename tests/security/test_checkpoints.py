"""A checkpoint from anywhere: nothing in it is executed, and it cannot ask for more than it has."""

import os
import pickle
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import lit_modules
from lit_modules import CheckpointError, read_checkpoint
from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast
from tests.security.checkpoints import ARCHIVES, CODE, CONTENT, Forge, content, seal, sealed
from tests.security.payloads import Evaluate, Hidden, Marker, Shell, works

BOTH = {"plain": lambda forge: forge, "sealed": sealed}


@pytest.fixture(autouse=True)
def within_memory() -> Iterator[None]:
    """No file makes this process larger by more than half a gigabyte beyond its largest so far."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 512 * 1024, f"{grown} kB"


@pytest.fixture
def good(trained: Path) -> Path:
    return trained / "checkpoints" / "last.ckpt"


def refused(path: Path) -> list[str]:
    """The messages of all ways to read a checkpoint; each has to be a CheckpointError."""
    messages = []
    for read in (read_checkpoint, lit_modules.load):
        with pytest.raises(CheckpointError) as caught:
            read(path)
        message = str(caught.value)
        assert message.startswith(f"got checkpoint {path}")
        assert len(message) < 1000
        messages.append(message)
    return messages


def test_the_payloads_are_real(marker: Marker) -> None:
    for payload in (Shell(marker.command), Evaluate(marker), Hidden(marker)):
        assert works(payload, marker)
    assert isinstance(pickle.loads(pickle.dumps(Hidden(marker))), dict)


def test_a_forged_checksum_is_right(good: Path, tmp_path: Path) -> None:
    """What is sealed below is not refused for its checksum."""
    path = tmp_path / "a.ckpt"
    torch.save(content(good), path)
    seal(path)
    assert lit_modules.load(path).class_names == ["negative", "positive"]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("forge", CODE.values(), ids=CODE)
def test_code_is_not_executed(
    forge: Forge, kind: str, good: Path, tmp_path: Path, marker: Marker
) -> None:
    path = tmp_path / "a.ckpt"
    BOTH[kind](forge)(good, path, marker)
    for message in refused(path):
        assert "cannot be read" in message
    assert marker.untouched()


@pytest.mark.parametrize("name", ["prefixed pickle", "inside optimizer_states"])
def test_the_same_files_execute_code_where_it_is_allowed(
    name: str, good: Path, tmp_path: Path, marker: Marker
) -> None:
    path = tmp_path / "a.ckpt"
    CODE[name](good, path, marker)
    torch.load(path, weights_only=False)
    assert not marker.untouched()


def test_no_setting_of_the_environment_allows_it(
    good: Path, tmp_path: Path, marker: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    path = tmp_path / "a.ckpt"
    CODE["inside hyper_parameters"](good, path, marker)
    refused(path)
    assert marker.untouched()


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("forge", ARCHIVES.values(), ids=ARCHIVES)
def test_archives_that_torch_did_not_write(
    forge: Forge, kind: str, good: Path, tmp_path: Path, marker: Marker
) -> None:
    path = tmp_path / "a.ckpt"
    BOTH[kind](forge)(good, path, marker)
    before = sorted(tmp_path.rglob("*"))
    for message in refused(path):
        assert "cannot be read" in message
    assert marker.untouched()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("forge", CONTENT.values(), ids=CONTENT)
def test_content_that_was_made_to_harm(
    forge: Forge, kind: str, good: Path, tmp_path: Path, marker: Marker
) -> None:
    path = tmp_path / "a.ckpt"
    BOTH[kind](forge)(good, path, marker)
    with pytest.raises(CheckpointError) as caught:
        lit_modules.load(path)
    assert len(str(caught.value)) < 1000


def test_pipes_and_devices_are_no_checkpoints(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ckpt")
    (tmp_path / "zeros.ckpt").symlink_to("/dev/zero")
    for name in ("pipe.ckpt", "zeros.ckpt"):
        for message in refused(tmp_path / name):
            assert "not found" in message


# By the command line


def flat(*args: Any) -> list[str]:
    return [word for arg in args for word in ([arg] if isinstance(arg, str) else arg)]


COMMANDS = [
    ("test", "inside callbacks"),
    ("fit", "inside loops"),
    ("test", "legacy format"),
    ("certify", "prefixed pickle"),
    ("predict", "replaced pickle"),
    ("validate", "bare pickle"),
    ("fit", "prefixed pickle"),
]


@pytest.mark.parametrize(
    ("kind", "command", "name"),
    [
        *(("plain", *case) for case in COMMANDS),
        *(("sealed", *case) for case in COMMANDS[:2]),
        *(pytest.param("sealed", *case, marks=pytest.mark.slow) for case in COMMANDS[2:]),
    ],
)
def test_commands_refuse_a_checkpoint_with_code(
    kind: str, command: str, name: str, trained: Path, steadfast: Steadfast, marker: Marker
) -> None:
    """In the place of the run's own, and given by its path."""
    good = trained / "checkpoints" / "last.ckpt"
    foreign = trained.parent.parent / "foreign.ckpt"
    BOTH[kind](CODE[name])(good, foreign, marker)
    outcome = steadfast(
        command, OLSA, REVIEWS, TINY, "--trainer.max_epochs=1", f"--ckpt_path={foreign}", "--run=b"
    )
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1].startswith("error: got checkpoint")
    for path in (trained / "checkpoints").glob("*.ckpt"):
        path.write_bytes(foreign.read_bytes())
    more = ["--trainer.max_epochs=5"] if command == "fit" else []
    outcome = steadfast(command, "--run=done", more)
    assert outcome.status == 1
    assert "cannot be read" in outcome.err
    assert "Traceback" not in outcome.err
    assert marker.untouched()


@pytest.mark.parametrize("name", ["width of terabytes", "ids of terabytes", "compressed"])
def test_commands_refuse_a_checkpoint_that_asks_for_too_much(
    name: str, trained: Path, steadfast: Steadfast, marker: Marker
) -> None:
    path = trained / "checkpoints" / "best.ckpt"
    forge = {**CONTENT, **ARCHIVES}[name]
    forge(trained / "checkpoints" / "last.ckpt", path, marker)
    outcome = steadfast("test", "--run=done", TINY, ATTACK)
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1].startswith("error: got checkpoint")


def test_a_checkpoint_cannot_have_files_deleted(
    trained: Path, steadfast: Steadfast, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where the best weights were is in the checkpoint, and what is no longer best is deleted."""
    victim = tmp_path_factory.mktemp("elsewhere") / "victim.txt"
    victim.write_text("precious")
    for path in (trained / "checkpoints").glob("*.ckpt"):
        harm = content(path)
        for state in harm["callbacks"].values():
            if "best_model_path" in state:
                state["best_model_path"] = state["kth_best_model_path"] = str(victim)
                state["last_model_path"] = str(victim)
                state["dirpath"] = str(victim.parent)
                state["best_k_models"] = {str(victim): torch.tensor(0.0)}
                state["best_model_score"] = torch.tensor(0.0)
        torch.save(harm, path)
    assert steadfast("fit", "--run=done", "--trainer.max_epochs=4").status == 0
    assert victim.read_text() == "precious"
    assert [path.name for path in victim.parent.iterdir()] == ["victim.txt"]
