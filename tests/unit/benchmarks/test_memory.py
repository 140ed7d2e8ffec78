"""The benchmark of memory: what it compares, on a model that costs nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import memory
from benchmarks.adversarial_steps import DEFENCES, METHODS, NAIVE, random_model


@pytest.mark.parametrize("name", [NAIVE, "gradient checkpointing", "bf16", "FreeLB-2"])
def test_a_step_of_each(name: str) -> None:
    memory.prepare([NAIVE, name], "tiny", 8, 2)[name](8)


def test_methods_share_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(*args: Any, **options: Any) -> Any:
        made.append(random_model(*args, **options))
        return made[-1]

    monkeypatch.setattr(memory, "random_model", counted)
    ways = memory.prepare([NAIVE, "bf16", "FreeLB-2", "R-Drop"], "tiny", 8, 2)
    assert len(made) == 2
    assert list(ways) == [NAIVE, "bf16", "FreeLB-2", "R-Drop"]
    shared = dict(made[0][0].named_parameters())["network.projection.weight"]
    before = shared.detach().clone()
    ways["R-Drop"](8)
    assert not torch.equal(shared, before)


def test_ratios(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The memory comes from a process of its own; here from a table."""

    def peaks(_work: Any, name: str, *_rest: object) -> float:
        return {NAIVE: 100.0, "bf16": 75.0}[name]

    monkeypatch.setattr(memory, "in_fresh_process", peaks)
    out = tmp_path / "memory.json"
    words = ["--models", "tiny", "--lengths", "8", "--repeats", "1", "--batch", "2"]
    memory.main([*words, "--methods", "bf16", "--out", str(out)])
    costs = json.loads(out.read_text())["costs"]["tiny, 8"]
    plain, half = costs[NAIVE], costs["bf16"]
    assert half["speed"] == pytest.approx(plain["seconds"] / half["seconds"])
    assert f"| bf16 | {half['speed']:.2f}, 0.75 |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", [NAIVE, *METHODS, *DEFENCES, "gradient checkpointing", "bf16"])
def test_memory_of_a_process(name: str) -> None:
    assert 0 < memory.peak(name, "tiny", 16, 2, 1) < 2000
