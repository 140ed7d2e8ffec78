"""ASCC and DNE against brute force, plain loops and closed forms."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from attacks.set_names import is_file
from layers.noise import log_gamma, sample_seeds
from lit_modules import FineTuning, TaskModule, TextClassifier
from lit_modules.adversaries import ASCC, DNE, InnerProblem
from lit_modules.adversaries.hull import HullAdversary
from tests.unit.lit_modules.adversaries.films import LISTS, World
from tests.unit.lit_modules.adversaries.test_space import gradients
from tests.unit.lit_modules.builders import attached, make
from text import Text

IDS = [0, 3, 8, 13]
BOTH: list[Callable[[str], HullAdversary]] = [
    lambda sets: ASCC(sets=sets, steps=4),
    lambda sets: DNE(sets=sets, clean_weight=0.5),
]


@pytest.fixture
def lists(tmp_path: Path) -> str:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(LISTS | {"story": ["story line", "plot"], "missing": ["film"]}))
    assert is_file(str(path))
    return str(path)


@pytest.fixture
def world() -> World:
    world = World()
    world.classifier.eval()
    return world


def names(world: World, adversary: HullAdversary, word: str) -> list[tuple[str, int]]:
    """The corners of a word of the vocabulary, with their orders."""
    tokens = world.classifier.require_tokenizer().vocabulary.get_itos()  # type: ignore[attr-defined] # of words
    hull = adversary._hull
    assert hull is not None
    row, orders = hull.ids[tokens.index(word)], hull.orders[tokens.index(word)]
    return [(tokens[int(i)], int(n)) for i, n in zip(row, orders, strict=True) if n]


def test_corners_are_the_listed_words_of_the_vocabulary(world: World, lists: str) -> None:
    first = world.started(ASCC(sets=lists))
    assert isinstance(first, ASCC)
    assert names(world, first, "good") == [("good", 1), ("fine", 1), ("solid", 1)]
    assert names(world, first, "story") == [("story", 1), ("plot", 1)]
    assert names(world, first, "a") == [("a", 1)]
    second = world.started(DNE(sets=lists))
    assert isinstance(second, DNE)
    # "dull" is a synonym of "fine"; it is no corner twice, and "good" is none of its own.
    assert names(world, second, "good") == [("good", 1), ("fine", 1), ("solid", 1), ("dull", 2)]
    few = world.started(DNE(sets=lists, candidates=1, decay=0))
    assert isinstance(few, DNE)
    assert names(world, few, "good") == [("good", 1), ("fine", 1)]


def test_corners_are_embedded_words(world: World, lists: str) -> None:
    adversary = world.started(ASCC(sets=lists))
    assert isinstance(adversary, ASCC)
    problem = world.problem(IDS)
    corners = adversary.corners(problem)
    module, tokens = world.classifier, world.classifier.require_tokenizer().vocabulary.get_itos()  # type: ignore[attr-defined] # of words
    torch.testing.assert_close(corners.x[:, :, 0], module.embed(problem.batch))
    for row, column in product(range(4), range(problem.mask.shape[1])):
        word = tokens[int(problem.batch.input_ids[row, column])]
        real = bool(problem.mask[row, column])
        wanted = [tokens.index(other) for other, _ in names(world, adversary, word)] if real else []
        ids = problem.batch.input_ids.clone()
        assert int((corners.orders[row, column] > 0).sum()) == max(1, len(wanted))
        for number, index in enumerate(wanted):
            ids[row, column] = index
            x = module.embed(replace(problem.batch, input_ids=ids))[row, column]
            torch.testing.assert_close(corners.x[row, column, number], x)


def value_at(problem: InnerProblem, ids: Tensor, clean: Tensor) -> Tensor:
    module = problem.classifier
    other = module.classify(module.embed(replace(problem.batch, input_ids=ids)), problem.mask)
    p, q = clean.log_softmax(dim=1), other.log_softmax(dim=1)
    return (p.exp() * (p - q)).sum(dim=1)


def test_ascc_finds_the_worst_words(world: World, lists: str) -> None:
    """Of a convex function of the hull, the worst point is a corner: found by trying them all."""
    linear = attached(
        lambda: make(TextClassifier, encoder="mean", width=8, heads=2, loss="cross_entropy"),
        classes=2,
    )
    linear.tokenizer = None
    fresh: Any = make(TextClassifier, encoder="mean", width=8, heads=2, loss="cross_entropy")
    torch.manual_seed(3)
    tokenizer = world.classifier.require_tokenizer()
    fresh.attach(tokenizer, ["bad", "good"])
    fresh.configure_model()
    world.classifier = fresh.eval()
    adversary = world.started(ASCC(sets=lists, sparsity=0, steps=10))
    assert isinstance(adversary, ASCC)
    problem = world.problem(IDS)
    clean = fresh(problem.batch).detach()
    corners = adversary.corners(problem)
    weights = adversary._weights(problem, clean)
    assert weights.amax(dim=-1).min() > 0.99
    perturbed = fresh.classify(corners.point(weights), problem.mask)
    p, q = clean.log_softmax(dim=1), perturbed.log_softmax(dim=1)
    found = (p.exp() * (p - q)).sum(dim=1)
    hull = adversary._hull
    assert hull is not None
    for row in range(4):
        best = torch.tensor(0.0)
        ids = problem.batch.input_ids
        choices = [
            hull.ids[i][hull.orders[i] > 0].tolist() if real else [int(i)]
            for i, real in zip(ids[row], problem.mask[row], strict=True)
        ]
        for choice in product(*choices):
            changed = ids.clone()
            changed[row] = torch.tensor(choice)
            best = torch.maximum(best, value_at(problem, changed, clean)[row])
        # The divergence has two maxima, one for each class; ascent may end in the smaller.
        assert found[row] <= best * 1.001
        assert found[row] > 0.5 * best


def test_the_entropy_of_a_text_decides_against_15(world: World, lists: str) -> None:
    """The released weight, taken for each text, leaves the divergence no say."""
    found = {}
    for sparsity in (0.25, 15.0):
        adversary = world.started(ASCC(sets=lists, sparsity=sparsity))
        found[sparsity] = adversary.step(world.problem(list(range(24)))).values["divergence"]
    assert found[15.0] < 0.8 * found[0.25]


def test_weights_are_sparse(world: World, lists: str) -> None:
    entropy = {}
    for sparsity in (0.0, 2.0):
        adversary = world.started(ASCC(sets=lists, sparsity=sparsity, steps=2, step_size=0.3))
        assert isinstance(adversary, ASCC)
        problem = world.problem(IDS)
        weights = adversary._weights(problem, world.classifier(problem.batch).detach())
        entropy[sparsity] = torch.special.entr(weights).sum().item()
    assert entropy[2.0] < entropy[0.0] - 0.01


def test_ascc_is_adam_on_its_objective(world: World, lists: str) -> None:
    """The steps of torch's Adam, and the loss, written out."""
    adversary = world.started(ASCC(sets=lists, steps=3, step_size=0.5, adversarial_weight=0.3))
    assert isinstance(adversary, ASCC)
    module, problem = world.classifier, world.problem(IDS)
    clean = module(problem.batch).detach()
    corners, mask = adversary.corners(problem), problem.mask
    start = adversary.width
    from layers.noise import normal

    z = 0.1 * normal(problem.seeds, torch.zeros(*mask.shape, start))
    z = z[..., : corners.orders.shape[-1]].requires_grad_()
    adam = torch.optim.Adam([z], lr=0.5, maximize=True)
    open_ = corners.orders > 0
    for _ in range(3):
        adam.zero_grad()
        w = torch.where(open_, z, -torch.inf).softmax(dim=-1)
        logits = module.classify((w.unsqueeze(-1) * corners.x.detach()).sum(dim=2), mask)
        entropy = torch.special.entr(w.clamp_min(1e-30)).sum(dim=2)
        p = clean.log_softmax(dim=1)
        objective = functional.kl_div(
            logits.log_softmax(dim=1), p, log_target=True, reduction="sum"
        ) - 0.25 * sum((entropy[row][mask[row]]).mean() for row in range(4))
        objective.backward()
        adam.step()
    w = torch.where(open_, z.detach(), -torch.inf).softmax(dim=-1)
    torch.testing.assert_close(adversary._weights(problem, clean), w, rtol=1e-3, atol=1e-5)
    got = adversary.step(world.problem(IDS)).loss
    clean = module(problem.batch)
    perturbed = module.classify((w.unsqueeze(-1) * corners.x).sum(dim=2), mask)
    q, p = perturbed.log_softmax(dim=1), clean.log_softmax(dim=1)
    moved = functional.kl_div(q, p, log_target=True, reduction="batchmean")
    wanted = functional.cross_entropy(clean, problem.labels) + 4 * moved
    wanted = wanted + 0.3 * functional.cross_entropy(perturbed, problem.labels)
    assert got.item() == pytest.approx(wanted.item(), rel=1e-4)
    first, second = gradients(module, got), gradients(module, wanted)
    for name, gradient in second.items():
        torch.testing.assert_close(first[name], gradient, rtol=1e-2, atol=1e-4)


def test_dne_against_a_plain_loop(world: World, lists: str) -> None:
    adversary = world.started(DNE(sets=lists, steps=2, step_size=3.0, clean_weight=0.5, alpha=0.7))
    assert isinstance(adversary, DNE)
    module, problem = world.classifier, world.problem(IDS)
    corners = adversary.corners(problem)
    shape = (*problem.mask.shape, adversary.width)
    concentration = torch.full(shape, 0.7)
    concentration[adversary._hull.orders[problem.batch.input_ids] == 2] = 0.35  # type: ignore[union-attr] # started
    logs = log_gamma(problem.seeds, torch.zeros(shape), concentration)
    size, open_ = corners.orders.shape[-1], corners.orders > 0
    logs = logs[..., :size].masked_fill(~open_, -torch.inf)
    z = torch.where(open_, logs.log_softmax(dim=-1).clamp_min(-13.8155), -torch.inf)
    total = 0.5 * functional.cross_entropy(module(problem.batch), problem.labels)
    for number in range(3):
        z = z.detach().requires_grad_()
        x = (z.softmax(dim=-1).unsqueeze(-1) * adversary.corners(problem).x).sum(dim=2)
        loss = functional.cross_entropy(module.classify(x, problem.mask), problem.labels)
        total = total + loss / (2 if number else 1)
        (g,) = torch.autograd.grad(loss, z, retain_graph=True)
        norms = g.norm(dim=-1, keepdim=True)
        z = z + 3.0 * torch.where(norms > 0, g / norms, 0)
    result = adversary.step(world.problem(IDS))
    assert result.loss.item() == pytest.approx(total.item(), rel=1e-4)
    first, second = gradients(module, result.loss), gradients(module, total)
    for name, gradient in second.items():
        torch.testing.assert_close(first[name], gradient, rtol=1e-2, atol=1e-4)


def test_drawn_weights_are_dirichlet(world: World, lists: str) -> None:
    """Means and variances of the weights of "good": concentrations 2, 2, 2 and 1."""
    adversary = world.started(DNE(sets=lists, alpha=2.0))
    assert isinstance(adversary, DNE)
    problem = world.problem([1])
    batch = world.classifier.encode_texts(["good " * 50] * 80)
    problem.batch = batch
    problem.seeds = sample_seeds(torch.arange(80), seed=0, epoch=0)
    corners = adversary.corners(problem)
    weights = corners.weigh(adversary._draw(problem, corners)).flatten(0, 1)
    means = torch.tensor([2.0, 2, 2, 1]) / 7
    torch.testing.assert_close(weights.mean(dim=0), means, atol=0.01, rtol=0)
    torch.testing.assert_close(weights.var(dim=0), means * (1 - means) / 8, atol=0.003, rtol=0)


@pytest.mark.parametrize("build", BOTH)
def test_a_text_does_not_depend_on_its_batch(
    world: World, lists: str, build: Callable[[str], HullAdversary]
) -> None:
    adversary = world.started(build(lists))
    total = gradients(world.classifier, adversary.step(world.problem(IDS)).loss)
    parts = [gradients(world.classifier, adversary.step(world.problem([i])).loss) for i in IDS]
    for name, expected in total.items():
        mean = sum(part[name] for part in parts) / len(parts)
        torch.testing.assert_close(torch.as_tensor(mean), expected, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("build", BOTH)
def test_modes_and_logs(world: World, lists: str, build: Callable[[str], HullAdversary]) -> None:
    adversary = world.started(build(lists))
    world.classifier.train()
    result = adversary.step(world.problem(IDS))
    assert {"clean_loss", "adversarial_loss", "accuracy"} <= result.values.keys()
    module = world.classifier
    assert all(p.requires_grad for p in module.parameters())
    assert module.training
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = adversary.step(world.problem(IDS, logs=False))
    assert not half.values
    found = gradients(module, half.loss)
    assert found.keys() == {name for name, p in module.named_parameters() if p.requires_grad}
    assert all(torch.isfinite(gradient).all() for gradient in found.values())


@pytest.mark.parametrize("build", BOTH)
def test_scaled_losses_change_nothing(
    world: World, lists: str, build: Callable[[str], HullAdversary]
) -> None:
    adversary = world.started(build(lists))
    plain = gradients(world.classifier, adversary.step(world.problem(IDS)).loss)
    problem = world.problem(IDS)
    problem.scale = 1024.0
    scaled = gradients(world.classifier, adversary.step(problem).loss)
    for name, gradient in plain.items():
        torch.testing.assert_close(scaled[name], gradient, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("build", BOTH)
def test_a_gradient_that_overflows_is_no_step(
    world: World, lists: str, build: Callable[[str], HullAdversary]
) -> None:
    adversary = world.started(build(lists))
    problem = world.problem(IDS)
    problem.scale = torch.inf
    assert adversary.step(problem).loss.isfinite()


def pretrained(folder: str) -> TaskModule:
    return attached(lambda: make(FineTuning, pretrained=folder, max_length=40), classes=2)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_whole_words_of_pieces(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    module = pretrained(request.getfixturevalue(kind))
    world = World()
    world.classifier = module  # type: ignore[assignment] # another classifier
    path = tmp_path / "pieces.json"
    path.write_text(json.dumps({"good": ["bad", "goodness"], "film": ["it"]}))
    adversary = world.started(ASCC(sets=str(path)))
    assert isinstance(adversary, ASCC)
    batch = module.encode_texts(["a good film"])
    batch.labels = torch.tensor([0])
    problem = world.problem([1])
    problem.batch, problem.labels = batch, batch.labels
    corners = adversary.corners(problem)
    assert (corners.orders > 0).sum(dim=2).tolist() == [[1, 1, 2, 2, 1]]
    other = module.embed(module.encode_texts(["a bad it"]))
    torch.testing.assert_close(corners.x[0, 2:4, 1], other[0, 2:4])


@pytest.mark.long
def test_words_of_several_pieces_stay(minilm: str, tmp_path: Path) -> None:
    module = pretrained(minilm)
    tokenizer: Any = module.require_tokenizer()
    words, continued = tokenizer.whole_words(), tokenizer.continuations()
    assert {"play", "good"} <= words.keys()
    (pieces,) = tokenizer.pieces(["goodish, good"])
    assert len(pieces) == 4
    assert pieces[0] == pieces[3] == words["good"]
    assert pieces[1] in continued
    assert pieces[2] not in continued
    world = World()
    world.classifier = module  # type: ignore[assignment] # another classifier
    path = tmp_path / "pieces.json"
    path.write_text(json.dumps({"good": ["fine"]}))
    adversary = world.started(DNE(sets=str(path)))
    assert isinstance(adversary, DNE)
    problem = world.problem([1])
    problem.batch = module.encode_texts(["goodish, good", "good"])
    corners = adversary.corners(problem)
    assert (corners.orders > 0).sum(dim=2).tolist() == [[1, 1, 1, 1, 2, 1], [1, 2, 1, 1, 1, 1]]


def test_the_vocabulary_may_be_extended(lists: str) -> None:
    texts: list[Text] = ["a good film", ("fine", "a plot")]
    assert ASCC(sets=lists).more_texts(texts) == []
    wanted = ["dull", "film", "fine", "good", "movie", "plot", "solid", "story"]
    assert ASCC(sets=lists, extend_vocabulary=True).more_texts(texts) == wanted


def test_lists_that_say_nothing(tmp_path: Path, world: World) -> None:
    path = tmp_path / "none.json"
    path.write_text(json.dumps({"house": ["home"]}))
    with pytest.raises(ValueError, match=r"list no other word of the vocabulary .*extend_voc"):
        world.started(ASCC(sets=str(path)))
    with pytest.raises(ValueError, match=r"got .*nothing\.json"):
        ASCC(sets=str(tmp_path / "nothing.json")).start(world.module())


@pytest.mark.parametrize(
    ("make_one", "part"),
    [
        (lambda: ASCC(steps=0), "steps"),
        (lambda: ASCC(clean_weight=0), "clean_weight"),
        (lambda: ASCC(sparsity=-1), "sparsity"),
        (lambda: ASCC(candidates=0), "candidates"),
        (lambda: ASCC(sets="wrodnet"), "wrodnet"),
        (lambda: DNE(alpha=0), "alpha"),
        (lambda: DNE(decay=2), "decay"),
        (lambda: DNE(steps=-1), "steps"),
    ],
)
def test_settings_out_of_range(make_one: Callable[[], Any], part: str) -> None:
    with pytest.raises(ValueError, match=f"got .*{part}.*expected"):
        make_one()
