import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attacks.victims.batches import Batches

words = st.lists(st.text("ab", min_size=1, max_size=40), max_size=30)


class Tight:
    """Answers with the words in capitals, if memory for so many characters is there."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.asked: list[list[str]] = []

    def words(self, some: list[str]) -> list[str]:
        if len(some) * max(map(len, some)) > self.room:
            msg = "CUDA out of memory"
            raise torch.cuda.OutOfMemoryError(msg)
        self.asked.append(some)
        return [word.upper() for word in some]

    def lengths(self, some: list[str]) -> Tensor:
        return torch.tensor([len(word) for word in self.words(some)])


@given(words, st.integers(1, 40), st.integers(40, 400))
def test_each_item_is_answered_once_and_in_its_place(
    items: list[str], batch_size: int, room: int
) -> None:
    tight = Tight(room)
    batches = Batches(batch_size)
    assert batches.each(tight.words, items, len) == [item.upper() for item in items]
    assert sorted(word for some in tight.asked for word in some) == sorted(items)
    assert all(len(some) <= batch_size for some in tight.asked)
    if items:
        assert batches.run(tight.lengths, items, len).tolist() == [len(item) for item in items]


def test_memory_that_is_too_small_for_one_item() -> None:
    batches = Batches(8)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        batches.each(Tight(3).words, ["a", "abba"], len)
    assert batches.batch_size == 1
