import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d

from run_files import distributed
from run_files.distributed import LostRankError, Meeting, first_process, gather


@pytest.mark.parametrize("variable", ["RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"])
def test_who_speaks_for_the_run(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for name in distributed._RANKS:
        monkeypatch.delenv(name, raising=False)
    assert first_process()
    monkeypatch.setenv(variable, "0")
    assert first_process()
    monkeypatch.setenv(variable, "1")
    assert not first_process()


def trainer(rank: int, world: int, timeout: timedelta | None = None) -> Any:
    strategy = SimpleNamespace(_timeout=timeout)
    return SimpleNamespace(global_rank=rank, world_size=world, strategy=strategy)


def test_one_process_waits_for_nobody() -> None:
    meeting = Meeting(trainer(0, 1))
    meeting.progress()
    meeting.wait()
    assert gather(trainer(0, 1), [1, 2]) == [1, 2]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> HashStore:
    shared = HashStore()
    monkeypatch.setattr(distributed_c10d, "_get_default_store", lambda: shared)
    # Threads play the processes, which would each count for themselves.
    monkeypatch.setattr(distributed, "_meetings", SimpleNamespace(__next__=None))
    monkeypatch.setattr(distributed, "next", lambda _: 0, raising=False)
    return shared


@pytest.mark.long
@pytest.mark.usefixtures("store")
def test_all_wait_for_the_slowest_as_long_as_it_works() -> None:
    meetings = [Meeting(trainer(rank, 3), patience=1.0) for rank in range(3)]
    at_work = threading.Event()

    def slow() -> None:
        for _ in range(30):  # three times as long as anybody is patient
            meetings[2]._reported = 0.0
            meetings[2].progress()
            at_work.wait(0.1)
        meetings[2].wait()

    with ThreadPoolExecutor(3) as pool:
        ends = [pool.submit(meetings[0].wait), pool.submit(meetings[1].wait), pool.submit(slow)]
        assert [end.result() for end in ends] == [None] * 3


@pytest.mark.usefixtures("store")
def test_who_does_nothing_is_named() -> None:
    meetings = [Meeting(trainer(rank, 3, timedelta(seconds=0.2))) for rank in range(3)]
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(meetings[0].wait), pool.submit(meetings[2].wait)]
        for end in ends:
            with pytest.raises(LostRankError, match=r"no progress of rank 1 for 0\.2 seconds"):
                end.result()
