"""Measures the distance of attacked texts from the clean ones, in the space of certificates."""

from collections.abc import Sequence
from pathlib import Path

import torch

from attacks.outcome import AttackRecord
from lit_modules import load
from text import cuts_unsaid

_BATCH = 64
"""Pairs of texts that are embedded together."""


def embedded_distances(checkpoint: Path, records: Sequence[AttackRecord]) -> list[float | None]:
    """Return the l2 distances of the embedded adversarial texts from the clean ones.

    None where the two texts have different numbers of tokens: no certificate is about such a
    change.

    Raises:
        ValueError: the checkpoint cannot be read, or the model does not accept the texts.
    """
    model = load(checkpoint)
    distances: list[float | None] = []
    with torch.no_grad(), cuts_unsaid():
        for start in range(0, len(records), _BATCH):
            part = records[start : start + _BATCH]
            # Clean texts at even positions of the batch, adversarial ones at odd positions.
            texts = [text for r in part for text in (r.text, r.adversarial or r.text)]
            batch = model.encode_texts(texts)
            # `[2 B, N, d]`; padding does not count.
            tokens = model.embed(batch).double().masked_fill(~batch.mask.unsqueeze(-1), 0.0)
            lengths = batch.mask.sum(dim=1).tolist()
            gaps = (tokens[::2] - tokens[1::2]).flatten(1).norm(dim=1).tolist()
            pairs = zip(gaps, lengths[::2], lengths[1::2], strict=True)
            distances += [gap if clean == changed else None for gap, clean, changed in pairs]
    return distances
