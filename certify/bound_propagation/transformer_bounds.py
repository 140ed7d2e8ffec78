"""The graph of an ordinary Transformer classifier, and the margins that hold in a region."""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from certify.bound_propagation.propagation_graph import (
    Elementwise,
    Graph,
    Input,
    Linear,
    LogSoftmax,
    Mixed,
    Node,
    Passes,
    Scores,
    Sum,
    Weighted,
)
from certify.bound_propagation.regions import Region
from certify.bound_propagation.relaxations import Kind
from certify.bound_propagation.word_nodes import OfPairs, OfWords
from certify.parts import foreign_code
from certify.ties import allowance
from layers.attention.scaled_dot_product import SelfAttention
from layers.single_logit import SingleLogit
from layers.transformer import CentringNorm, TransformerBlock, TransformerClassifier


def check_transformer(network: nn.Module) -> None:
    """Raise a ValueError for a network, from tokens and mask to logits, that has no graph here.

    That is another kind of network, of attention or of norm; hooks or methods of an instance's own.
    """
    # Not `isinstance`: a subclass may compute something else.
    if type(network) is not TransformerClassifier:
        msg = (
            f"got {type(network).__name__} for bound=propagation, expected the Transformer of "
            "TextClassifier: use `--model TextClassifier --model.encoder transformer`"
        )
        raise ValueError(msg)
    for path, part in network.named_modules():
        if isinstance(part, nn.LayerNorm):
            msg = (
                f"got LayerNorm with its division as {path}, expected one without: train with "
                "--model.layers.mean_norm true"
            )
            raise ValueError(msg)
        if type(part) not in _INSTEAD.get(path.rpartition(".")[2], _PARTS):
            msg = (
                f"got a {type(part).__name__} as {path}, expected parts of an ordinary "
                "Transformer: --model.attention.kind scaled_dot_product"
            )
            raise ValueError(msg)
        if isinstance(part, TransformerBlock) and part.activation not in _ACTIVATIONS:
            msg = f"got the activation {part.activation} in {path}, expected relu or gelu"
            raise ValueError(msg)
    if (complaint := foreign_code(network)) is not None:
        msg = f"got {complaint}, expected none: certify a model as lit_modules.load() returns it"
        raise ValueError(msg)


_PARTS = (
    TransformerClassifier,
    TransformerBlock,
    SelfAttention,
    CentringNorm,
    SingleLogit,
    nn.Linear,
    nn.Dropout,
    nn.Identity,
    nn.ModuleList,
)
# The graph skips what is there, unless it is a norm.
_INSTEAD = {"norm": (CentringNorm, nn.Identity), "dropout": (nn.Dropout, nn.Identity)}
_ACTIVATIONS = {functional.relu: "relu", functional.gelu: "gelu"}


def copy_double(network: TransformerClassifier) -> TransformerClassifier:
    """Return a float64 copy in evaluation mode."""
    copied = copy.deepcopy(network).to(torch.float64)
    return copied.eval().requires_grad_(requires_grad=False)


@torch.no_grad()
def least_margins(
    network: TransformerClassifier, region: Region, mask: Tensor, labels: Tensor, *, passes: Passes
) -> Tensor:
    """Return lower bounds `[B]` on the margin of a label in a full region; NaN where one overflows.

    `check_transformer` has passed the network, in float64. The mask `[B, N]` is True at real
    tokens, labels are `[B]` int64; passes: see `Graph`.
    """
    graph = Graph(region, passes=passes)
    logits = _logits(graph, network, Input(graph), mask)
    classes = logits.affine.centre.shape[1]
    eye = torch.eye(classes, dtype=region.centre.dtype, device=mask.device)
    # A row for each class: the label's logit less that of the class.
    weights = eye[labels].unsqueeze(1) - eye
    margins = graph.least(logits, weights)
    own = eye[labels].bool()
    # The margin of the label over itself is 0: it must not be the least one.
    least: Tensor = margins.masked_fill(own, torch.inf).amin(dim=1)
    return least - allowance(logits.affine.centre)


def replaced_logits(graph: Graph, network: TransformerClassifier, table: Tensor, k: Tensor) -> Node:
    """Add a Transformer classifier to an empty graph over `WordChoices`; return `[B, C]` logits.

    `check_transformer` has passed the network, in float64. The table `[N, S + 1, d]` are embedded
    words and candidates, see `OfWords`; k `[B]` the largest numbers of replaced words.
    """
    choices = Input(graph)
    x = OfWords(graph, choices, table)
    mask = torch.ones(len(k), len(table), dtype=torch.bool, device=table.device)

    def scores(block: TransformerBlock) -> Node:
        # A pre-norm block normalises before its attention: that is part of the table, too.
        tokens = table if block.post else block.attention_norm(table)
        attention = block.attention
        assert isinstance(attention, SelfAttention)  # `check_transformer` made sure
        query, key, _ = (
            torch.unflatten(functional.linear(tokens, weight, bias), -1, (attention.heads, -1))
            for weight, bias in _thirds(attention.qkv)
        )
        pairs = _scale(attention) * torch.einsum("iahe,jbhe->hiajb", query, key)
        return OfPairs(graph, choices, pairs, k)

    return _logits(graph, network, x, mask, scores)


def _logits(
    graph: Graph,
    network: TransformerClassifier,
    x: Node,
    mask: Tensor,
    first: Callable[[TransformerBlock], Node] | None = None,
) -> Node:
    """Return the logits; `first` makes the scores of the first block, where tables are exact."""
    for number, block in enumerate(network.blocks):
        assert isinstance(block, TransformerBlock)  # `check_transformer` made sure
        scores = first(block) if first is not None and number == 0 else None
        if block.post:
            x = _normed(
                graph, Sum(graph, x, _attended(graph, x, block, mask, scores)), block.attention_norm
            )
            x = _normed(graph, Sum(graph, x, _fed(graph, x, block)), block.feedforward_norm)
        else:
            normed = _normed(graph, x, block.attention_norm)
            x = Sum(graph, x, _attended(graph, normed, block, mask, scores))
            x = Sum(graph, x, _fed(graph, _normed(graph, x, block.feedforward_norm), block))
    # After post-norm blocks it is the identity.
    if isinstance(network.norm, CentringNorm):
        x = _normed(graph, x, network.norm)
    shares = mask.to(torch.float64)
    if network.pooling == "first":
        shares = torch.zeros_like(shares)
        shares[:, 0] = 1
    pooled = Weighted(graph, x, shares / shares.sum(dim=1, keepdim=True))
    return Linear(graph, pooled, *_head(network.head))


def _head(head: nn.Module) -> tuple[Tensor, Tensor | None]:
    if isinstance(head, SingleLogit):
        weight, bias = head.linear.weight, head.linear.bias
        # Its logits are (0, z): a row of zeros is the first class.
        return torch.cat([weight * 0, weight]), torch.cat([bias * 0, bias])
    assert isinstance(head, nn.Linear)  # `logit_head` makes no other
    return head.weight, head.bias


def _normed(graph: Graph, x: Node, norm: nn.Module) -> Node:
    assert isinstance(norm, CentringNorm)  # `check_transformer` made sure
    width = len(norm.weight)
    # CentringNorm subtracts the mean and scales: linear, as it does not divide.
    centring = torch.eye(width, dtype=norm.weight.dtype, device=norm.weight.device) - 1 / width
    return Linear(graph, x, norm.weight.unsqueeze(1) * centring, norm.bias)


def _attended(
    graph: Graph, x: Node, block: TransformerBlock, mask: Tensor, scores: Node | None
) -> Node:
    attention = block.attention
    assert isinstance(attention, SelfAttention)  # `check_transformer` made sure
    heads = attention.heads
    query, key, values = (
        Linear(graph, x, weight, bias, heads=heads) for weight, bias in _thirds(attention.qkv)
    )
    keys = mask[:, None, None, :]
    if scores is None:
        scores = Scores(graph, query, key, _scale(attention))
    logs = LogSoftmax(graph, scores, keys)
    shares = Elementwise(graph, logs, "exp", keys.expand(-1, heads, mask.shape[1], -1))
    mixed = Mixed(graph, shares, values)
    return Linear(graph, mixed, attention.output.weight, attention.output.bias, joins=True)


def _scale(attention: SelfAttention) -> float:
    return float((attention.output.in_features // attention.heads) ** -0.5)


def _thirds(qkv: nn.Linear) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(qkv.weight.chunk(3), qkv.bias.chunk(3), strict=True)


def _fed(graph: Graph, x: Node, block: TransformerBlock) -> Node:
    inner = Linear(graph, x, block.inner.weight, block.inner.bias)
    kind: Kind = "relu" if block.activation is functional.relu else "gelu"
    hidden = Elementwise(graph, inner, kind)
    return Linear(graph, hidden, block.outer.weight, block.outer.bias)
