import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_files import sample_records as records
from run_files.sample_records import Record, Records, read_part

ABOUT = {"checkpoint": "f00d", "bound": "sound"}


class Group:
    """Processes as threads, which exchange what they would send each other."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._barrier = threading.Barrier(world, timeout=60)
        self._parts: list[Any] = [None] * world

    def exchange(self, rank: int, part: Any) -> list[Any]:
        self._parts[rank] = part
        self._barrier.wait()
        parts = list(self._parts)
        self._barrier.wait()
        return parts

    def run(self, work: Callable[[Any], Any]) -> list[Any]:
        """What `work` returns for the trainer of each process."""
        trainers = [
            SimpleNamespace(
                global_rank=rank, world_size=self.world, is_global_zero=rank == 0, group=self
            )
            for rank in range(self.world)
        ]
        with ThreadPoolExecutor(self.world) as pool:
            return list(pool.map(work, trainers))


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(trainer: Any, part: Any) -> list[Any]:
        exchanged: list[Any] = trainer.group.exchange(trainer.global_rank, part)
        return exchanged

    monkeypatch.setattr(records, "gather_parts", parts)
    monkeypatch.setattr(records, "gather", lambda t, r: [x for part in parts(t, r) for x in part])
    meeting = SimpleNamespace(progress=lambda: None, wait=lambda: None)
    monkeypatch.setattr(records, "Meeting", lambda trainer: meeting)


def record(sample: int) -> Record:
    return {"sample_id": sample, "text": f"text {sample}\n"}


def lines(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def sitting(
    path: Path,
    world: int,
    samples: list[int],
    *,
    about: dict[str, Any] | None = ABOUT,
    until: int | None = None,
) -> list[set[int]]:
    """One sitting over samples; killed after so many of each process, if `until` is given.

    Returns:
        What each process found to be done.
    """

    def work(trainer: Any) -> set[int]:
        mine = Records(path)
        done = mine.begin(trainer, subject=about)
        for sample in [s for s in samples[trainer.global_rank :: world] if s not in done][:until]:
            mine.add([record(sample)])
        if until is None:
            assert mine.merge() == [record(sample) for sample in sorted(samples)]
            mine.discard()
        elif mine._part is not None:
            mine._part.close()  # as the kernel does; nothing else happens
            mine.close()
        return set(done)

    found: list[set[int]] = Group(world).run(work)
    return found


@pytest.mark.parametrize("world", [1, 2, 3])
def test_merged_once_and_sorted(tmp_path: Path, world: int) -> None:
    path = tmp_path / "new" / "out.jsonl"
    samples = [5, 3, 8, 1, 0]
    assert sitting(path, world, samples) == [set()] * world
    assert lines(path) == [record(sample) for sample in sorted(samples)]
    assert [p.name for p in path.parent.iterdir()] == ["out.jsonl"]


@pytest.mark.long
@given(
    worlds=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    torn=st.booleans(),
)
def test_goes_on_after_kills_with_any_number_of_processes(
    tmp_path_factory: pytest.TempPathFactory, worlds: list[int], cuts: list[int], torn: bool
) -> None:
    path = tmp_path_factory.mktemp("records") / "out.jsonl"
    samples, expected = list(range(20)), set[int]()
    for world, cut in zip(worlds, cuts, strict=False):
        found = sitting(path, world, samples, until=cut)
        assert found == [expected] * world
        parts = sorted(path.with_suffix(".parts").glob("rank-*.jsonl"))
        expected = {r["sample_id"] for part in parts for r in read_part(part)[1]}
        if torn:
            with parts[0].open("ab") as stream:
                stream.write(b'{"sample_id": 19, "te')
    assert sitting(path, 2, samples) == [expected, expected]
    assert lines(path) == [record(sample) for sample in samples]
    assert not path.with_suffix(".parts").exists()


@pytest.mark.parametrize("outcome", [False, True])
def test_another_process_deletes_the_folder_while_this_one_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: bool
) -> None:
    path = tmp_path / "out.jsonl"
    folder, looked = path.with_suffix(".parts"), os.scandir

    def scandir(place: Any = ".") -> Any:
        if place == folder and path.is_file() == outcome:
            for entry in list(looked(place)):
                Path(entry).unlink()
            folder.rmdir()
        return looked(place)

    monkeypatch.setattr(os, "scandir", scandir)
    assert sitting(path, 1, [2, 0, 1]) == [set()]
    assert lines(path) == [record(sample) for sample in range(3)]
    assert not folder.exists()


@pytest.mark.parametrize("about", [{**ABOUT, "bound": "paper"}, None])
def test_records_of_something_else_are_dropped(
    tmp_path: Path, about: dict[str, Any] | None
) -> None:
    path = tmp_path / "out.jsonl"
    sitting(path, 3, list(range(9)), until=2)
    assert sitting(path, 2, [0, 1, 2], about=about) == [set(), set()]
    assert lines(path) == [record(sample) for sample in range(3)]
    assert not path.with_suffix(".parts").exists()


def test_nothing_is_taken_up_without_saying_what_it_is_about(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sitting(path, 1, list(range(4)), until=2, about=None)
    assert sitting(path, 1, list(range(4)), about=None) == [set()]


def test_disks_that_are_not_shared(tmp_path: Path) -> None:
    """Each machine has its own files, and sees no others."""

    def path(rank: int) -> Path:
        return tmp_path / str(rank) / "out.jsonl"

    def work(trainer: Any, *, killed: bool) -> frozenset[int]:
        mine = Records(path(trainer.global_rank))
        done = mine.begin(trainer, subject=ABOUT)
        for sample in range(trainer.global_rank, 6, 2):
            if sample not in done and (sample < 2 or not killed):
                mine.add([record(sample)])
        if killed:
            mine.close()
        else:
            assert mine.merge() == [record(sample) for sample in range(6)]
            mine.discard()
        return done

    assert Group(2).run(lambda trainer: work(trainer, killed=True)) == [frozenset()] * 2
    done = frozenset({0, 1})
    assert Group(2).run(lambda trainer: work(trainer, killed=False)) == [done, done]
    assert lines(path(0)) == [record(sample) for sample in range(6)]
    assert not list(path(1).parent.iterdir())


def test_a_sample_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"

    def work(trainer: Any) -> None:
        mine = Records(path)
        mine.begin(trainer)
        mine.add([{"sample_id": 0, "rank": trainer.global_rank}])
        mine.add([{"sample_id": 0, "rank": 9}, {"sample_id": 1 + trainer.global_rank}])
        mine.merge()
        mine.discard()

    Group(2).run(work)
    assert lines(path) == [{"sample_id": 0, "rank": 0}, {"sample_id": 1}, {"sample_id": 2}]


def test_two_programs_do_not_write_the_same_records(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    first = Records(path)
    Group(1).run(lambda trainer: first.begin(trainer))
    with pytest.raises(ValueError, match="while another program writes it"):
        sitting(path, 2, [1, 2])
    first.add([record(1)])
    first.merge()
    first.discard()
    assert sitting(path, 2, [1, 2]) == [set(), set()]


def test_in_memory() -> None:
    mine = Records(None)

    def work(trainer: Any) -> list[Record]:
        mine.begin(trainer, subject=ABOUT)
        mine.add([record(4), record(2)])
        return mine.merge()

    assert Group(1).run(work) == [[record(2), record(4)]]


def test_written_while_the_work_goes_on(tmp_path: Path) -> None:
    mine = Records(tmp_path / "out.jsonl")
    Group(1).run(lambda trainer: mine.begin(trainer, subject=ABOUT))
    mine.add([record(4)])
    part = tmp_path / "out.parts" / "rank-0.jsonl"
    assert read_part(part)[:2] == (ABOUT, [record(4)])
    mine.close()


@pytest.mark.parametrize("rest", [b"\x00\x00\n", b'{"sample_id": 2}', b'{"text": "x"}\n', b"[]\n"])
def test_reading_ends_where_the_file_is_broken(tmp_path: Path, rest: bytes) -> None:
    part = tmp_path / "rank-0.jsonl"
    whole = b'{"about": 1}\n{"sample_id": 7}\n'
    part.write_bytes(whole + rest)
    assert read_part(part) == (1, [{"sample_id": 7}], len(whole))


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    mine = Records(tmp_path / "out.jsonl")
    Group(1).run(lambda trainer: mine.begin(trainer))
    assert mine._part is not None
    mine._part.close()
    mine._part = Path("/dev/full").open("wb")  # noqa: SIM115 (closed by what is tested)
    with pytest.raises(OSError, match=r"could not write .*out.parts: No space left on device; m"):
        mine.add([record(1)])
    mine.close()


def test_merge_needs_a_beginning(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="expected begin"):
        Records(tmp_path / "out.jsonl").merge()
