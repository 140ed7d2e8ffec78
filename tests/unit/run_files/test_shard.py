import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_files.shard import Shard


@given(total=st.integers(0, 60), count=st.integers(1, 9))
def test_shards_are_a_division(total: int, count: int) -> None:
    items = list(range(total))
    shards = [Shard.of(f"{index}/{count}") for index in range(1, count + 1)]
    parts = [shard.take(items) for shard in shards]
    assert sorted(item for part in parts for item in part) == items
    sizes = [len(part) for part in parts]
    assert sizes == [shard.size(total) for shard in shards]
    assert max(sizes) - min(sizes) <= 1


def test_names() -> None:
    assert str(Shard.of("2/7")) == "2/7"
    assert Shard(2, 7).suffix() == "shard-2-of-7"


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/2", "1/2/3", "", "1 /2", "1/2\n"]
)
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(ValueError, match="expected I/N with I from 1 to N"):
        Shard.of(text)


def test_more_items_leave_the_others_where_they_are() -> None:
    for index in (1, 2, 3):
        shard = Shard(index, 3)
        assert shard.take(range(20))[: shard.size(11)] == shard.take(range(11))
