"""Bound propagation contains everything that can be sampled, and agrees with closed forms."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from certify.bound_propagation import WordBalls, WordBallsCertifier
from certify.bound_propagation.propagation_graph import Graph, Input, Passes
from certify.bound_propagation.regions import Region
from certify.bound_propagation.relaxations import Kind, band, lines, value
from certify.bound_propagation.transformer_bounds import (
    _logits,
    check_transformer,
    copy_double,
    least_margins,
)
from layers.transformer import TransformerClassifier, TransformerLayers
from tests.unit.certify.nodes import check_nodes

F64 = torch.float64
WIDTH = 8
PASSES: tuple[Passes, ...] = ("forward", "mixed", "backward")


def network(
    depth: int = 1, *, seed: int = 0, classes: int = 3, **options: Any
) -> TransformerClassifier:
    torch.manual_seed(seed)
    own = {name: options.pop(name) for name in ("pooling", "single_logit") if name in options}
    settings = TransformerLayers(mean_norm=True, feedforward=12, **options)
    made = TransformerClassifier(WIDTH, classes, depth=depth, heads=2, layers=settings, **own)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return copy_double(made)


def logit_bounds(
    model: TransformerClassifier, region: Region, mask: Tensor, *, passes: Passes
) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds `[B, C]` on each logit."""
    graph = Graph(region, passes=passes)
    logits = _logits(graph, model, Input(graph), mask)
    return graph.interval(graph.bound_values(logits, torch.arange(3)))


def moved(region: Region, number: int) -> Tensor:
    """`[number, B, N, d]`: points of the balls, most of them on the surface."""
    shape = (number, *region.words.shape, region.centre.shape[-1])
    steps = torch.randn(shape, dtype=F64)
    if region.p == torch.inf:
        steps = steps.sign()
    elif region.p == 1:
        # Corners, and points between them.
        steps = steps * (torch.rand(shape, dtype=F64) < 0.3)
    norms = torch.linalg.vector_norm(steps, ord=region.p, dim=-1, keepdim=True)
    lengths = torch.rand(number, 1, 1, 1, dtype=F64).pow(0.1) * region.epsilon.view(-1, 1, 1)
    steps = steps / norms.clamp_min(1e-12) * lengths
    found = region.centre.repeat(number, 1, 1, 1)
    for row, places in enumerate(region.words.tolist()):
        for at, place in enumerate(places):
            found[:, row, place] += steps[:, row, at]
    return found


@pytest.mark.parametrize("kind", ["relu", "gelu", "exp", "abs"])
def test_lines_around_a_function(kind: Kind) -> None:
    ends = torch.randn(200, 2, dtype=F64).mul(3).sort(dim=1).values
    ends[:10, 1] = ends[:10, 0] + 9e-10
    ends[10:20, 1] = ends[10:20, 0]
    lower, upper = ends.unbind(dim=1)
    points = lower + (upper - lower) * torch.linspace(0, 1, 997, dtype=F64)[:, None]
    exact, slack = value(kind, points), 1e-12 * (1 + upper.abs().exp())
    around = band(kind, lower, upper)
    assert bool((around.slope * points + around.low <= exact + slack).all())
    assert bool((around.slope * points + around.high >= exact - slack).all())
    both = lines(kind, lower, upper)
    assert bool((both.low_slope * points + both.low <= exact + slack).all())
    assert bool((both.high_slope * points + both.high >= exact - slack).all())


@pytest.mark.parametrize("p", [1.0, 2.0, torch.inf])
@pytest.mark.parametrize(
    ("depth", "layers"),
    [(1, {"activation": "relu"}), (2, {"norm": "post"}), (2, {"activation": "relu"})],
    ids=["one", "post-gelu", "pre-relu"],
)
def test_bounds_contain_what_is_sampled(depth: int, layers: dict[str, Any], p: float) -> None:
    model = network(depth, **layers)
    x, mask = torch.randn(2, 4, WIDTH, dtype=F64), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]).bool()
    # Padding may hold anything that is finite.
    x[1, 3] = 7.0
    widths = {}
    for words, passes in product(([[0], [2]], [[0, 1], [2, 0]]), PASSES):
        epsilon = torch.tensor([0.2, 0.4], dtype=F64) * (0.3 if p == torch.inf else 1)
        region = Region(x, torch.tensor(words), epsilon, p)
        lower, upper = logit_bounds(model, region, mask, passes=passes)
        points = moved(region, 200)
        logits = model(points.flatten(0, 1), mask.repeat(200, 1)).view(200, 2, 3)
        assert bool((logits >= lower - 1e-9).all())
        assert bool((logits <= upper + 1e-9).all())
        widths[len(words[0]), passes] = float((upper - lower).mean())
    for number in (1, 2):
        assert widths[number, "mixed"] < widths[number, "forward"]


MIDDLE = slice(WIDTH, 2 * WIDTH)
"""Rows of the keys in the weight of queries, keys and values."""
KEPT: dict[str, slice] = {"all": slice(0, 0), "keys": slice(0, WIDTH), "values": MIDDLE}
"""Rows of this weight that are 0: what is left moves, so that each error counts on its own."""


@pytest.mark.long
@pytest.mark.parametrize("zeros", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize(
    "made",
    [
        {"activation": "relu"},
        {"norm": "post"},
        {"classes": 2, "pooling": "first", "single_logit": True},
    ],
    ids=["relu", "post", "first"],
)
def test_each_node_holds_in_the_region(made: dict[str, Any], passes: Passes, zeros: slice) -> None:
    model = network(2, **made)
    for block in model.blocks:
        block.get_parameter("attention.qkv.weight")[zeros] = 0.0
    # Without padding, whose log-softmax has no value.
    x, mask = torch.randn(2, 3, WIDTH, dtype=F64), torch.ones(2, 3, dtype=torch.bool)
    region = Region(x, torch.tensor([[0, 1], [2, 0]]), torch.tensor([0.3, 0.6], dtype=F64), 2.0)
    graph = Graph(region, passes=passes)
    _logits(graph, model, Input(graph), mask)
    points = moved(region, 300)
    # Around a point that does not move, the centre of each node is its value.
    flat, masks = points.flatten(0, 1), mask.repeat(300, 1)
    nowhere = torch.zeros(len(flat), dtype=F64)
    still = Graph(Region(flat, torch.zeros(len(flat), 1).long(), nowhere, 2.0), passes="forward")
    logits = _logits(still, model, Input(still), masks)
    torch.testing.assert_close(logits.affine.centre, model(flat, masks))
    exact = [torch.unflatten(node.affine.centre, 0, (300, 2)) for node in still.nodes]
    check_nodes(graph, exact, region.of_words((points - x).transpose(0, 1)).transpose(0, 1))


def test_one_token_of_a_linear_network_is_exact() -> None:
    """One token attends to itself alone: with no feed-forward part every layer is linear."""
    model = network(1)
    with torch.no_grad():
        model.blocks[0].get_submodule("outer").get_parameter("weight").zero_()
    x = torch.randn(1, 1, WIDTH, dtype=F64)
    mask = torch.ones(1, 1, dtype=torch.bool)
    x.requires_grad_()
    logits = model(x, mask)
    rows = [torch.autograd.grad(one, x, retain_graph=True)[0] for one in logits[0].unbind()]
    jacobian, x = torch.stack(rows).view(3, WIDTH), x.detach()
    for p, dual in ((1.0, torch.inf), (2.0, 2.0), (torch.inf, 1.0)):
        region = Region(x, torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0.5], dtype=F64), p)
        lower, upper = logit_bounds(model, region, mask, passes="backward")
        reach = 0.5 * torch.linalg.vector_norm(jacobian, ord=dual, dim=-1)
        torch.testing.assert_close(lower, model(x, mask) - reach)
        torch.testing.assert_close(upper, model(x, mask) + reach)


def test_without_a_ball_the_bounds_are_the_logits() -> None:
    model = network(2, norm="post")
    x, mask = torch.randn(1, 3, WIDTH, dtype=F64), torch.ones(1, 3, dtype=torch.bool)
    region = Region(x, torch.tensor([[0, 2]]), torch.zeros(1, dtype=F64), 2.0)
    lower, upper = logit_bounds(model, region, mask, passes="mixed")
    torch.testing.assert_close(lower, model(x, mask))
    torch.testing.assert_close(upper, lower)


def test_corners_of_a_cube() -> None:
    """For the infinity norm and one feature, a fine grid is brute force."""
    model = network(1, activation="relu", classes=2)
    x, mask = torch.randn(1, 3, WIDTH, dtype=F64), torch.ones(1, 3, dtype=torch.bool)
    region = Region(x, torch.tensor([[1]]), torch.tensor([0.1], dtype=F64), torch.inf)
    corners = torch.tensor(list(product((-0.1, 0.1), repeat=WIDTH)), dtype=F64)
    points = x.repeat(len(corners), 1, 1)
    points[:, 1] += corners
    logits = model(points, mask.repeat(len(corners), 1))
    label = model(x, mask).argmax(dim=1)
    least = (logits[:, label] - logits[:, 1 - label]).min()
    found = least_margins(model, region, mask, label, passes="backward")
    assert float(found) <= float(least)
    assert float(least - found) < 0.2 * float(logits.amax(0).sub(logits.amin(0)).sum())


class Toy:
    def __init__(self, made: nn.Module) -> None:
        self.network = made

    def embed(self, batch: Any) -> Tensor:
        x: Tensor = batch.x
        return x


@pytest.mark.long
def test_radii_hold_in_every_choice_of_words() -> None:
    model = network(1, activation="relu", classes=2)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    batch = SimpleNamespace(x=torch.randn(2, 3, WIDTH, dtype=F64), mask=mask)
    one = WordBallsCertifier(Toy(model), WordBalls(steps=6))(batch)
    two = WordBallsCertifier(Toy(model), WordBalls(words=2, steps=6, numbers=1))(batch)
    assert one.prediction.equal(model(batch.x, mask).argmax(dim=1))
    assert bool((one.radius > 0).all() and (two.radius > 0).all())
    # The steps are so coarse that the two may be equal.
    assert bool((two.radius <= one.radius * 1.5).all() and (one.radius <= one.mean).all())
    for row, length in enumerate((3, 2)):
        for place in range(length):
            words = torch.tensor([[place]])
            region = Region(batch.x[row : row + 1, :length], words, one.radius[row : row + 1], 2.0)
            points = moved(region, 300).flatten(0, 1)
            found = model(points, torch.ones(300, length, dtype=torch.bool)).argmax(dim=1)
            assert bool((found == one.prediction[row]).all())
            of_text, label = mask[row : row + 1, :length], one.prediction[row : row + 1]
            assert bool(least_margins(model, region, of_text, label, passes="mixed") > 0)


def test_padding_in_front_changes_no_radius() -> None:
    model = network(1, activation="relu", classes=2)
    x, mask = torch.randn(1, 4, WIDTH, dtype=F64), torch.tensor([[0, 1, 1, 1]]).bool()
    certifier = WordBallsCertifier(Toy(model), WordBalls(steps=4))
    alone = certifier(SimpleNamespace(x=x[:, 1:], mask=mask[:, 1:]))
    padded = certifier(SimpleNamespace(x=x, mask=mask))
    assert float(alone.radius) > 0
    torch.testing.assert_close(padded.radius, alone.radius)


def test_a_margin_within_rounding_is_none() -> None:
    model = network(1, classes=2)
    x, mask = torch.randn(1, 3, WIDTH, dtype=F64), torch.ones(1, 3, dtype=torch.bool)
    region = Region(x, torch.tensor([[0]]), torch.zeros(1, dtype=F64), 2.0)
    label = torch.tensor([0])
    for margin, held in ((1e-10, False), (1e-6, True)):
        first, second = model(x, mask)[0].unbind()
        model.head.get_parameter("bias")[0] += second - first + margin
        found = least_margins(model, region, mask, label, passes="mixed")
        assert bool(found > 0) == held


def test_a_ball_too_large_certifies_nothing() -> None:
    model = network(2)
    x, mask = torch.randn(1, 3, WIDTH, dtype=F64), torch.ones(1, 3, dtype=torch.bool)
    region = Region(x, torch.tensor([[0]]), torch.tensor([1e4], dtype=F64), 2.0)
    label = model(x, mask).argmax(dim=1)
    assert not bool(least_margins(model, region, mask, label, passes="forward") > 0)


def test_refuses_other_networks() -> None:
    with pytest.raises(ValueError, match="mean_norm true"):
        check_transformer(TransformerClassifier(8, 2, depth=1, heads=2))
    with pytest.raises(ValueError, match="expected the Transformer"):
        check_transformer(nn.Linear(2, 2))
    model = network()
    # The graph has no map after the blocks but a norm, and no dropout.
    model.add_module("norm", nn.Linear(WIDTH, WIDTH).double())
    with pytest.raises(ValueError, match="Linear as norm"):
        check_transformer(model)
    model = network()
    model.blocks[0].dropout = nn.Linear(WIDTH, WIDTH).double()
    with pytest.raises(ValueError, match=r"Linear as blocks\.0\.dropout"):
        check_transformer(model)
    model = network()
    handle = model.head.register_forward_hook(lambda part, given, out: 2 * out)
    with pytest.raises(ValueError, match="forward hook"):
        check_transformer(model)
    handle.remove()
    model.head.forward = lambda x: x
    with pytest.raises(ValueError, match="forward"):
        check_transformer(model)
    with pytest.raises(ValueError, match="norm"):
        WordBalls(norm="3")  # type: ignore[arg-type] # what is refused
