"""SplitMix64, the hash for all orders and random draws that a resumed run must repeat.

Source: Steele, Lea & Flood 2014. It is integer arithmetic only, the same on every machine and
device; the generators of libraries may change their streams between versions.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

GOLDEN = -0x61C8864680B583EB
"""The step of the generator, 0x9E3779B97F4A7C15 as int64 has it."""
_FIRST = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_SECOND = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
_OFFSET = 0x632BE59BD9B4E019


def mixed(x: Tensor) -> Tensor:
    """Return int64 numbers after the finaliser, a bijection."""
    return mix_(x.clone())


def mix_(x: Tensor) -> Tensor:
    """Apply the finaliser to int64 numbers in place; products wrap around."""
    room = torch.empty_like(x)
    x.bitwise_xor_(_shifted(x, 30, room)).mul_(_FIRST)
    x.bitwise_xor_(_shifted(x, 27, room)).mul_(_SECOND)
    return x.bitwise_xor_(_shifted(x, 31, room))


def hashed(numbers: NDArray[np.uint64], *keys: int) -> NDArray[np.uint64]:
    """Hash numbers with each key in turn: a bijection of the numbers for any keys."""
    for key in keys:
        numbers = numbers + np.uint64((key * GOLDEN + _OFFSET) % 2**64)
        mix_(torch.from_numpy(numbers.view(np.int64)))  # shares the memory of `numbers`
    return numbers


def wrapped(number: int) -> int:
    """Return a number as int64 has it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _shifted(x: Tensor, bits: int, room: Tensor) -> Tensor:
    """Shift to the right, with zeros coming in: torch's own shift brings in the sign."""
    torch.bitwise_right_shift(x, bits, out=room)
    return room.bitwise_and_((1 << (64 - bits)) - 1)
