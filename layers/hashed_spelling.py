"""Hashed n-grams of the characters of words, through which rare words share trained weights."""

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

ORDERS = (3, 4, 5)
"""Numbers of characters, the two ends of a word included."""


def hashed_ngrams(words: Sequence[str], buckets: int) -> Tensor:
    """`[V, M]` CRC-32 numbers from 1 to `buckets`: the n-grams of each word, padded with 0."""
    rows = []
    for word in words:
        spelt = f"<{word}>"
        hashes = {
            1 + zlib.crc32(spelt[at : at + order].encode()) % buckets
            for order in ORDERS
            for at in range(len(spelt) - order + 1)
        }
        rows.append(sorted(hashes))
    longest = max(map(len, rows), default=0)
    padded = [[*row, *[0] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.int64).view(len(rows), longest)
