"""Certifies edits of characters by the margin over a constant of each edit."""

import copy
from collections.abc import Sequence

import torch

from certify.threats import Characters, Kind, TextCertificate, Threat
from certify.threats.text_certificate import largest
from certify.ties import allowance
from layers.levenshtein_cnn import LevenshteinCNN, edit_constant, joined
from layers.norms import operator_norm_bound
from text import CharacterTokenizer


class LevenshteinCertifier:
    """Certifies texts, by one forward pass in float64.

    Nothing is certified for a text that is cut, or that an insertion could make too long.

    Args:
        network: the classifier.
        tokenizer: of its characters.
        threat: the sets of texts.

    Raises:
        ValueError: another threat than characters.
    """

    kind: Kind = "lower bound"

    def __init__(
        self, network: LevenshteinCNN, tokenizer: CharacterTokenizer, threat: Threat
    ) -> None:
        if not isinstance(threat, Characters):
            msg = f"got the threat {threat.name} for a model of characters, expected characters"
            raise ValueError(msg)
        self.tokenizer, self.threat = tokenizer, threat
        made = copy.deepcopy(network).to(device="cpu", dtype=torch.float64)
        self.network = made.eval().requires_grad_(requires_grad=False)
        self.constant = constant_of(self.network)
        rows = self.network.rows()
        self.gaps = (rows.unsqueeze(1) - rows).norm(self.network.dual, dim=-1)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], ks: Sequence[int | None]) -> list[TextCertificate]:
        """See `TextCertifier`."""
        return [self._certified(text, ks) for text in texts]

    def _certified(self, text: str, ks: Sequence[int | None]) -> TextCertificate:
        (encoding,) = self.tokenizer.encode([text])
        ids = torch.tensor([encoding.input_ids])
        mask = torch.ones_like(ids, dtype=torch.bool)
        (logits,) = self.network(self.network.embed(ids), mask)
        label = int(logits.argmax())
        others = torch.arange(len(logits)) != label
        lead = (logits[label] - logits - allowance(logits))[others]
        moves = self.constant * self.gaps[label][others]
        room = -1 if encoding.truncated else self.tokenizer.max_length - ids.shape[1]
        holds = [k is not None and k <= room and bool((lead > k * moves).all()) for k in ks]
        return TextCertificate(
            text=text,
            prediction=label,
            holds=tuple(holds),
            certified=largest(holds, ks),
            kind=self.kind,
            cut=encoding.truncated,
            unknown=sum(index == self.tokenizer.unk_id for index in encoding.input_ids),
        )


def constant_of(network: LevenshteinCNN) -> float:
    """The constant of an edit, from measured norms.

    Args:
        network: in float64.
    """
    exact = 1 + 1e-9  # covers the rounding of what is computed here
    shares = []
    for kernel in network.kernels:
        # What the forward pass divides by is no bound; measured again, it is.
        used = torch.linalg.matrix_norm(kernel, ord=network.order).sum()
        shares.append(
            torch.stack([operator_norm_bound(tap, network.norm) for tap in kernel]) / used
        )
    size = float(network.symbols.norm(network.order, dim=-1).amax() / network.spread())
    return exact * edit_constant(joined(shares), spread=1.0, size=size)
