"""Certifies replaced words by interval bound propagation."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from certify.threats import Kind, ReadWords, Replacements, TextCertificate, Threat
from certify.threats.text_certificate import largest
from certify.ties import allowance
from layers.interval_cnn import IntervalCNN
from text import WordTokenizer


class HullModel(NamedTuple):
    """A classifier in float64, on the CPU, on word vectors `[V, v]`."""

    network: IntervalCNN
    vectors: Tensor
    tokenizer: WordTokenizer


AT_ONCE = 1 << 19
"""Numbers of an interval bound of one layer that are computed together."""


class HullCertifier:
    """Certifies texts against replaced words; one change by each position on its own.

    For two or more changes it takes the hulls of all words: a certificate for two
    holds for any number. Words after the model's `max_length` are not read, and replacements
    move no word.

    Raises:
        ValueError: another threat, other words than those of the model, or sets that move words.
    """

    kind: Kind = "lower bound"

    def __init__(self, model: HullModel, threat: Threat) -> None:
        self.model = model
        words = model.tokenizer.splitter.settings
        self.threat = Replacements.of_model(threat, words, ordered="TextCNN")
        self._read = ReadWords(self.threat, model.tokenizer)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        choices = self._read(texts)
        # A text without words is one unknown word, which is padding to no word: the last row.
        unknown = len(choices.words)
        ids = torch.cat([choices.ids[:, 0], torch.tensor([self.model.tokenizer.unk_id])])
        starts = torch.cat([choices.starts, choices.starts[-1:] + 1])
        hull = self.model.network.hull(self.model.vectors, ids, starts)
        lengths = (choices.rows >= 0).sum(dim=1)
        order = sorted(range(len(texts)), key=lambda i: int(lengths[i]))
        certificates: dict[int, TextCertificate] = {}
        size = self.model.network.hidden.in_features * max(1, choices.rows.shape[1])
        for some in torch.split(torch.tensor(order), max(1, AT_ONCE // size)):
            rows = choices.rows[some, : max(1, int(lengths[some].amax()))]
            if not rows.shape[1]:
                rows = torch.full((len(some), 1), -1)
            rows[:, 0] = rows[:, 0].where(rows[:, 0] >= 0, unknown)
            # Padding is -1: it reads row 0, which the mask drops.
            mask, rows = rows >= 0, rows.clamp_min(0)
            bounds = [part[rows] for part in hull]
            batch = [texts[i] for i in some.tolist()]
            certificates |= zip(
                some.tolist(), self._certified(batch, bounds, mask, ks), strict=True
            )
        return [certificates[i] for i in range(len(texts))]

    def _certified(
        self, texts: Sequence[str], bounds: Sequence[Tensor], mask: Tensor, ks: Sequence[int | None]
    ) -> Iterator[TextCertificate]:
        """Yield certificates, from projections `[B, N, w]` of words and of their hulls."""
        network, tokenizer = self.model.network, self.model.tokenizer
        own, lower, upper = bounds
        logits = network.from_projections(own, mask)
        labels = logits.argmax(dim=1)
        allowed = allowance(logits)
        leads = {0: (logits.gather(1, labels.unsqueeze(1)) - logits).unsqueeze(1)}
        # 1: the hull at one position; 2: hulls at all positions, for any number.
        needed = [0 if k == 0 else 1 if k == 1 else 2 for k in ks]
        if 1 in needed:
            # At padding nothing moves: its leads are those of the text.
            leads[1] = network.least_leads_of_one(own, lower, upper, mask, labels)
        if 2 in needed:
            leads[2] = network.least_leads(lower, upper, mask, labels).unsqueeze(1)
        label = functional.one_hot(labels, logits.shape[1]).bool().unsqueeze(1)
        held = {
            # Not `<=`: a NaN holds nothing.
            number: (lead.masked_fill(label, torch.inf) > allowed.view(-1, 1, 1))
            .flatten(1)
            .all(dim=1)
            .tolist()
            for number, lead in leads.items()
        }
        for row, text in enumerate(texts):
            words = self.threat.split(text)
            verdicts = [held[number][row] for number in needed]
            yield TextCertificate(
                text=text,
                prediction=int(labels[row]),
                holds=tuple(verdicts),
                certified=largest(verdicts, ks),
                kind=self.kind,
                cut=len(words) > tokenizer.max_length,
                unknown=tokenizer.ids(words).count(tokenizer.unk_id),
            )
