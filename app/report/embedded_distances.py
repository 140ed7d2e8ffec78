"""Measures how far attacked texts lie from the clean ones, where certificates are about both."""

from collections.abc import Sequence
from pathlib import Path

import torch

from attacks.outcome import AttackRecord
from lit_modules import load
from text import cuts_unsaid

_BATCH = 64
"""Pairs of texts that are embedded together."""


def embedded_distances(checkpoint: Path, records: Sequence[AttackRecord]) -> list[float | None]:
    """Returns the l2 distances of the embedded adversarial texts from the clean ones.

    Args:
        checkpoint: the weights that were attacked.
        records: of attacks with an adversarial text.

    Returns:
        A distance for each record; None where the two texts have different numbers of tokens:
        then neither lies in the space of the other's certificate.

    Raises:
        ValueError: the checkpoint cannot be read, or texts that it does not take.
    """
    model = load(checkpoint)
    found: list[float | None] = []
    with torch.no_grad(), cuts_unsaid():
        for start in range(0, len(records), _BATCH):
            part = records[start : start + _BATCH]
            texts = [text for one in part for text in (one.text, one.adversarial or one.text)]
            batch = model.encode_texts(texts)
            tokens = model.embed(batch).double().masked_fill(~batch.mask.unsqueeze(-1), 0.0)
            lengths = batch.mask.sum(dim=1).tolist()
            distances = (tokens[::2] - tokens[1::2]).flatten(1).norm(dim=1).tolist()
            pairs = zip(distances, lengths[::2], lengths[1::2], strict=True)
            found += [gap if clean == changed else None for gap, clean, changed in pairs]
    return found
