"""Packed blocks that several processes want at the same time."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from datamodules.packing.blocks import Blocks
from datamodules.packing.packed_text import open_packed
from tests.faults.program import forked


def make(folder: Path, name: str, seconds: float) -> None:
    """Opens the blocks, which it makes with pauses if there are none; `NAME` says so."""

    def blocks() -> Iterator[Blocks]:
        (folder / name).touch()
        for _ in range(3):
            yield Blocks(np.ones((2, 4), dtype=np.int32), np.full(2, 4, dtype=np.int32))
            time.sleep(seconds)

    dataset, about = open_packed(folder / "packed", 1, blocks(), length=4, vocab_size=9)
    (folder / f"{name}.said").write_text(f"{len(dataset)} {about['tokens']}")


def test_several_processes_make_them_once_and_a_killed_one_leaves_nothing(tmp_path: Path) -> None:
    killed = forked(make, tmp_path, "killed", 600)
    while not (tmp_path / "killed").exists():
        assert killed.is_alive()
        time.sleep(0.02)
    waiting = [forked(make, tmp_path, name, 0) for name in ("one", "other")]
    time.sleep(0.1)
    killed.kill()
    for program in (killed, *waiting):
        program.join()
    assert [program.exitcode for program in waiting] == [0, 0]
    assert [(tmp_path / f"{name}.said").read_text() for name in ("one", "other")] == ["6 24"] * 2
    # Only one of them made anything.
    assert sum((tmp_path / name).exists() for name in ("one", "other")) == 1
