"""Certifies replaced words by interval bound propagation."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from certify.threats import Kind, Synonyms, TextCertificate, Threat
from certify.threats.text_certificate import largest
from certify.ties import allowance
from layers.interval_cnn import IntervalCNN
from text import WordTokenizer


class HullModel(NamedTuple):
    """A classifier in float64, on the CPU, on word vectors `[V, v]`."""

    network: IntervalCNN
    vectors: Tensor
    tokenizer: WordTokenizer


class HullCertifier:
    """Certifies texts against replaced words; one change by each position on its own.

    For two or more changes it takes the hulls of all words: a certificate for two
    holds for any number. Words after the model's `max_length` are not read, and replacements
    move no word.

    Args:
        model: the classifier.
        threat: the sets of texts.

    Raises:
        ValueError: another threat, or other words than those of the model.
    """

    kind: Kind = "lower bound"

    def __init__(self, model: HullModel, threat: Threat) -> None:
        self.model = model
        self.threat = Synonyms.of_model(threat, model.tokenizer.splitter.settings)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        return [self._certified(text, ks) for text in texts]

    def _certified(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        network, vectors, tokenizer = self.model
        candidates = [tokenizer.ids(words) for words in self.threat.candidates(text)]
        read = candidates[: tokenizer.max_length] or [[tokenizer.unk_id]]
        size = max(len(row) for row in read)
        # Shorter lists are filled up with the word itself: the hull does not change.
        ids = torch.tensor([[*row, *row[:1] * (size - len(row))] for row in read])
        mask = torch.ones(1, len(ids), dtype=torch.bool)
        logits = network(vectors[ids[:, 0]].unsqueeze(0), mask)
        label = logits.argmax(dim=1)
        own = network.hull(vectors[ids[None, :, :1]])
        hull = network.hull(vectors[ids].unsqueeze(0))
        # [N, N, w]: the hull at one position, for each of N positions.
        at = torch.eye(len(ids), dtype=torch.bool).unsqueeze(-1)
        each = [torch.where(at, wide, bound) for bound, wide in zip(own, hull, strict=True)]
        # 0: the text; 1: the hull at one position; 2: hulls at all positions, for any number.
        needed = {0 if k == 0 else 1 if k == 1 else 2 for k in ks}
        held = {}
        for number in needed:
            lower, upper = (own, each, hull)[number]
            rows = len(lower)
            leads = network.least_leads(lower, upper, mask.expand(rows, -1), label.expand(rows))
            rivals = torch.arange(leads.shape[1]) != label
            held[number] = bool((leads[:, rivals] > allowance(logits)).all())
        verdicts = [held[0 if k == 0 else 1 if k == 1 else 2] for k in ks]
        return TextCertificate(
            text=text,
            prediction=int(label),
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            kind=self.kind,
            cut=len(candidates) > tokenizer.max_length,
            unknown=sum(row[0] == tokenizer.unk_id for row in candidates),
        )
