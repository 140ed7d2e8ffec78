import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.study.cells import StudyContext
from app.study.runner import Stop, Work
from app.study.schedule import RayExecutor, share_of
from app.study.study import StudyError


def nodes(*cpus: float, gpus: float = 0) -> list[dict[str, Any]]:
    return [{"Alive": True, "Resources": {"CPU": cpu, "GPU": gpus}} for cpu in cpus]


@pytest.mark.parametrize(
    ("cpus", "jobs", "threads"),
    [
        ((8,), 1, 8),
        ((8,), 3, 2),
        ((8, 4), 3, 4),
        ((8, 4), 2, 4),
        ((8, 4), 1, 8),
        ((2, 2), 9, 1),
        ((), 2, 1),
        ((0.5,), 1, 1),
    ],
)
def test_cells_have_as_many_cpus_as_let_all_jobs_run(
    cpus: tuple[float, ...], jobs: int, threads: int
) -> None:
    assert share_of(nodes(*cpus), jobs) == (threads, 0)


def test_a_cell_has_one_gpu_where_there_are_any() -> None:
    assert share_of([*nodes(4), *nodes(4, gpus=2)], 2) == (4, 1)


def test_dead_nodes_do_not_count() -> None:
    dead = [{**one, "Alive": False} for one in nodes(16, gpus=1)]
    assert share_of([*nodes(4), *dead], 1) == (4, 0)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "somewhere", "a:b"])
def test_where_nobody_answers_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    work = Work(context=StudyContext(study="a", runs_dir=Path("runs")), settings={})
    with pytest.raises(StudyError, match=f"got no Ray cluster at {address} .*ray start --head"):
        RayExecutor(work, 1, stop=Stop(), address=address)


def test_without_ray_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    work = Work(context=StudyContext(study="a", runs_dir=Path("runs")), settings={})
    with pytest.raises(StudyError, match=r"pip install 'steadfast-nlp\[ray\]'"):
        RayExecutor(work, 1, stop=Stop())
