"""Certifier of classifiers that read a text window by window."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from certify.threats import Additions, Kind, TextCertificate, Threat

MARGIN = 1e-9
"""Least margin of a certificate, in logits of the size 1: rounding of float64 is far below it."""


class WindowCertifier:
    """Certifies that no further line hides a detection; docs/certificates/append.md has the proof.

    `answer` returns logits `[n, 2]` of n texts, in float64; `positive` is the detected class.

    Raises:
        ValueError: another threat than added lines.
    """

    kind: Kind = "exact"

    def __init__(
        self, answer: Callable[[list[str]], Tensor], positive: int, threat: Threat
    ) -> None:
        if not isinstance(threat, Additions) or threat.kind != "append-lines" or threat.changes:
            msg = (
                f"got {threat.title} for WindowMax, expected append-lines: text in the same line "
                "changes a window"
            )
            raise ValueError(msg)
        self._answer, self._positive, self._threat = answer, positive, threat

    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        certificates = []
        for text, logits in zip(texts, self._answer(list(texts)), strict=True):
            lead = float(logits[self._positive] - logits[1 - self._positive])
            # The one window of a blank text is an unknown word, which any line takes away.
            holds = bool(text.strip()) and lead > MARGIN * max(1.0, float(logits.abs().max()))
            certificates.append(
                TextCertificate(
                    text=text,
                    prediction=int(torch.argmax(logits)),
                    holds=(holds,) * len(ks),
                    certified=None if holds else 0,
                    kind=self.kind if holds else "lower bound",
                )
            )
        return certificates
