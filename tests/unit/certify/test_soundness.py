"""Certificates under attack: nothing inside a certified ball changes the prediction."""

import math

import pytest
import torch

from attacks import PGD
from certify import Certifier, certify
from layers import OrthogonalLinear, olsa_classifier, project_to_ball
from layers.attention.bounds import Bound, attention_bound, mixing_norm
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.encoders import LipschitzBlock, OLSALayers
from lit_modules import OLSA, TextClassifier
from lit_modules.shared.certified import CertifiedClassifier
from tests.unit.certify.models import (
    F64,
    OPTIONS,
    RADIUS,
    Tokens,
    Toy,
    classifier,
    olsa,
    tokens,
    train,
)
from tests.unit.lit_modules.builders import make
from text import Text, WordTokenizer

LENGTHS = [1, 2, 3, 4, 5, 5, 2, 4]


CASES = [*((name, 1 + place % 3, 25) for place, name in enumerate(OPTIONS)), ("everything", 2, 0)]
MORE = [("plain", 1, 0), ("plain", 2, 0), ("everything", 1, 0), ("everything", 3, 25)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "depth", "trained"),
    # In one layer quickly: other options are in `test_longer_weights_shrink_the_radius`.
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_attacks_inside_the_radius_fail(name: str, depth: int, trained: int) -> None:
    toy, batch = classifier(depth, **OPTIONS[name]), tokens(LENGTHS, seed=depth)
    train(toy, batch, torch.arange(len(LENGTHS)) % 3, steps=trained)
    toy.network.eval().requires_grad_(requires_grad=False)
    certificates = certify(toy, batch)
    assert int((certificates.radius > 1e-3).sum()) >= 7  # of 8: there is something to attack
    attack = PGD(steps=8, restarts=2)
    seeds = list(range(len(LENGTHS)))
    points, flipped = attack(
        toy.network,
        batch.x,
        batch.mask,
        certificates.prediction,
        epsilon=0.999 * certificates.radius,
        seeds=seeds,
    )
    assert not bool(flipped.any())
    assert not torch.equal(points, batch.x)
    _, flipped = attack(
        toy.network,
        batch.x,
        batch.mask,
        certificates.prediction,
        epsilon=30.0 * certificates.radius,
        seeds=seeds,
    )
    assert bool(flipped.any())  # the attack can succeed


def lightning_module(name: str) -> tuple[CertifiedClassifier, list[Text]]:
    torch.manual_seed(0)
    pairs: list[Text] = [("a b c", "a c"), ("b", "c b a"), ("c c", "a"), ("a", "b b")]
    singles: list[Text] = ["a b c a", "b", "c a", "a a c"]
    module: CertifiedClassifier = (
        make(TextClassifier, encoder="mean", width=8, loss="hinge")
        if name == "bag"
        else make(OLSA, width=8, heads=2, depth=2, loss="hinge", offset_heads=1, feedforward=True)
    )
    texts = pairs if name == "pairs" else singles
    tokenizer = WordTokenizer.build(texts, max_length=16)
    module.attach(tokenizer, ["no", "yes"], pairs=name == "pairs")
    module.configure_model()
    return module, texts


@pytest.mark.parametrize("name", [pytest.param("single", marks=pytest.mark.slow), "pairs", "bag"])
def test_attacks_on_modules_fail_inside_the_radius(name: str) -> None:
    """The modules that users train, with their own embeddings and segment ids, in float64."""
    module, texts = lightning_module(name)
    labels = torch.tensor([0, 1, 1, 0])
    optimizer = torch.optim.Adam(module.parameters(), lr=0.03)
    batch = module.encode_texts(texts)
    for _ in range(60):
        head = module.head_weight()
        assert head is not None
        optimizer.zero_grad()
        loss = module.objective(module(batch), labels, head, progress=1.0).mean()
        loss.backward()  # type: ignore[no-untyped-call] # torch's
        optimizer.step()
    module.eval()
    certifier = Certifier(module)
    certificates = certifier(batch)
    assert torch.equal(certificates.prediction, labels)
    assert float(certificates.radius.min()) > 0.05
    x = module.embed(batch).detach().to(torch.float64)
    for factor, found in ((0.999, False), (30.0, True)):
        with module.frozen():
            _, flipped = PGD(steps=8, restarts=2)(
                certifier.classify,
                x,
                batch.mask,
                labels,
                epsilon=factor * certificates.radius,
                seeds=[0, 1, 2, 3],
            )
        assert bool(flipped.any()) is found


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "depth", "length"),
    [
        pytest.param("plain", 1, 2, marks=pytest.mark.slow),
        pytest.param("plain", 2, 5, marks=pytest.mark.slow),
        ("relu", 1, 5),
        pytest.param("relu", 2, 2, marks=pytest.mark.slow),
        ("offsets-clip", 1, 2),
        pytest.param("offsets-clip", 2, 5, marks=pytest.mark.slow),
        pytest.param("everything", 1, 5, marks=pytest.mark.slow),
        ("everything", 2, 2),
        ("distance", 1, 2),
        ("distance-kim", 1, 5),
    ],
)
def test_no_pair_moves_the_output_by_more_than_the_constant(
    name: str, depth: int, length: int
) -> None:
    """Weights and pairs are found by ascent on their ratio, beginning near the worst known."""
    toy = classifier(depth, **OPTIONS[name])
    encoder = olsa(toy).encoder
    size = 12
    x, move = torch.randn(2, size, length, 8, dtype=F64)
    signs = torch.tensor([(-1.0) ** i for i in range(length)], dtype=F64)
    x[: size // 2] = signs[:, None] * x[: size // 2, :1] + 0.05 * x[: size // 2]
    move[: size // 2] = move[: size // 2, :1] + 0.05 * move[: size // 2]
    far = torch.linspace(-8.0, 1.0, size, dtype=F64)
    mask = torch.ones(size, length, dtype=torch.bool)
    variables = [x, move, far]
    for variable in variables:
        variable.requires_grad_()
    weights = [p for n, p in encoder.named_parameters() if "alpha" not in n]
    optimizer = torch.optim.Adam([*variables, *weights], lr=0.03)
    ratios = []
    for step in range(61):
        step_length = far.clamp(-10.0, 1.0).exp()[:, None, None]
        other = x + step_length * move / move.norm(dim=(1, 2), keepdim=True)
        gap = (encoder(x, mask) - encoder(other, mask)).norm(dim=1)
        ratio = gap / (x - other).norm(dim=(1, 2))
        if step % 20 == 0:
            constant = certify(toy, Tokens(x.detach(), mask)).lipschitz
            ratios.append(float((ratio.detach() / constant).max()))
        optimizer.zero_grad()
        (-ratio.log().sum()).backward()
        optimizer.step()
    assert max(ratios) <= 1.0
    assert ratios[-1] > max(0.4, ratios[0])  # the ascent gets somewhere


@pytest.mark.parametrize("name", OPTIONS)
def test_tokens_stay_within_the_radius_that_is_followed(name: str) -> None:
    toy, batch = classifier(3, **OPTIONS[name]), tokens([6] * 40, outside=3.0)
    encoder = olsa(toy).encoder
    with torch.no_grad():
        x = project_to_ball(batch.x, RADIUS)
        radius = torch.full((40,), RADIUS, dtype=F64)
        lengths = batch.mask.sum(dim=1).to(F64)
        for block in encoder.blocks:
            assert isinstance(block, LipschitzBlock)
            attention = block.attention
            alpha_2 = attention.alpha_2(lengths, radius)
            assert torch.all(alpha_2 >= mixing_norm(radius / attention.alpha_1, lengths))
            if not getattr(attention, "offset_heads", 0):
                assert torch.all(attention.growth(lengths, radius) <= alpha_2)
            x, radius = block(x, batch.mask, radius)
            assert torch.all(x.norm(dim=-1) <= radius.unsqueeze(1) * (1 + 1e-12))


@pytest.mark.long
@pytest.mark.parametrize(
    ("heads", "offsets", "clip", "alpha_1", "reached"),
    [
        pytest.param(4, 0, None, 0.1, 0.9, marks=pytest.mark.long),  # sqrt(H)
        pytest.param(4, 2, 0.8, 0.1, 0.9, marks=pytest.mark.long),  # the clip
        pytest.param(4, 0, None, 10.0, 0.9, marks=pytest.mark.long),  # A
        (4, 2, None, 10.0, 0.8),  # sqrt(A^2 + p)
    ],
)
def test_growth_of_tokens_is_bounded_and_nearly_attained(
    heads: int, offsets: int, clip: float | None, alpha_1: float, reached: float
) -> None:
    """Lemma 4 against ascent on the longest output token; dropping a term of it would fail."""
    best = 0.0
    torch.manual_seed(0)
    layer = OneLipschitzSelfAttention(
        8, heads, initial_alpha_1=alpha_1, offset_heads=offsets, value_clip=clip
    ).double()
    x = torch.randn(1, 6, 8, dtype=F64, requires_grad=True)
    mask = torch.ones(1, 6, dtype=torch.bool)
    radius, lengths = torch.ones(1, dtype=F64), torch.full((1,), 6.0, dtype=F64)
    weights = [p for n, p in layer.named_parameters() if "alpha" not in n]
    optimizer = torch.optim.Adam([x, *weights], lr=0.05)
    for _ in range(100):
        out, _ = layer(project_to_ball(x, 1.0), mask, radius)
        longest = out.norm(dim=-1).amax() * layer.alpha_2(lengths, radius).detach()
        share = float(longest.detach() / layer.growth(lengths, radius).detach())
        assert share <= 1 + 1e-12
        best = max(best, share)
        optimizer.zero_grad()
        (-longest.log().sum()).backward()
        optimizer.step()
    assert best > reached


def reflection(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    gap = source - target
    return torch.eye(len(source), dtype=F64) - 2 * torch.outer(gap, gap) / gap.dot(gap)


def counterexample(
    tau: float, *, length: int = 2, angle: float = 0.02
) -> tuple[Toy, torch.Tensor, torch.Tensor]:
    """docs/certificates.md, "A counterexample", in the real layers: tokens of the unit ball.

    Returns a one-layer model whose alpha_2 is the paper's, the tokens, and a direction of unit
    length in which the output moves fast.
    """
    torch.manual_seed(0)
    toy = Toy(
        olsa_classifier(
            4,
            2,
            depth=1,
            heads=1,
            radius=1.0,
            layers=OLSALayers(initial_alpha_1=1 / tau, bound="paper"),
            head_bias=True,
        ).double()
    )
    move, aside, value, _ = torch.eye(4, dtype=F64)
    score = torch.tensor([1.0, -1.0, 0.0, 0.0], dtype=F64) / math.sqrt(2)
    attention = layer_of(toy)
    key_axis = math.cos(angle) * move + math.sin(angle) * aside
    attention.query_key.fix(torch.stack([reflection(move, score), reflection(key_axis, score)]))
    attention.value.fix(torch.eye(4, dtype=F64).unsqueeze(0))
    with torch.no_grad():
        attention.raw_score.copy_(-score.unsqueeze(0))
    token = math.sqrt(1 - 2e-3**2) * value + 1e-3 * aside
    others = length - 2
    x = torch.stack([token, -token] + [math.sqrt(1 - 1e-8) * aside] * others)
    shares = torch.tensor(
        [[4 + others / 2, math.sqrt(others / 2)], [math.sqrt(others / 2), 1.0]], dtype=F64
    )
    share = torch.linalg.eigh(shares).eigenvectors[:, -1].abs()
    pair, rest = share[0] / math.sqrt(2), share[1] / math.sqrt(max(others, 1))
    amounts = torch.stack([pair, pair] + [rest] * others)
    return toy, x.unsqueeze(0), (amounts[:, None] * move).unsqueeze(0)


def layer_of(toy: Toy) -> OneLipschitzSelfAttention:
    block = olsa(toy).encoder.blocks[0]
    assert isinstance(block, LipschitzBlock)
    assert isinstance(block.attention, OneLipschitzSelfAttention)
    return block.attention


@torch.no_grad()
@pytest.mark.parametrize(
    ("length", "tau", "angle", "violation"),
    [
        (2, 4.0, 0.02, 1.37),
        (2, 100.0, 0.02, 1.96),
        (2, 1000.0, 0.02, 1.99),
        (3, 100.0, 0.1, 1.40),
        (3, 1000.0, 0.02, 1.43),
        (4, 50.0, 0.2, 1.10),
        (4, 1000.0, 0.02, 1.14),
    ],
)
def test_layers_scaled_by_the_paper_are_not_one_lipschitz(
    length: int, tau: float, angle: float, violation: float
) -> None:
    toy, x, direction = counterexample(tau, length=length, angle=angle)
    assert float(direction.norm()) == pytest.approx(1.0)
    layer, mask, step = layer_of(toy), torch.ones(1, length, dtype=torch.bool), 1e-8
    assert float((x + step * direction).norm(dim=-1).max()) <= 1.0
    radius, lengths = torch.ones(1, dtype=F64), torch.full((1,), length, dtype=F64)
    gap = layer(x + step * direction, mask, radius)[0] - layer(x, mask, radius)[0]
    ratio = float(gap.norm()) / step
    assert ratio > violation  # the paper: at most 1
    paper = 1 + length * tau / 4
    if length == 2:
        assert ratio * paper == pytest.approx(math.sqrt(1 + tau**2), rel=1e-3)
    proven = attention_bound(layer.alpha_1, lengths, radius=radius, value_radius=radius)
    assert 0.9 * float(proven) < ratio * paper <= float(proven) or tau < 10


@torch.no_grad()
def test_a_radius_by_the_paper_is_wrong_and_a_sound_one_is_not() -> None:
    """The prediction changes inside the radius that follows from the paper's Theorem 4.1."""
    toy, x, direction = counterexample(100.0)
    network, mask, step = olsa(toy), torch.ones(1, 2, dtype=torch.bool), 1e-5
    moved = x + step * direction
    assert float(moved.norm(dim=-1).max()) <= 1.0
    start, end = network.encoder(x, mask)[0], network.encoder(moved, mask)[0]
    way = end - start
    assert float(way.norm()) > 1.1 * step  # half is residual, and still more than 1
    # A head that decides along the way, with its boundary just before the end.
    network.head.weight.copy_(torch.stack([-way, way]) / way.norm())
    boundary = start + 0.97 * way
    network.head.bias.copy_(-network.head.weight @ boundary)
    claimed = certify(toy, Tokens(x, mask), bound="paper")
    assert float(claimed.lipschitz) == pytest.approx(1.0)
    before, after = (int(network(z, mask).argmax()) for z in (x, moved))
    assert before != after
    assert float((moved - x).norm()) < 0.95 * float(claimed.radius)
    proven = certify(toy, Tokens(x, mask))
    assert 0 < float(proven.radius) < float((moved - x).norm())


def sound_over_paper(length: int) -> torch.Tensor:
    tau = torch.logspace(-5, 5, 4001, dtype=F64)
    radius, lengths = torch.ones_like(tau), torch.full_like(tau, length)
    sound = attention_bound(1 / tau, lengths, radius=radius, value_radius=radius)
    paper = attention_bound(1 / tau, lengths, radius=radius, value_radius=radius, bound="paper")
    return sound / paper


@pytest.mark.parametrize("length", [8, 9, 10, 16, 50, 128, 512, 4096])
def test_the_papers_formula_holds_from_eight_tokens_on(length: int) -> None:
    """By our proof and not by its own; unit norms and tokens in the ball."""
    assert float(sound_over_paper(length).max()) < 1.0


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6, 7])
def test_our_proof_says_nothing_of_the_papers_formula_for_fewer(length: int) -> None:
    assert float(sound_over_paper(length).max()) > 1.0


@pytest.mark.parametrize("name", OPTIONS)
def test_longer_weights_shrink_the_radius(name: str) -> None:
    """Each orthogonal layer for itself; and the head, which then gains nothing by it."""
    toy, batch = classifier(2, **OPTIONS[name]), tokens([4, 2, 3])
    before = certify(toy, batch)
    for layer in toy.network.modules():
        if isinstance(layer, OrthogonalLinear):
            weight = layer.weight().detach()
            layer.fix(weight * torch.linspace(1.01, 1.05, len(weight), dtype=F64)[:, None, None])
            assert torch.all(certify(toy, batch).lipschitz > before.lipschitz * 1.0005)
            layer.fix(weight)
    torch.testing.assert_close(certify(toy, batch).lipschitz, before.lipschitz)


def test_tied_l2_attention_by_each_bound() -> None:
    toy, batch = classifier(2, attention="l2"), tokens([5, 2, 4, 1])
    ours, theirs, printed = (certify(toy, batch, bound) for bound in BOUNDS_OF_L2)
    assert torch.allclose(ours.lipschitz, torch.ones(4, dtype=F64), atol=1e-6)
    assert torch.all(theirs.lipschitz[:3] > 1.05 * ours.lipschitz[:3])
    assert torch.all(printed.lipschitz > theirs.lipschitz * (1 + 1e-9))
    assert torch.equal(ours.prediction, theirs.prediction)
    with pytest.raises(ValueError, match="bound=kim for a network with additive attention as enc"):
        certify(classifier(1), batch, "kim")
    assert torch.all(certify(classifier(0), batch, "kim").radius > 0)  # a bag has any attention


BOUNDS_OF_L2: tuple[Bound, ...] = ("sound", "kim", "paper")


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(
    "alpha_1", [0.3, *(pytest.param(value, marks=pytest.mark.long) for value in (3.0, 30.0))]
)
def test_no_input_of_the_ball_exceeds_the_bound_of_l2_attention(size: int, alpha_1: float) -> None:
    """Theorem 3 against ascent on the Jacobian's norm, all tokens within the ball."""
    torch.manual_seed(0)
    attention = OneLipschitzL2Attention(size, 1, initial_alpha_1=alpha_1).double()
    x = torch.randn(8, 5, size, dtype=F64, requires_grad=True)
    mask, radius = torch.ones(1, 5, dtype=torch.bool), torch.full((1,), 2.0, dtype=F64)
    optimizer = torch.optim.Adam([x], lr=0.1)

    def norms() -> torch.Tensor:
        def one(tokens: torch.Tensor) -> torch.Tensor:
            mixed: torch.Tensor = attention(tokens[None], mask, radius)[0][0]
            return mixed.flatten()

        inside = project_to_ball(x, 2.0)
        rows = torch.func.vmap(torch.func.jacrev(one))(inside)
        found: torch.Tensor = torch.linalg.matrix_norm(rows.flatten(2), 2)
        return found

    best = 0.0
    for _ in range(40):
        found = norms()
        best = max(best, found.amax().item())
        optimizer.zero_grad()
        torch.autograd.backward(-found.sum())
        optimizer.step()
    assert 0.2 < best < 1


@pytest.mark.parametrize("which", ["value", "query", "key"])
def test_measured_norms_cover_longer_weights(which: str) -> None:
    """Weights three times too long: tokens leave the radius in use, pairs move three times more."""
    toy, batch = classifier(2, initial_alpha_1=0.3, offset_heads=1), tokens([4, 5, 2], seed=5)
    for block in olsa(toy).encoder.blocks:
        assert isinstance(block, LipschitzBlock)
        attention = block.attention
        assert isinstance(attention, OneLipschitzSelfAttention)
        if which == "value":
            attention.value.fix(3 * attention.value.weight().detach())
        else:
            factors = torch.tensor([3.0, 1.0] if which == "query" else [1.0, 3.0], dtype=F64)
            attention.query_key.fix(attention.query_key.weight().detach() * factors[:, None, None])
    toy.network.requires_grad_(requires_grad=False)
    certificates = certify(toy, batch)
    _, flipped = PGD(steps=10, restarts=2)(
        toy.network,
        batch.x,
        batch.mask,
        certificates.prediction,
        epsilon=0.999 * certificates.radius,
        seeds=[0, 1, 2],
    )
    assert not bool(flipped.any())
    same = (batch.x[:, :1] * 0.01).expand_as(batch.x)
    moved = same + 1e-3 * torch.randn(1, 1, 8, dtype=F64)
    gap = olsa(toy).encoder(same, batch.mask) - olsa(toy).encoder(moved, batch.mask)
    distance = ((same - moved) * batch.mask.unsqueeze(-1)).norm(dim=(1, 2))
    assert torch.all(gap.norm(dim=1) <= certificates.lipschitz * distance)
