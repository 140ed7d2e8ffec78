"""The graph of an OLSA classifier over replaced words, see docs/certificates/words_proof.md."""

import torch
from torch import Tensor, nn

from certify.bound_propagation.additive_nodes import (
    AllHeads,
    Clipped,
    OfFeatures,
    Offsets,
    PairSums,
    SomeHeads,
)
from certify.bound_propagation.propagation_graph import (
    Elementwise,
    Graph,
    Input,
    Linear,
    LogSoftmax,
    Mixed,
    Node,
    Sum,
    Weighted,
)
from certify.bound_propagation.word_nodes import OfPairs, OfWords
from certify.parts import check_network
from layers.attention.additive import additive_scores
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.ball import project_to_ball
from layers.encoders import LipschitzBlock, LipschitzClassifier, OrthogonalFeedForward
from layers.groupsort import GroupSort


def check_olsa(network: nn.Module) -> None:
    """Raise a ValueError for a network, from tokens and mask to logits, that has no graph here.

    That is another kind of network or of attention; hooks or methods of an instance's own.
    """
    check_network(network)
    for path, part in network.named_modules():
        if isinstance(part, LipschitzBlock) and not isinstance(
            part.attention, OneLipschitzSelfAttention
        ):
            msg = (
                f"got a {type(part.attention).__name__} in {path}, expected additive attention: "
                "--model.layers.attention additive"
            )
            raise ValueError(msg)
        if isinstance(part, GroupSort) and part.group_size != 2:
            msg = f"got group_size={part.group_size} in {path}, expected 2: pairs that are sorted"
            raise ValueError(msg)


def olsa_logits(graph: Graph, network: LipschitzClassifier, table: Tensor, k: Tensor) -> Node:
    """Add an OLSA classifier to an empty graph over `WordChoices`; return its `[B, C]` logits.

    `check_olsa` has passed the network, in float64. The table `[N, S + 1, d]` are embedded words
    and candidates, see `OfWords`; k `[B]` the largest numbers of replaced words.
    """
    encoder = network.encoder
    length = len(table)
    # The encoder projects its tokens first: exact in a table, word by word.
    table = project_to_ball(table, encoder.radius)
    choices = Input(graph)
    x: Node = OfWords(graph, choices, table)
    radius = table.new_full((1,), encoder.radius)
    for number, block in enumerate(encoder.blocks):
        assert isinstance(block, LipschitzBlock)  # `check_olsa` made sure
        attention = block.attention
        assert isinstance(attention, OneLipschitzSelfAttention)  # the same
        first = _FirstLayer(choices, table, k) if number == 0 else None
        mixed, grown = _attended(graph, x, attention, radius, first)
        x, radius = Sum(graph, x, mixed, factor=0.5), (radius + grown) / 2
        if block.feedforward is not None:
            x = Sum(graph, x, _fed(graph, x, block.feedforward), factor=0.5)
        if block.norm is not None:
            bias = block.norm.bias
            # Subtracting the mean is linear.
            eye = torch.eye(len(bias), dtype=bias.dtype, device=bias.device)
            x = Linear(graph, x, eye - 1 / len(bias), bias)
            radius = radius + torch.linalg.vector_norm(bias)
    # The pooling is a sum over sqrt(N), which is 1-Lipschitz.
    shares = table.new_full((1, length), length**-0.5).expand(len(k), -1)
    return Linear(graph, Weighted(graph, x, shares), network.head.weight, network.head.bias)


class _FirstLayer:
    """Values and scores of a layer whose tokens depend on one word each."""

    def __init__(self, choices: Node, table: Tensor, k: Tensor) -> None:
        self.choices, self.table, self.k = choices, table, k

    def values(self, graph: Graph, attention: OneLipschitzSelfAttention, radius: Tensor) -> Node:
        """Return `[B, H, N, e]`."""
        values = attention.value(self.table)
        if attention.value_clip is not None:
            parts = torch.unflatten(values, -1, (attention.heads, -1))
            values = project_to_ball(parts, attention.value_radius(radius)).flatten(-2)
        # A map by the identity, which only splits the features into heads.
        eye = torch.eye(attention.width, dtype=values.dtype, device=values.device)
        return Linear(graph, OfWords(graph, self.choices, values), eye, None, heads=attention.heads)

    def scores(self, graph: Graph, attention: OneLipschitzSelfAttention) -> Node:
        """Return `[B, H, N, N]`."""
        size = attention.width // attention.heads
        # [H, N (S + 1), e]
        query, key = (
            torch.unflatten(part, -1, (-1, size)).movedim(-2, 0).flatten(1, 2).unsqueeze(0)
            for part in attention.query_key(self.table).chunk(2, dim=-1)
        )
        scores = additive_scores(
            query, key, attention.score_weight(), activation=attention.activation
        )
        # From [1, H, N (S + 1), N (S + 1)] to [H, N, S + 1, N, S + 1].
        shape = self.table.shape[:2]
        table = scores.view(len(scores[0]), *shape, *shape)
        return OfPairs(graph, self.choices, table / (2 * attention.alpha_1), self.k)


def _attended(
    graph: Graph,
    x: Node,
    attention: OneLipschitzSelfAttention,
    radius: Tensor,
    first: _FirstLayer | None,
) -> tuple[Node, Tensor]:
    """Return the output of an attention, and the bound on its tokens' norms."""
    heads, ahead, width = attention.heads, attention.offset_heads, attention.width
    if first is not None:
        values, scores = first.values(graph, attention, radius), first.scores(graph, attention)
    else:
        values = Linear(graph, x, attention.value.weight()[0], None, heads=heads)
        if attention.value_clip is not None:
            values = Clipped(graph, values, float(attention.value_radius(radius)))
        scores = _scores(graph, x, attention)
    length = scores.affine.centre.shape[-1]
    keys = torch.ones(1, 1, 1, length, dtype=torch.bool, device=radius.device)
    shares = Elementwise(graph, LogSoftmax(graph, scores, keys), "exp")
    mixed: Node = Mixed(graph, shares, SomeHeads(graph, values, ahead, heads))
    if ahead:
        view = torch.stack([_shift(number, length) for number in range(ahead)]).to(radius)
        fixed = Offsets(graph, SomeHeads(graph, values, 0, ahead), view)
        mixed = AllHeads(graph, fixed, mixed)
    lengths = radius.new_full((1,), length)
    alpha_2 = attention.alpha_2(lengths, radius)
    eye = torch.eye(width, dtype=radius.dtype, device=radius.device)
    # The layer has no output map: the heads are joined and divided by alpha_2.
    out = Linear(graph, mixed, eye / alpha_2, None, joins=True)
    return out, radius * attention.growth(lengths, radius) / alpha_2


def _shift(head: int, length: int) -> Tensor:
    """Return `[N, N]`: the token that an offset head sees, 1 to the left, 1 to the right, 2, ..."""
    step = (head // 2 + 1) * (1 if head % 2 else -1)
    positions = torch.arange(length)
    return (positions == positions.unsqueeze(1) + step).to(torch.float64)


def _scores(graph: Graph, x: Node, attention: OneLipschitzSelfAttention) -> Node:
    """Return the scores of `additive_scores`: a term of the key, and absolute values of sums."""
    maps = attention.query_key.weight()
    weight = attention.score_weight()
    heads, size = weight.shape
    # [H, e, d]
    query, key = (torch.unflatten(values, 0, (heads, size)) for values in maps)
    if attention.activation == "maxmin":
        # a max(u, v) + b min(u, v) = (a + b) / 2 (u + v) + (a - b) / 2 |u - v|.
        even, odd = weight[:, 0::2], weight[:, 1::2]
        mean, half = (even + odd) / 2, (even - odd) / 2
        own = torch.einsum("hf,hfd->hd", mean, key[:, 0::2] + key[:, 1::2])
        query, key = query[:, 0::2] - query[:, 1::2], key[:, 0::2] - key[:, 1::2]
    else:
        # relu(u) = (u + |u|) / 2; the query's share of u is the same for all keys of a row.
        half = weight / 2
        own = torch.einsum("hf,hfd->hd", half, key)
    scale = 1 / (2 * attention.alpha_1)
    queries, keys = (Linear(graph, x, w.flatten(0, 1), None, heads=heads) for w in (query, key))
    of_keys = Linear(graph, x, scale * own, None, heads=heads)
    absolutes = Elementwise(graph, PairSums(graph, queries, keys), "abs")
    return OfFeatures(graph, absolutes, of_keys, scale * half)


def _fed(graph: Graph, x: Node, part: OrthogonalFeedForward) -> Node:
    """Return `outer(maxmin(inner(x)))`, by sums and absolute differences of the pairs."""
    inner, outer = part.inner.weight()[0], part.outer.weight()[0]
    even, odd = inner[0::2], inner[1::2]
    differences = Elementwise(graph, Linear(graph, x, even - odd, None), "abs")
    first, second = outer[:, 0::2], outer[:, 1::2]
    # max = (a + b + |a - b|) / 2 and min = (a + b - |a - b|) / 2.
    straight = Linear(graph, x, (first + second) @ (even + odd) / 2, None)
    return Sum(graph, straight, Linear(graph, differences, (first - second) / 2, None))
