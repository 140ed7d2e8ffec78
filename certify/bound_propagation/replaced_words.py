"""Certifies replaced words by linear relaxation over the candidates of each word."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from certify.bound_propagation.olsa_bounds import check_olsa, olsa_logits
from certify.bound_propagation.propagation_graph import Graph, Node, Passes
from certify.bound_propagation.regions import WordChoices
from certify.bound_propagation.transformer_bounds import (
    check_transformer,
    copy_double,
    replaced_logits,
)
from certify.certificate import in_float64
from certify.ties import allowance
from layers.encoders import LipschitzClassifier
from layers.transformer import TransformerClassifier


class MarginBounds(NamedTuple):
    """The bound of a text for each of B numbers of changes.

    Attributes:
        margin: `[B]`, lower bound on the margin of the prediction; NaN where a bound overflows.
        choices: `[B, C, N]`, for each other class the text that the relaxation takes for the
            worst one: a candidate in 0 ... S for each word, 0 the word itself.
    """

    margin: Tensor
    choices: Tensor


class ReplacedWords:
    """Bounds of one network over replaced words.

    Args:
        network: an OLSA classifier with additive attention, or a Transformer without division in
            its LayerNorm.
        passes: see `Graph`.

    Raises:
        ValueError: see `check_olsa` and `check_transformer`.
    """

    def __init__(self, network: nn.Module, *, passes: Passes = "mixed") -> None:
        self.network: LipschitzClassifier | TransformerClassifier
        if isinstance(network, LipschitzClassifier):
            check_olsa(network)
            self.network = in_float64(network)
        else:
            check_transformer(network)
            assert isinstance(network, TransformerClassifier)  # as just checked
            self.network = copy_double(network)
        self.passes: Passes = passes

    def build(self, graph: Graph, table: Tensor, k: Tensor) -> Node:
        """Add the network to an empty graph, and return its logits; see `olsa_logits`."""
        if isinstance(self.network, LipschitzClassifier):
            return olsa_logits(graph, self.network, table, k)
        return replaced_logits(graph, self.network, table, k)

    @torch.no_grad()
    def logits(self, tokens: Tensor) -> Tensor:
        """Return `[n, C]` logits of n texts `[n, N, d]` of one length."""
        # All rows are versions of one text, and replacements move no word: there is no padding.
        mask = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        logits: Tensor = self.network(tokens.to(torch.float64), mask)
        return logits

    @torch.no_grad()
    def __call__(
        self, table: Tensor, movable: Sequence[int], ks: Sequence[int], label: int
    ) -> MarginBounds:
        """Bound the margins of a text.

        Slopes have W * S numbers for each value, and there are B * H * N * N scores: a text of 40
        words with 8 candidates each and 4 heads takes about 16 MB for each of B, and after the
        first layer d / 2H times as much for the features of additive scores.

        Args:
            table: `[N, S + 1, d]`, embedded: each word, and its candidates; a word with
                fewer candidates is repeated.
            movable: W positions of words with candidates, at least one.
            ks: B largest numbers of replaced words, at least 1 each.
            label: the predicted class.
        """
        table = table.to(torch.float64)
        k = torch.tensor(ks, device=table.device)
        words = torch.tensor(movable, device=table.device)
        # Choice 0, the word itself, is the centre of the region and not a change.
        region = WordChoices.among(table.shape[1] - 1, len(table), words, k)
        graph = Graph(region, passes=self.passes)
        logits = self.build(graph, table, k)
        centre = logits.affine.centre
        eye = torch.eye(centre.shape[1], dtype=centre.dtype, device=centre.device)
        # A row of weights for each other class: its margin is the label's logit less its own.
        weights = (eye[label] - eye)[torch.arange(len(eye), device=eye.device) != label]
        constant, slope = graph.line(logits, weights.expand(len(ks), -1, -1))
        least = (constant + region.ends(slope)[0]).amin(dim=1)
        chosen = torch.zeros(*slope.shape[:2], len(table), dtype=torch.int64, device=table.device)
        # 0 is the word itself in `choices`, and -1 in the region.
        chosen[:, :, words] = region.worst(slope) + 1
        return MarginBounds(least - allowance(centre), chosen)
