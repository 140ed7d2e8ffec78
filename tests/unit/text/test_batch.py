import pickle
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from text import IGNORED, Choices, Encoding, collate, length_batches

ids = st.lists(st.integers(0, 50), min_size=1, max_size=12)


@pytest.mark.long
@given(rows=st.lists(ids, min_size=1, max_size=8), pad_id=st.integers(0, 60))
def test_padding_keeps_every_token_and_adds_only_padding(
    rows: list[list[int]], pad_id: int
) -> None:
    batch = collate([Encoding(row, [1] * len(row)) for row in rows], pad_id=pad_id, pairs=True)
    assert batch.segment_ids is not None
    assert batch.input_ids.shape == (len(rows), max(map(len, rows)))
    assert batch.lengths.tolist() == [len(row) for row in rows]
    for i, row in enumerate(rows):
        assert batch.input_ids[i].tolist() == row + [pad_id] * (batch.input_ids.shape[1] - len(row))
        assert batch.mask[i].tolist() == [k < len(row) for k in range(batch.mask.shape[1])]
        assert batch.segment_ids[i].sum() == len(row)


def test_dtypes_defaults_and_fields() -> None:
    batch = collate([Encoding([3, 4], [0, 0]), Encoding([5], [0])], pad_id=0, labels=[1, 0])
    assert len(batch) == 2
    assert batch.labels is not None
    assert batch.input_ids.dtype == batch.sample_ids.dtype == batch.labels.dtype == torch.int64
    assert batch.mask.dtype == torch.bool
    assert batch.sample_ids.tolist() == [0, 1]
    assert batch.segment_ids is None
    moved = batch.to("cpu")
    assert torch.equal(moved.input_ids, batch.input_ids)
    assert moved.segment_ids is None
    again = pickle.loads(pickle.dumps(batch))
    assert torch.equal(again.labels, batch.labels)


def test_sample_ids_are_carried() -> None:
    assert collate([Encoding([1], [0])], pad_id=0, sample_ids=[7]).sample_ids.tolist() == [7]


@pytest.mark.parametrize(
    ("encodings", "what"),
    [([], "no texts"), ([Encoding([1], [0]), Encoding([], [])], "no tokens in text 1")],
)
def test_nothing_to_pad_is_an_error(encodings: list[Encoding], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        collate(encodings, pad_id=0)


@given(st.lists(st.integers(1, 200), max_size=300), st.integers(1, 70))
def test_texts_of_like_length_go_together(lengths: list[int], batch_size: int) -> None:
    batches = length_batches(lengths, batch_size)
    order = [i for batch in batches for i in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths)
    assert all(0 < len(batch) <= batch_size for batch in batches)


def cost_of(parts: list[list[int]], overhead: int) -> int:
    return sum(len(part) * max(part) + overhead for part in parts)


def least_cost(lengths: list[int], batch_size: int, overhead: int) -> float:
    """Of all ways to cut the sorted lengths into batches."""
    ordered = sorted(lengths)
    costs = []
    for cuts in product([False, True], repeat=len(ordered) - 1):
        parts = [[ordered[0]]]
        for cut, length in zip(cuts, ordered[1:], strict=True):
            if cut:
                parts.append([])
            parts[-1].append(length)
        if all(len(part) <= batch_size for part in parts):
            costs.append(cost_of(parts, overhead))
    return min(costs)


@pytest.mark.long
@given(
    st.lists(st.sampled_from([3, 4, 9, 20, 33, 90]) | st.integers(1, 300), min_size=1, max_size=9),
    st.integers(1, 10),
    st.sampled_from(["cpu", "cuda"]),
)
def test_no_other_batches_cost_less(lengths: list[int], batch_size: int, device: str) -> None:
    overhead = {"cpu": 64, "cuda": 1024}[device]
    batches = length_batches(lengths, batch_size, device=device)
    cost = cost_of([[lengths[i] for i in batch] for batch in batches], overhead)
    assert cost == least_cost(lengths, batch_size, overhead)


def test_labels_of_the_four_tasks() -> None:
    rows = [Encoding([3, 4, 5], [0, 0, 0]), Encoding([6], [0])]
    regression = collate(rows, pad_id=0, labels=[2, 0.5]).labels
    assert regression is not None
    assert regression.dtype == torch.float32
    assert regression.tolist() == [2.0, 0.5]
    tagging = collate(rows, pad_id=0, labels=[(IGNORED, 1, 2), (0,)]).labels
    assert tagging is not None
    assert tagging.dtype == torch.int64
    assert tagging.tolist() == [[IGNORED, 1, 2], [0, IGNORED, IGNORED]]
    cut = collate(rows, pad_id=0, labels=[(0, 1, 2), (0,)], cut_tags=[(), (2, 1)]).to("cpu")
    assert cut.cut_tags is not None
    assert cut.cut_tags.tolist() == [[IGNORED, IGNORED], [2, 1]]
    assert collate(rows, pad_id=0, labels=[(0, 1, 2), (0,)], cut_tags=[(), ()]).cut_tags is None
    choice = collate(rows, pad_id=0, labels=[1], choices=2)
    assert choice.labels is not None
    assert choice.labels.tolist() == [1]


def test_the_rows_of_a_choice_are_one_sample() -> None:
    rows = [Encoding([3, 4], [0, 1]), Encoding([5], [0])] * 2
    batch = collate(rows, pad_id=0, choices=2, pairs=True)
    assert len(batch) == 2
    assert batch.input_ids.shape == (4, 2)
    assert batch.lengths.tolist() == [2, 1, 2, 1]
    assert batch.sample_ids.tolist() == [0, 1]
    assert batch.to("cpu").choices == 2
    assert Choices("c", ("a", "b")).pairs == [("c", "a"), ("c", "b")]


def test_rows_that_make_no_samples_and_tags_of_no_tokens() -> None:
    rows = [Encoding([3, 4], [0, 1])] * 3
    with pytest.raises(ValueError, match=r"3 texts for choices=2"):
        collate(rows, pad_id=0, choices=2)
    with pytest.raises(ValueError, match=r"got tags of \[2, 1, 2\] tokens, expected \[2, 2, 2\]"):
        collate(rows, pad_id=0, labels=[(0, 0), (0,), (0, 0)])
