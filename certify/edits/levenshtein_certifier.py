"""Certifies edits of characters by the margin over a constant of each edit."""

import copy
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from certify.threats import Characters, Kind, TextCertificate, Threat
from certify.threats.text_certificate import largest
from certify.ties import allowance
from layers.levenshtein_cnn import LevenshteinCNN, edit_constant, joined
from layers.norms import operator_norm_bound
from text import CharacterTokenizer

EditBound = Literal["sound", "paper"]
EDIT_BOUNDS: tuple[EditBound, ...] = get_args(EditBound)
EXACT = 1 + 1e-9
"""Covers the rounding of constants."""


class LevenshteinCertifier:
    """Certifies texts, by one forward pass in float64.

    Nothing is certified for a text that is cut, or that an insertion could make too long.

    Args:
        network: the classifier.
        tokenizer: of its characters.
        threat: the sets of texts.
        bound: `sound`: our theorem; `paper`: the constant of the authors, which insertions exceed.

    Raises:
        ValueError: another threat than characters.
    """

    def __init__(
        self,
        network: LevenshteinCNN,
        tokenizer: CharacterTokenizer,
        threat: Threat,
        bound: EditBound = "sound",
    ) -> None:
        if not isinstance(threat, Characters):
            msg = f"got the threat {threat.name} for a model of characters, expected characters"
            raise ValueError(msg)
        self.tokenizer, self.threat, self.bound = tokenizer, threat, bound
        self.kind: Kind = "lower bound" if bound == "sound" else "unproven"
        copied = copy.deepcopy(network).to(device="cpu", dtype=torch.float64)
        self.network = copied.eval().requires_grad_(requires_grad=False)
        self.shares, self.reach = shares_of(self.network), reach_of(self.network)
        # Of an edit of any text.
        self.constant = EXACT * edit_constant(self.shares, spread=1.0, size=float(self.reach[0]))
        rows = self.network.rows()
        # [C, C]: how fast each difference of logits changes with the pooled sum.
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
        rivals = torch.arange(len(logits)) != label
        lead = (logits[label] - logits - allowance(logits))[rivals]
        gaps = self.gaps[label][rivals]
        # k insertions must fit: the model would cut a longer text.
        room = -1 if encoding.truncated else self.tokenizer.max_length - ids.shape[1]
        verdicts = [
            k is not None and k <= room and bool((lead > self.moved(ids, k) * gaps).all())
            for k in ks
        ]
        return TextCertificate(
            text=text,
            prediction=label,
            holds=tuple(verdicts),
            certified=largest(verdicts, ks),
            kind=self.kind,
            cut=encoding.truncated,
            unknown=sum(index == self.tokenizer.unk_id for index in encoding.input_ids),
        )

    def moved(self, ids: Tensor, k: int) -> float:
        """Return the most by which k edits of a text move the sum over all windows."""
        # Beyond the text there are zeros, as at padding.
        reach = float(torch.cat([self.reach[:1], self.reach[ids.flatten()]]).amax())
        if self.bound == "paper":
            return k * reach
        # Each edit after the first one is of another text.
        first = edit_constant(self.shares, spread=reach, size=float(self.reach[0]))
        return EXACT * first + (k - 1) * self.constant if k else 0.0


def reach_of(network: LevenshteinCNN) -> Tensor:
    """Return `[V]`: the largest distance of each embedding, 0 of padding, from all the others."""
    table = network.embed(torch.arange(len(network.symbols) + 1))
    reach: Tensor = (table.unsqueeze(1) - table).norm(network.order, dim=-1).amax(dim=1)
    return reach


def shares_of(network: LevenshteinCNN) -> Tensor:
    """Return `[W]` measured norms of the matrices of a window of all layers, see `joined`."""
    shares = []
    for kernel in network.kernels:
        # What the forward pass divides by is no bound; measured again, it is.
        used = torch.linalg.matrix_norm(kernel, ord=network.order).sum()
        shares.append(
            torch.stack([operator_norm_bound(tap, network.norm) for tap in kernel]) / used
        )
    return joined(shares)
