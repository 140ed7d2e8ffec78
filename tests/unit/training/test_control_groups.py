"""Limits of control groups, in files made by hand."""

import os
from pathlib import Path

import pytest

from training import control_groups


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
    groups = control_groups.control_groups(root / "cg", root / "own")
    assert [group.name for group in groups] == ["b", "a", "cg"]
    assert control_groups.cpu_limit(groups) == 1.5
    assert control_groups.memory_limit(groups) == (4 * 2**30, 2 * 2**30)


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
    groups = control_groups.control_groups(root / "cg", root / "own")
    assert control_groups.cpu_limit(groups) == 2
    assert control_groups.memory_limit(groups) == (2**30, 1000)
    (root / "cg/cpu,cpuacct/cpu.cfs_quota_us").write_text("-1\n")
    (root / "cg/memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert control_groups.cpu_limit(groups) is None
    assert control_groups.memory_limit(groups) is None


def test_control_groups_that_are_not_there_or_lead_elsewhere(tmp_path: Path) -> None:
    assert control_groups.control_groups(tmp_path, tmp_path / "none") == []
    write(tmp_path, {"own": "0::/../../..\nnonsense\n", "cg/x": ""})
    assert control_groups.control_groups(tmp_path / "cg", tmp_path / "own") == [tmp_path / "cg"]


def test_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert control_groups.cores([]) == len(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    assert control_groups.cores([]) == 64
    write(tmp_path, {"cpu.max": "150000 100000"})
    assert control_groups.cores([tmp_path]) == 1.5
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert control_groups.cores([]) == 1
