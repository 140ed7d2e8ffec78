"""Checkpoints carry a checksum of themselves, and every damaged byte is noticed."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lit_modules.checkpoints.sealed import SealingWriter, intact

CONTENT: dict[str, Any] = {"weights": torch.arange(1000.0), "names": ["a", "b"], "step": 3}


def sealed(path: Path) -> Path:
    with path.open("wb") as stream:
        writer = SealingWriter(stream)
        torch.save(CONTENT, writer)  # type: ignore[arg-type] # only write() is called
        writer.seal()
    return path


@pytest.mark.parametrize("mmap", [False, True])
def test_torch_and_others_read_it_as_ever(tmp_path: Path, mmap: bool) -> None:
    path = sealed(tmp_path / "a.ckpt")
    assert intact(path) is True
    content = torch.load(path, weights_only=True, mmap=mmap)
    assert torch.equal(content["weights"], CONTENT["weights"])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"sha256:")


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    path = sealed(tmp_path / "a.ckpt")
    content = path.read_bytes()
    for position in range(0, len(content) - 93, 97):
        changed = bytearray(content)
        changed[position] ^= 0x10
        path.write_bytes(changed)
        assert intact(path) is False, position


def test_a_file_cut_short_is_not_intact(tmp_path: Path) -> None:
    path = sealed(tmp_path / "a.ckpt")
    content = path.read_bytes()
    for length in (0, 1, 50, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert not intact(path)


def test_files_without_checksum_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    torch.save(CONTENT, path)
    assert intact(path) is None


@pytest.mark.long
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_whatever_the_sizes_of_the_writes(parts: list[bytes]) -> None:
    end = b"PK\5\6" + bytes(18)
    full, pieces = io.BytesIO(), io.BytesIO()
    for stream, chunks in ((full, [b"".join(parts) + end]), (pieces, [*parts, end])):
        writer = SealingWriter(stream)
        for chunk in chunks:
            assert writer.write(chunk) == len(chunk)
        writer.seal()
    assert full.getvalue() == pieces.getvalue()
    assert full.getvalue().startswith(b"".join(parts) + b"PK\5\6")


def test_only_archives_are_sealed() -> None:
    writer = SealingWriter(io.BytesIO())
    writer.write(b"x" * 100)
    with pytest.raises(ValueError, match="do not end as a zip archive"):
        writer.seal()
