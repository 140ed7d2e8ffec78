"""The share of a machine that each run of a study has."""

import os

import pytest

from app.study import schedule
from app.study.schedule import shares


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "cores", lambda: 8)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)


@pytest.mark.parametrize(
    ("jobs", "given", "threads"),
    [(1, None, 8), (2, None, 4), (3, None, 2), (9, None, 1), (2, "1", 1), (4, "6", 2), (2, "", 4)],
)
def test_threads(
    monkeypatch: pytest.MonkeyPatch, jobs: int, given: str | None, threads: int
) -> None:
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert [share.threads for share in shares(jobs)] == [threads] * jobs


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setitem(os.environ, "CUDA_VISIBLE_DEVICES", "4,5")
    assert [share.devices for share in shares(3)] == ["4", "5", "4"]
