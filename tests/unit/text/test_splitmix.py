"""The published SplitMix64, in tensors and in arrays."""

import numpy as np
import torch

from text import hashed
from text.splitmix import GOLDEN, mix_, mixed, wrapped

PUBLISHED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]
"""The first five numbers of the generator by its authors, with seed 1234567."""


def plain(x: int) -> int:
    """The finaliser, with the whole numbers of Python."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def test_published_numbers() -> None:
    states = 1234567 + torch.arange(1, 6) * GOLDEN
    before = states.clone()
    assert [int(number) % 2**64 for number in mixed(states)] == PUBLISHED
    assert torch.equal(states, before)
    assert mix_(states) is states
    assert [int(number) % 2**64 for number in states] == PUBLISHED
    assert [plain(1234567 + i * (GOLDEN % 2**64) & (2**64 - 1)) for i in range(1, 6)] == PUBLISHED


def test_hashes_are_those_of_plain_integers() -> None:
    numbers = np.array([0, 1, 2**63, 2**64 - 1, 12345], dtype=np.uint64)
    expected = numbers.tolist()
    for key in (7, 0, 2**40 + 3):
        step = key * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019
        expected = [plain((number + step) % 2**64) for number in expected]
    hashes = hashed(numbers, 7, 0, 2**40 + 3)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == expected
    assert numbers.tolist() == [0, 1, 2**63, 2**64 - 1, 12345]
    assert hashed(numbers[:0], 1).tolist() == []


def test_wrapped_is_int64() -> None:
    assert [wrapped(n) for n in (5, 2**63, 2**64 + 1, -1)] == [5, -(2**63), 1, -1]
