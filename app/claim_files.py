"""Files of exported claims that all their checkers read alike: scores, digests and the seal."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from layers.ngram_scores import GRID, NgramScores
from layers.window_net import WEIGHT_GRID

STATEMENT = "statement.json"


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def seal(statement: Mapping[str, Any]) -> bytes:
    """Return the file of a statement with its own digest: it detects damage, but signs nothing."""
    sealed = {**statement, "seal": digest(json.dumps(statement).encode())}
    return json.dumps(sealed, indent=1).encode()


def scores_file(scores: NgramScores) -> bytes:
    """Return n-grams, scores and the weights of a net over windows, in multiples of the grids.

    Ids of words begin after the special tokens, which score nothing, alone or in an n-gram.
    """
    # safetensors stores contiguous tensors only.
    return save({name: tensor.contiguous() for name, tensor in _tensors(scores)})


def _tensors(scores: NgramScores) -> Iterator[tuple[str, Tensor]]:
    specials = scores.specials
    yield "ngrams_1", torch.arange(scores.size - specials).unsqueeze(1)
    # Scores are exact multiples of the grid, so the integers are exact.
    yield "scores_1", (scores.word_table()[specials:] / GRID).round().long()
    if scores.net is not None:
        yield "net_tables", (scores.net_tables()[:, specials:] / WEIGHT_GRID).round().long()
        yield "net_output", (scores.net.output() / WEIGHT_GRID).round().long()
    for order in scores.orders:
        # A key is the n-gram as a number of `order` digits in base `size`, the first word leading.
        keys, digits = scores.keys(order), []
        for _ in range(order):
            digits.append(keys % scores.size)
            keys = keys // scores.size
        ids = torch.stack(digits[::-1], dim=1) - specials  # [n, order]
        regular = (ids >= 0).all(dim=1)
        yield f"ngrams_{order}", ids[regular]
        yield f"scores_{order}", (scores.ngram_table(order)[:-1][regular] / GRID).round().long()
