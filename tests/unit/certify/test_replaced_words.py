"""Bounds over replaced words: never above the worst text, exact where nothing is relaxed."""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from certify.bound_propagation import ReplacedWords, propagation_graph
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
    Passes,
    Sum,
)
from certify.bound_propagation.regions import WordChoices
from certify.bound_propagation.relaxations import Lines, lines
from certify.bound_propagation.word_nodes import OfPairs, OfWords
from layers.ball import project_to_ball
from layers.groupsort import GroupSort
from layers.transformer import TransformerClassifier, TransformerLayers
from tests.unit.certify.models import F64, classifier
from tests.unit.certify.nodes import check_nodes

WIDTH = 8


def transformer(depth: int, *, seed: int, **layers: Any) -> nn.Module:
    torch.manual_seed(seed)
    settings = TransformerLayers(mean_norm=True, feedforward=12, **layers)
    return TransformerClassifier(WIDTH, 3, depth=depth, heads=2, layers=settings).double()


OPTIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "olsa": lambda depth, seed: classifier(depth, seed=seed).network,
    "relu": lambda depth, seed: classifier(depth, seed=seed, activation="relu").network,
    "clip": lambda depth, seed: classifier(depth, seed=seed, value_clip=0.7).network,
    "whole": lambda depth, seed: (
        classifier(
            depth,
            seed=seed,
            value_clip=0.9,
            offset_heads=1,
            feedforward=True,
            mean_norm=True,
            head_bias=True,
        ).network
    ),
    "transformer": lambda depth, seed: transformer(depth, seed=seed),
    "post": lambda depth, seed: transformer(depth, seed=seed, norm="post", activation="relu"),
}


class Known(NamedTuple):
    """True margins and their bounds, for each number of changes.

    Attributes:
        own: margin of the text itself.
        true: `[B]`, least margin of all texts.
        bound: `[B]`.
    """

    own: float
    true: Tensor
    bound: Tensor

    @property
    def sound(self) -> bool:
        return bool((self.bound <= self.true).all())


def words(length: int, candidates: int, *, seed: int, spread: float = 0.5) -> Tensor:
    """`[N, S + 1, d]`; the first word has no candidates of its own."""
    torch.manual_seed(100 + seed)
    table = torch.randn(length, 1, WIDTH, dtype=F64)
    table = table + spread * torch.randn(length, candidates + 1, WIDTH, dtype=F64)
    table[0] = table[0, 0]
    return table


def compared(
    network: nn.Module,
    table: Tensor,
    *,
    ks: tuple[int, ...] = (1, 2, 9),
    passes: Passes = "mixed",
    seen: Tensor | None = None,
) -> Known:
    """Brute force over all texts; `seen` is the table that the bounds are given."""
    bounds = ReplacedWords(network, passes=passes)
    length, size = table.shape[:2]
    texts = torch.tensor(list(product([0], *[range(size)] * (length - 1))))
    logits = torch.cat(
        [bounds.logits(table[range(length), part]) for part in torch.split(texts, 4096)]
    )
    label = int(logits[0].argmax())
    margins = logits[:, [label]] - logits
    margins[:, label] = torch.inf
    margins = margins.amin(dim=1)
    changed = texts.count_nonzero(dim=1)
    true = torch.stack([margins[changed <= k].min() for k in ks])
    found = bounds(table if seen is None else seen, range(1, length), ks, label)
    for row, k in enumerate(ks):
        assert bool((found.choices[row].count_nonzero(dim=-1) <= k).all())
    return Known(float(margins[0]), true, found.margin)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_bounds_are_below_the_worst_text(name: str, depth: int) -> None:
    for seed in range(2):
        known = compared(OPTIONS[name](depth, seed), words(4, 3, seed=seed))
        assert known.sound
        if depth == 0:
            torch.testing.assert_close(known.bound, known.true, atol=1e-7, rtol=0)
        if depth == 1:
            # The relaxation loses little of what the words move.
            assert bool((known.true - known.bound < known.own - known.true + 0.02).all())


@pytest.mark.long
@pytest.mark.parametrize("depth", [1, 2])
def test_five_words_of_nine_candidates(depth: int) -> None:
    for name in ("olsa", "whole", "transformer"):
        for seed in range(3):
            network, table = OPTIONS[name](depth, seed), words(5, 8, seed=seed, spread=0.3)
            known = compared(network, table, passes=("forward", "mixed", "backward")[seed])
            assert known.sound


def test_without_candidates_the_bound_is_the_margin() -> None:
    table = words(4, 1, seed=0)
    table[:, 1] = table[:, 0]
    for depth in (1, 2):
        known = compared(OPTIONS["whole"](depth, 0), table)
        torch.testing.assert_close(known.bound, torch.full((3,), known.own, dtype=F64))


def test_an_omitted_candidate_is_noticed() -> None:
    found = []
    for omitted in range(1, 4):
        table = words(4, 3, seed=0)
        seen = table.clone()
        seen[2, omitted] = table[2, 0]
        found.append(compared(OPTIONS["olsa"](0, 0), table, seen=seen).sound)
    assert not all(found)


def test_a_wrong_sign_of_an_absolute_value_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(kind: Any, lower: Tensor, upper: Tensor) -> Lines:
        low_slope, low, high_slope, high = lines(kind, lower, upper)
        if kind != "abs":
            return Lines(low_slope, low, high_slope, high)
        return Lines(-high_slope, -high, -low_slope, -low)

    monkeypatch.setattr(propagation_graph, "lines", wrong)
    found = (
        compared(classifier(1, seed=seed, feedforward=True).network, words(4, 3, seed=seed)).sound
        for seed in range(8)
    )
    assert not all(found)


@pytest.mark.parametrize("name", ["olsa", "transformer"])
def test_a_budget_short_by_one_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = WordChoices.among

    def short(candidates: int, length: int, words: Tensor, k: Tensor) -> WordChoices:
        return inside(candidates, length, words, k - 1)

    monkeypatch.setattr(WordChoices, "among", short)
    assert not compared(OPTIONS[name](1, 0), words(4, 3, seed=0)).sound


def test_reach_of_a_budget() -> None:
    slopes = torch.tensor([[[1.0, -3.0], [-2.0, -1.0], [4.0, 0.5]]], dtype=F64).expand(3, -1, -1)
    places, k = torch.arange(3), torch.tensor([1, 2, 3])
    region = WordChoices.among(2, 5, places, k)
    least, largest = region.ends(slopes.unsqueeze(1))
    assert least.flatten().tolist() == [-3.0, -5.0, -5.0]
    assert largest.flatten().tolist() == [4.0, 5.0, 5.0]
    assert region.worst(slopes.unsqueeze(1)).squeeze(1).tolist() == [
        [1, -1, -1],
        [1, 0, -1],
        [1, 0, -1],
    ]


Value = Callable[[Tensor], Tensor]


def nodes(k: Tensor) -> tuple[Graph, Tensor, list[tuple[Node, Value]]]:
    """Each kind of node with its value as a function of the embedded words `[n, N, d]`."""
    torch.manual_seed(5)
    table = words(3, 2, seed=1)
    graph = Graph(WordChoices.among(2, 3, torch.arange(3), k), passes="forward")
    choices = Input(graph)
    x = OfWords(graph, choices, table)
    query, key, extra = (torch.randn(WIDTH, WIDTH, dtype=F64) for _ in range(3))
    weight = torch.randn(2, 4, dtype=F64)

    def heads(tokens: Tensor, by: Tensor) -> Tensor:
        return torch.unflatten(tokens @ by.mT, -1, (2, 4)).transpose(1, 2)

    def pairs(tokens: Tensor) -> Tensor:
        return heads(tokens, query).unsqueeze(3) + heads(tokens, key).unsqueeze(2)

    def scores(tokens: Tensor) -> Tensor:
        own = heads(tokens, extra)[..., :1].transpose(2, 3)
        return (pairs(tokens).abs() * weight[:, None, None]).sum(dim=-1) + own

    q, kk, v = (Linear(graph, x, by, None, heads=2) for by in (query, key, extra))
    keys = Linear(graph, x, extra[[0, 4]], None, heads=2)
    summed, size = PairSums(graph, q, kk), Elementwise(graph, PairSums(graph, q, kk), "abs")
    scored = OfFeatures(graph, size, keys, weight)
    flat = table.flatten(0, 1)
    whole = heads(flat.unsqueeze(0), query) @ heads(flat.unsqueeze(0), key).mT
    whole = whole.view(2, 3, 3, 3, 3)
    tables = OfPairs(graph, choices, whole, k)
    logs = LogSoftmax(graph, tables, torch.ones(1, 1, 1, 3, dtype=torch.bool))
    shares = Elementwise(graph, logs, "exp")
    places = (torch.rand(2, 3, 3) < 0.5).to(F64)

    def products(tokens: Tensor) -> Tensor:
        return heads(tokens, query) @ heads(tokens, key).mT

    def soft(tokens: Tensor) -> Tensor:
        return products(tokens).log_softmax(dim=-1)

    def values(tokens: Tensor) -> Tensor:
        return heads(tokens, extra)

    made: list[tuple[Node, Value]] = [
        (x, lambda tokens: tokens),
        (summed, pairs),
        (size, lambda tokens: pairs(tokens).abs()),
        (scored, scores),
        (tables, products),
        (logs, soft),
        (shares, lambda tokens: soft(tokens).exp()),
        (Mixed(graph, shares, v), lambda tokens: soft(tokens).exp() @ values(tokens)),
        (Offsets(graph, v, places), lambda tokens: places @ values(tokens)),
        (SomeHeads(graph, v, 1, 2), lambda tokens: values(tokens)[:, 1:]),
        (AllHeads(graph, v, q), lambda t: torch.cat([values(t), heads(t, query)], dim=1)),
        (Sum(graph, v, q, factor=0.5), lambda t: (values(t) + heads(t, query)) / 2),
        (Clipped(graph, v, 9.0), lambda tokens: project_to_ball(values(tokens), 9.0)),
    ]
    return graph, table, made


def test_each_node_holds_at_every_text() -> None:
    k = torch.tensor([1, 2, 3])
    graph, table, made = nodes(k)
    texts = torch.tensor(list(product(range(3), repeat=3)))
    tokens = table[range(3), texts]
    delta = nn.functional.one_hot(texts, 3)[..., 1:].to(F64)
    for node, value in made:
        exact = value(tokens)
        name = type(node).__name__
        weights = torch.randn(3, 5, *node.affine.centre.shape[1:], dtype=F64)
        constant, slope = graph.line(node, weights)
        for row in range(3):
            inside = texts.count_nonzero(dim=1) <= k[row]
            here, moved = exact[inside], delta[inside]
            centre, slopes, error = (part[row] for part in node.affine)
            line = centre + torch.einsum("...ws,nws->n...", slopes, moved)
            assert bool(((here - line).abs() <= error + 1e-9).all()), name
            assert bool((here >= node.lower[row] - 1e-9).all()), name
            assert bool((here <= node.upper[row] + 1e-9).all()), name
            of_weights = torch.einsum("r...,n...->nr", weights[row], here)
            below = constant[row] + torch.einsum("rws,nws->nr", slope[row], moved)
            assert bool((below <= of_weights + 1e-9).all()), name
        if isinstance(node, Clipped):
            assert bool((node.rest > 0).any())  # something is clipped, and not everything


def test_a_short_vector_of_a_wide_interval_is_not_clipped() -> None:
    values = torch.tensor([[[3.0], [-3.0], [0.1]]], dtype=F64)
    graph = Graph(WordChoices.among(2, 1, torch.arange(1), torch.tensor([1])), passes="forward")
    eye = torch.eye(1, dtype=F64)
    vectors = Linear(graph, OfWords(graph, Input(graph), values), eye, None, heads=1)
    Clipped(graph, vectors, 1.0)
    delta = nn.functional.one_hot(torch.arange(3), 3)[:, None, None, 1:].to(F64)
    words_ = values.transpose(0, 1).unsqueeze(1)
    heads = words_.unsqueeze(2)
    check_nodes(graph, [delta, words_, heads, heads.clamp(-1, 1)], delta)


@pytest.mark.long
@pytest.mark.parametrize("passes", ["forward", "mixed", "backward"])
@pytest.mark.parametrize("name", OPTIONS)
def test_each_node_of_a_network_holds_at_every_text(name: str, passes: Passes) -> None:
    network = OPTIONS[name](2, 1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    bounds = ReplacedWords(network)
    table, k = words(3, 2, seed=1, spread=1.0), torch.tensor([1, 2, 3])
    texts = torch.tensor(list(product(range(3), repeat=3)))
    delta = nn.functional.one_hot(texts, 3)[..., 1:].to(F64)
    values = []
    for text, choices in zip(texts, delta, strict=True):
        # Of a text whose candidates are its own words, the centre of each node is its value.
        tokens = table[range(3), text]
        still = Graph(WordChoices.among(2, 3, torch.arange(3), k[:1]), passes="forward")
        logits = bounds.build(still, tokens.unsqueeze(1).repeat(1, 3, 1), k[:1])
        torch.testing.assert_close(logits.affine.centre, bounds.logits(tokens.unsqueeze(0)))
        values.append([choices.unsqueeze(0), *(node.affine.centre for node in still.nodes[1:])])
    exact = [torch.stack(parts) for parts in zip(*values, strict=True)]
    for limit in torch.split(k, 1):
        graph = Graph(WordChoices.among(2, 3, torch.arange(3), limit), passes=passes)
        bounds.build(graph, table, limit)
        inside = texts.count_nonzero(dim=1) <= limit
        check_nodes(graph, [value[inside] for value in exact], delta[inside].unsqueeze(1))


def test_refuses_other_networks() -> None:
    with pytest.raises(ValueError, match="expected additive attention"):
        ReplacedWords(classifier(1, attention="l2").network)
    with pytest.raises(ValueError, match="mean_norm true"):
        ReplacedWords(TransformerClassifier(8, 2, depth=1, heads=2))
    hooked = classifier(1).network
    hooked.register_forward_hook(lambda part, given, out: 2 * out)
    with pytest.raises(ValueError, match="hook"):
        ReplacedWords(hooked)
    # The graph of the feed-forward map knows sorted pairs only.
    longer = classifier(1, feedforward=True).network
    for part in longer.modules():
        if isinstance(part, GroupSort):
            part.group_size = 4
    with pytest.raises(ValueError, match="group_size=4"):
        ReplacedWords(longer)
