"""Packed blocks that several processes want at the same time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.integration.several import ROOT


def test_several_processes_make_them_once_and_a_killed_one_leaves_nothing(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
import numpy as np
from datamodules.packing.packed_text import open_packed
from datamodules.packing.blocks import Blocks

def blocks():
    Path(sys.argv[1]).touch()
    for _ in range(3):
        yield Blocks(np.ones((2, 4), dtype=np.int32), np.full(2, 4, dtype=np.int32))
        time.sleep(float(sys.argv[2]))

folder = Path({str(tmp_path / "packed")!r})
dataset, about = open_packed(folder, 1, blocks(), length=4, vocab_size=9)
print(len(dataset), about["tokens"])
"""

    def start(name: str, seconds: float) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / name), str(seconds)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )

    killed = start("killed", 600)
    while not (tmp_path / "killed").exists():
        assert killed.poll() is None
        time.sleep(0.02)
    waiting = [start(name, 0) for name in ("one", "other")]
    time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert [program.communicate()[0] for program in waiting] == ["6 24\n"] * 2
    assert [program.returncode for program in waiting] == [0, 0]
    # Only one of them made anything.
    assert sum((tmp_path / name).exists() for name in ("one", "other")) == 1
