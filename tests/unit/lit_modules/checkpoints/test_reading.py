"""A checkpoint alone brings a model back, bit for bit; anything else is refused with a reason."""

import contextlib
import pickle
import random
import re
import shutil
import socket
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import lit_modules
from lit_modules import OLSA, CheckpointError, TaskModule, check_fits, check_method, read_checkpoint
from tests.unit.lit_modules.builders import (
    EVERY_METHOD,
    PAIRS,
    SINGLE,
    Build,
    attached,
    loader,
    olsa,
    plain,
    save_backbone,
    trainer,
)


def trained(build: Build, path: Path, *, pairs: bool = False) -> TaskModule:
    """Two steps of a real fit, saved by the trainer."""
    module = attached(build, pairs=pairs).train()
    texts = PAIRS if pairs else SINGLE
    run = trainer(max_steps=2, max_epochs=-1)
    run.fit(module, loader(module, texts, 2), loader(module, texts, 4))
    run.save_checkpoint(path)
    return module.eval()


def same(module: TaskModule, path: Path, *, pairs: bool = False) -> None:
    texts = PAIRS if pairs else SINGLE
    expected = module.predict_texts(texts)
    again = lit_modules.load(path)
    assert not again.training
    assert again.class_names == module.class_names
    assert again.pairs == pairs
    assert torch.equal(again.predict_texts(texts), expected)


@EVERY_METHOD
def test_every_method_comes_back(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    module = trained(build, path)
    same(module, path)
    content = torch.load(path, weights_only=True)
    assert content["steadfast"]["method"] == type(module).__name__


@pytest.mark.parametrize("build", [olsa(depth=2), plain()], ids=["olsa", "transformer"])
def test_pairs_come_back(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    same(trained(build, path, pairs=True), path, pairs=True)


@pytest.mark.parametrize("layer", [-1, 1])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_backbone_comes_back_without_its_folder(
    kind: str, layer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path = tmp_path / "backbone", tmp_path / "a.ckpt"
    save_backbone(folder, kind)
    build = olsa(backbone=str(folder), layer=layer, max_length=30, cache=True)
    module = trained(build, path)
    shutil.rmtree(folder)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("went to the network"))
    same(module, path)


@pytest.mark.long
@pytest.mark.pretrained
def test_real_backbone_comes_back(minilm: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    same(trained(olsa(backbone=minilm, heads=8, max_length=30), path), path)


# Files that are no checkpoint of ours


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "good.ckpt"
    trained(plain(width=8, heads=2, depth=1), path)
    return path


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not found; expected one written by"):
        read_checkpoint(tmp_path / "none.ckpt")
    with pytest.raises(CheckpointError, match=r"without steadfast.json, .*use --run NAME, .* hf:"):
        read_checkpoint(tmp_path)
    best = tmp_path / "checkpoints" / "best.ckpt"
    best.parent.mkdir()
    best.touch()
    for path in (tmp_path, best.parent):
        with pytest.raises(CheckpointError, match=f"or a file: use {re.escape(str(best))}$"):
            read_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint\n", b"\x80\x02", b"PK\x03\x04"])
def test_no_checkpoint(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"cannot be read .*: it is damaged or no checkpoint"):
        read_checkpoint(path)


@pytest.mark.long
def test_damaged_files_raise_nothing_else(good: Path, tmp_path: Path) -> None:
    """Cut short, bytes changed, or bytes that only begin like a pickle."""
    raw, path, rng = good.read_bytes(), tmp_path / "a.ckpt", random.Random(0)
    begin = raw.index(b"data.pkl")
    for _ in range(60):
        changed = bytearray(raw)
        changed[begin + rng.randrange(1500)] = rng.randrange(256)
        opcodes = rng.choices(
            b"\x80\x02}{]()qXKMJNtuabceosRi\x85\x86\x88sf", k=rng.randrange(1, 60)
        )
        for content in (raw[: rng.randrange(len(raw))], bytes(changed), bytes(opcodes)):
            path.write_bytes(content)
            # A changed name or bias may go unnoticed.
            with contextlib.suppress(CheckpointError):
                lit_modules.load(path)


def test_foreign_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    foreign: list[object] = [{"state_dict": {}}, [1, 2], torch.ones(2)]
    for content in foreign:
        torch.save(content, path)
        with pytest.raises(CheckpointError, match="was not written by this project"):
            read_checkpoint(path)


@pytest.mark.parametrize("content", [{"format": 99}, {}, 3])
def test_other_format(content: object, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    torch.save({"steadfast": content}, path)
    with pytest.raises(CheckpointError, match=r"of format (99|None), expected 2"):
        read_checkpoint(path)


def test_lost_parts(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    content = read_checkpoint(good)
    del content["state_dict"], content["steadfast"]["tokenizer"]
    torch.save(content, path)
    with pytest.raises(CheckpointError, match="without state_dict, tokenizer: it is damaged"):
        read_checkpoint(path)


class Payload:
    """A pickle that, once executed, writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, (f"open({str(self.target)!r}, 'w').close()",))


@pytest.mark.parametrize("form", ["pickle", "torch", "inside"])
def test_malicious_pickle_is_not_executed(form: str, good: Path, tmp_path: Path) -> None:
    target, path = tmp_path / "harm", tmp_path / "a.ckpt"
    payload = Payload(target)
    if form == "pickle":
        path.write_bytes(pickle.dumps(payload))
    elif form == "torch":
        torch.save({"steadfast": payload}, path)
    else:
        with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                harm = pickle.dumps({"steadfast": {"format": 2}, "hyper_parameters": payload})
                new.writestr(name, harm if name.endswith("data.pkl") else old.read(name))
    for read in (read_checkpoint, lit_modules.load):
        with pytest.raises(CheckpointError, match="cannot be read"):
            read(path)
        assert not target.exists()
    if form == "pickle":  # the payload is a real one
        pickle.loads(path.read_bytes())
        assert target.exists()


def test_unknown_method_and_setting(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    content = read_checkpoint(good)
    content["hyper_parameters"] |= {"_class_path": "X", "sparkle": 1, "glitter": 2}
    torch.save(content, path)
    with pytest.raises(CheckpointError, match="unknown to this version: glitter, sparkle"):
        lit_modules.load(path)
    content["steadfast"]["method"] = "Oracle"
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=r"of method Oracle, expected one of .*OLSA"):
        lit_modules.load(path)


def test_settings_that_make_no_model(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    content = read_checkpoint(good)
    content["hyper_parameters"]["heads"] = 3
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=r"no model can be built .*divisible by the heads"):
        lit_modules.load(path)


def test_other_method_and_other_shapes(good: Path) -> None:
    content = read_checkpoint(good)
    with pytest.raises(
        CheckpointError,
        match="of method TextClassifier, expected OLSA: give --model TextClassifier, or another",
    ):
        check_method(content, OLSA(), good)
    wider = plain(width=12, heads=2, depth=1)()
    wider.restore_text(content)
    wider.configure_model()
    with pytest.raises(
        CheckpointError, match=r"do not fit the model \(\d+ differ; embedding\."
    ) as e:
        check_fits(content, wider, good)
    assert "(8,) in the file, (12,) in the model" in str(e.value)
    deeper = plain(width=8, heads=2, depth=2)()
    deeper.restore_text(content)
    deeper.configure_model()
    with pytest.raises(CheckpointError, match=r"absent in the file, \(\d"):
        check_fits(content, deeper, good)
    fits = plain(width=8, heads=2, depth=1)()
    fits.restore_text(content)
    fits.configure_model()
    check_fits(content, fits, good)
