"""AMDA and MRAT against formulas written out text by text."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor, nn
from torch.nn import functional

from attacks.recipe_settings import RecipeSettings
from layers.noise import sample_seeds
from layers.transformer import TransformerClassifier
from lit_modules import FineTuning, TaskModule, TextClassifier
from lit_modules.adversaries import AMDA, MRAT, EpochTextAdversary
from lit_modules.adversaries.epoch_text import AdversarialText, Pool
from lit_modules.adversaries.mixing import (
    TextRows,
    adversarial_seeds,
    draw_partners,
    draw_shares,
    mix,
)
from lit_modules.adversaries.mrat import jensen_shannon
from lit_modules.adversaries.representations import (
    changed_sentences,
    find_head,
    find_layers,
    mixed_tokens,
)
from tests.unit.layers.small_encoders import EVERY_KIND
from tests.unit.lit_modules.adversaries.films import BAD, GOOD, THINGS, World, made
from tests.unit.lit_modules.builders import METHODS, SINGLE, attached, make

IDS = [0, 3, 8, 13]
LETTERS = RecipeSettings(recipe="deepwordbug")
TEXTS = {3: "a good plto", 8: "a bda film and it was", 13: "gerat"}
"""Adversarial texts, by the sample that they are made of."""


@pytest.fixture
def world() -> World:
    world = World()
    world.classifier.eval().double()
    return world


def with_pool(adversary: EpochTextAdversary, world: World, hosts: Sequence[int]) -> Any:
    """The adversary in an epoch whose texts join the batches of some samples."""
    rows = [AdversarialText(source, text) for source, text in TEXTS.items()]
    share = len(rows) / len(world.samples)
    adversary._pool = Pool(epoch=world.epoch, share=share, rows=dict(zip(hosts, rows, strict=True)))
    return adversary


def seeds_of(world: World, ids: Sequence[int]) -> Tensor:
    return sample_seeds(torch.tensor(ids), seed=world.seed, epoch=world.epoch)


def alone(module: TaskModule, text: str) -> Tensor:
    """`[n, d]`: the embedded words of a text."""
    return module.embed(module.encode_texts([text]))[0]


def padded(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Both with zeros to the length of the longer."""
    length = max(len(first), len(second))
    one, other = (functional.pad(x, (0, 0, 0, length - len(x))) for x in (first, second))
    return one, other


def losses_of_mixtures(
    world: World, texts: Sequence[str], labels: Sequence[int], seeds: Tensor, alpha: float
) -> list[Tensor]:
    """Pairs of texts, one after the other, mixed among their embedded words."""
    module, found = world.classifier, []
    partners, shares = draw_partners(seeds).tolist(), draw_shares(seeds, alpha).flatten().tolist()
    for row, (partner, share) in enumerate(zip(partners, shares, strict=True)):
        first, second = padded(alone(module, texts[row]), alone(module, texts[partner]))
        x = share * first + (1 - share) * second
        logits = module.classify(x.unsqueeze(0), torch.ones(1, len(x), dtype=torch.bool))
        logs = logits.log_softmax(dim=1)[0]
        found.append(-share * logs[labels[row]] - (1 - share) * logs[labels[partner]])
    return found


def test_shares_have_their_distribution_and_belong_to_their_seeds() -> None:
    seeds = sample_seeds(torch.arange(20_000), seed=0, epoch=0)
    for alpha in (0.4, 1.0, 2.0):
        share = draw_shares(seeds, alpha)
        assert share.shape == (20_000, 1)
        assert share.mean().item() == pytest.approx(0.5, abs=0.01)
        assert share.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), abs=0.005)
        assert torch.equal(draw_shares(seeds[5:9], alpha), share[5:9])


def test_partners_are_a_permutation_that_follows_the_rows() -> None:
    seeds = sample_seeds(torch.arange(9), seed=1, epoch=2)
    partners = draw_partners(seeds)
    assert sorted(partners.tolist()) == list(range(9))
    assert partners.tolist() != list(range(9))
    order = torch.tensor([4, 0, 8, 1, 3, 2, 7, 6, 5])
    assert torch.equal(seeds[order][draw_partners(seeds[order])], seeds[partners][order])


def test_joined_rows_are_padded_with_nothing() -> None:
    mask, numbers = torch.tensor([[1, 1, 0], [1, 1, 1]]).bool(), torch.tensor([0, 1])
    first = TextRows.of(torch.ones(2, 3, 4), mask, numbers, numbers)
    assert first.x[0, 2].abs().sum() == 0
    one = torch.ones(1, 5).bool()
    both = first.join(TextRows.of(torch.ones(1, 5, 4), one, numbers[1:], numbers[1:]))
    assert both.mask.sum(dim=1).tolist() == [2, 3, 5]
    assert both.x.sum(dim=(1, 2)).tolist() == [8, 12, 20]
    assert both.labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_amda_mixes_embedded_words(world: World, weight: float) -> None:
    adversary = AMDA(attack=LETTERS, alpha=0.7, weight=weight, mixed_weight=0.8)
    hosts = [0, 8, 20]  # the last one is not in the batch
    result = with_pool(adversary, world, hosts).step(world.problem(IDS))

    module = world.classifier
    joined = [3, 8]  # the sources of the texts that join
    texts = [str(world.samples[i].text) for i in IDS] + [TEXTS[i] for i in joined]
    labels = [world.samples[i].label for i in (*IDS, *joined)]
    seeds = torch.cat([seeds_of(world, IDS), adversarial_seeds(seeds_of(world, joined))])
    logits = torch.cat([module(module.encode_texts([text])) for text in texts])
    plain = functional.cross_entropy(logits, torch.tensor(labels), reduction="none")
    mixed = losses_of_mixtures(world, texts, labels, seeds, 0.7)
    total = plain[:4].sum() + weight * plain[4:].sum() + 0.8 * sum(mixed)
    expected = total / (4 * (1 + 3 / len(world.samples)))
    torch.testing.assert_close(result.loss, torch.as_tensor(expected), rtol=1e-6, atol=0)
    got = torch.autograd.grad(result.loss, list(module.parameters()))
    wanted = torch.autograd.grad(torch.as_tensor(expected), list(module.parameters()))
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)
    assert {"clean_loss", "mixed_loss", "accuracy"} <= result.values.keys()
    assert result.values["clean_loss"].item() == pytest.approx(plain[:4].mean().item())
    part, share = result.ratios["adversarial_loss"]
    assert (part / share).item() == pytest.approx(plain[4:].mean().item())
    assert not adversary.step(world.problem(IDS, logs=False)).values


def test_amda_without_adversarial_texts_mixes_clean_ones(world: World) -> None:
    loss = AMDA(attack=LETTERS, mixed_weight=0).step(world.problem(IDS)).loss
    problem = world.problem(IDS)
    torch.testing.assert_close(loss, problem.loss(problem.clean_logits()))
    mixed = AMDA(attack=LETTERS).step(world.problem(IDS)).values["mixed_loss"]
    texts = [str(world.samples[i].text) for i in IDS]
    labels = [world.samples[i].label for i in IDS]
    wanted = losses_of_mixtures(world, texts, labels, seeds_of(world, IDS), 0.4)
    assert mixed.item() == pytest.approx(torch.stack(wanted).mean().item(), rel=1e-6)


def rows_of(module: TaskModule) -> TextRows:
    batch = module.encode_texts(SINGLE)
    seeds = sample_seeds(torch.arange(len(SINGLE)), seed=4, epoch=0)
    labels = torch.arange(len(SINGLE)) % 3
    return TextRows.of(module.embed(batch), batch.mask, labels, seeds)


def transformer_after(module: TaskModule, x: Tensor, mask: Tensor, start: int) -> Tensor:
    """Logits of tokens `[1, N, d]` that go through the blocks from one on."""
    network = module.network
    assert isinstance(network, TransformerClassifier)
    for block in network.blocks[start:]:
        x = block(x, mask)
    pooled = network.norm(x)[mask].mean(dim=0)
    logits: Tensor = network.head(pooled)
    return logits


def bert_after(module: TaskModule, x: Tensor, mask: Tensor, start: int) -> Tensor:
    network: Any = module.network
    for layer in network.backbone.encoder.encoder.layer[start:]:
        x = layer(x, torch.zeros(1, 1, 1, x.shape[1], dtype=x.dtype))
    assert mask.all()
    pooled = x[0, 0] if network.head.pooling == "first" else x[0].mean(dim=0)
    logits: Tensor = network.projection(network.classifier(pooled).tanh())
    return logits


def fine_tuning(folder: str, **settings: Any) -> TaskModule:
    return attached(lambda: make(FineTuning, pretrained=folder, max_length=40, **settings))


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", ["transformer", "first", "mean"])
def test_tokens_are_mixed_after_a_layer(kind: str, number: int, bert: str) -> None:
    """As if each pair were alone: until the layer, no text sees the places of the other."""
    own = kind == "transformer"
    module = attached(METHODS["transformer"]) if own else fine_tuning(bert, pooling=kind)
    module.double()
    after = transformer_after if own else bert_after
    rows = rows_of(module)
    partners, share = draw_partners(rows.seeds), draw_shares(rows.seeds, 0.8)
    adversary = AMDA(attack=LETTERS, layers=[number])
    logits, mixed = adversary._logits(module, rows, partners, share)
    batch = module.encode_texts(SINGLE)
    torch.testing.assert_close(logits, module.classify(module.embed(batch), batch.mask))
    hidden = []
    for text in SINGLE:
        one = module.encode_texts([text])
        states = (
            module.network.hidden_states(module.embed(one), one.mask)[number]
            if isinstance(module.network, TransformerClassifier)
            else module.activations(one)[number - 1]
        )
        hidden.append(states[0])
    for row in range(len(SINGLE)):
        first, second = padded(hidden[row], hidden[int(partners[row])])
        x = (share[row] * first + (1 - share[row]) * second).unsqueeze(0)
        wanted = after(module, x, torch.ones(1, x.shape[1], dtype=torch.bool), number)
        torch.testing.assert_close(mixed[row], wanted, rtol=1e-5, atol=1e-7)
    if own:  # transformers has hooks of its own
        assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_ends_of_a_mixture_are_texts(number: int) -> None:
    """With the mask of the first text, as released, the second one would lose its end."""
    module = attached(METHODS["transformer"]).double()
    rows = rows_of(module)
    order = rows.mask.sum(dim=1).argsort(descending=True)
    rows = TextRows(*(part[order] for part in rows))
    partners = torch.tensor([0, *range(len(SINGLE) - 1)])  # none is shorter
    adversary = AMDA(attack=LETTERS, layers=[number])
    logits, mixed = adversary._logits(module, rows, partners, torch.zeros(len(SINGLE), 1))
    torch.testing.assert_close(mixed, logits[partners])
    if number == 0:
        cut = module.classify(rows.x[partners], rows.mask)
        assert not torch.allclose(cut[1:3], logits[partners][1:3], atol=1e-3)
    logits, mixed = adversary._logits(module, rows, order.argsort(), torch.ones(len(SINGLE), 1))
    same = rows.mask.sum(dim=1) >= rows.mask[order.argsort()].sum(dim=1)
    torch.testing.assert_close(mixed[same], logits[same])


def test_one_of_the_layers_in_each_step() -> None:
    module = attached(METHODS["transformer"])
    adversary = AMDA(attack=LETTERS, layers=[0, 2])
    kinds = set()
    for epoch in range(8):
        seeds = sample_seeds(torch.arange(len(SINGLE)), seed=0, epoch=epoch)
        rows = rows_of(module)._replace(seeds=seeds)
        partners, share = draw_partners(seeds), draw_shares(seeds, 1.0)
        got = adversary._logits(module, rows, partners, share)[1]
        singles = [AMDA(attack=LETTERS, layers=[layer]) for layer in (0, 2)]
        each = [one._logits(module, rows, partners, share)[1] for one in singles]
        kinds.add([torch.equal(got, one) for one in each].index(True))
    assert kinds == {0, 1}


@pytest.mark.parametrize("kind", ["transformer", "olsa", "first", "mean"])
def test_sentences_are_mixed_before_the_head(kind: str, bert: str) -> None:
    ours = kind in METHODS and kind != "mean"
    module = attached(METHODS[kind]) if ours else fine_tuning(bert, pooling=kind)
    rows = rows_of(module)
    partners, share = draw_partners(rows.seeds), draw_shares(rows.seeds, 0.8)
    logits, mixed = AMDA(attack=LETTERS, place="smix")._logits(module, rows, partners, share)
    torch.testing.assert_close(logits, module.classify(rows.x, rows.mask))
    if ours:  # linear, up to the bias, which both have
        wanted = share * logits + (1 - share) * logits[partners]
    else:
        network: Any = module.network
        hidden = network.backbone(rows.x, rows.mask)
        real = rows.mask.unsqueeze(-1).float()
        means = (hidden * real).sum(dim=1) / real.sum(dim=1)
        pooled = hidden[:, 0] if kind == "first" else means
        blend = share * pooled + (1 - share) * pooled[partners]
        wanted = network.projection(network.classifier(blend).tanh())
    torch.testing.assert_close(mixed, wanted, rtol=1e-4, atol=1e-6)


def test_divergence_against_scipy_and_finite_differences() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(6, 4).double(), torch.randn(6, 4).double()
    first[0] = second[0]
    got = jensen_shannon(first, second)
    pairs = zip(first.softmax(dim=1).numpy(), second.softmax(dim=1).numpy(), strict=True)
    wanted = [jensenshannon(p, q) ** 2 for p, q in pairs]
    torch.testing.assert_close(got, torch.tensor(wanted), rtol=1e-6, atol=1e-12)
    assert jensen_shannon(torch.tensor([[900.0, 0]]), torch.tensor([[0, 900.0]])).item() == (
        pytest.approx(log(2))
    )
    inputs = (first[1:].requires_grad_(), second[1:].requires_grad_())
    assert torch.autograd.gradcheck(jensen_shannon, inputs)


@pytest.mark.parametrize("plus", [False, True])
def test_mrat(world: World, plus: bool) -> None:
    adversary = MRAT(attack=LETTERS, plus=plus, weight=5.0, alpha=0.6)
    result = with_pool(adversary, world, list(TEXTS)).step(world.problem(IDS))
    module = world.classifier
    network = module.network
    assert isinstance(network, TransformerClassifier)

    def sentence(text: str) -> Tensor:
        x = network.norm(network.hidden_states(*embedded(module, text))[-1])
        mean: Tensor = x[0].mean(dim=0)
        return mean

    texts = {i: sentence(str(world.samples[i].text)) for i in IDS}
    total = torch.zeros(())
    for i in IDS:
        logs = network.head(texts[i]).log_softmax(dim=0)
        total = total - logs[world.samples[i].label]
    divergences = torch.zeros(())
    for i, text in TEXTS.items():
        share = draw_shares(adversarial_seeds(seeds_of(world, [i])), 0.6).item()
        between = network.head(share * texts[i] + (1 - share) * sentence(text)).softmax(dim=0)
        clean = network.head(texts[i]).softmax(dim=0)
        middle = (clean + between) / 2
        for p in (clean, between):
            divergences = divergences + (p * (p / middle).log()).sum() / 2
    total = total + 5 * divergences
    if plus:
        seeds = seeds_of(world, IDS)
        shares, partners = draw_shares(seeds, 0.6).flatten(), draw_partners(seeds)
        for row, i in enumerate(IDS):
            other = IDS[int(partners[row])]
            logits = network.head(shares[row] * texts[i] + (1 - shares[row]) * texts[other])
            logs = logits.log_softmax(dim=0)
            total = total - shares[row] * logs[world.samples[i].label]
            total = total - (1 - shares[row]) * logs[world.samples[other].label]
    torch.testing.assert_close(result.loss, (total / 4).to(result.loss.dtype), rtol=1e-5, atol=0)
    got = torch.autograd.grad(result.loss, list(module.parameters()))
    wanted = torch.autograd.grad(total / 4, list(module.parameters()))
    for one, expected in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-7)
    part, rate = result.ratios["divergence"]
    assert rate.item() == pytest.approx(3 / 4)
    assert (part / rate).item() == pytest.approx(divergences.item() / 3, rel=1e-5)
    assert ("mixed_loss" in result.values) == plus


def embedded(module: TaskModule, text: str) -> tuple[Tensor, Tensor]:
    batch = module.encode_texts([text])
    return module.embed(batch), batch.mask


def test_mrat_without_adversarial_texts_is_plain_training(world: World) -> None:
    problem = world.problem(IDS)
    result = MRAT(attack=LETTERS).step(problem)
    torch.testing.assert_close(result.loss, problem.loss(problem.clean_logits()))


@pytest.mark.parametrize(
    "make_one",
    [
        lambda: AMDA(attack=LETTERS),
        lambda: AMDA(attack=LETTERS, place="smix"),
        lambda: AMDA(attack=LETTERS, layers=[1]),
        lambda: MRAT(attack=LETTERS, plus=True),
    ],
)
def test_more_padding_changes_nothing(world: World, make_one: Callable[[], Any]) -> None:
    hosts = list(TEXTS)
    narrow = with_pool(make_one(), world, hosts).step(world.problem(IDS)).loss
    problem = world.problem(IDS)
    batch = problem.batch
    problem.batch = replace(
        batch,
        input_ids=functional.pad(batch.input_ids, (0, 7)),
        mask=functional.pad(batch.mask, (0, 7)),
    )
    wide = with_pool(make_one(), world, hosts).step(problem).loss
    torch.testing.assert_close(narrow, wide, rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_texts_are_kept_or_dropped(folder: Path) -> None:
    sizes = {}
    for keep in (True, False):
        world = World()
        adversary = made(
            AMDA,
            recipe="textfooler",
            resources=str(folder),
            adversarial_share=0.1,
            clean_epochs=0,
            interval=2,
            keep=keep,
        )
        world.started(adversary)
        counts = []
        for epoch in range(3):
            world.epoch = epoch
            adversary.start_epoch(world.module())
            counts.append(len(adversary._pool.rows))
            assert adversary._pool.share == len(adversary._pool.rows) / len(world.samples)
        sizes[keep] = counts
        # A resumed run has the same texts.
        again = made(AMDA, recipe="textfooler", resources=str(folder), keep=keep)
        again.restore(adversary.state())
        world.started(again)
        assert again._pool == adversary._pool
    assert sizes == {True: [2, 2, 4], False: [2, 0, 2]}


def test_a_text_of_mrat_joins_its_own_batch(folder: Path) -> None:
    world = World()
    adversary = made(MRAT, recipe="textfooler", resources=str(folder), clean_epochs=0)
    world.started(adversary)
    adversary.start_epoch(world.module())
    rows = adversary._pool.rows
    assert rows
    assert all(host == text.source for host, text in rows.items())
    # A second attack replaces texts, and adds none for the same sample.
    world.epoch = 1
    adversary.start_epoch(world.module())
    assert all(host == text.source for host, text in adversary._pool.rows.items())


def test_further_recipes_share_the_samples(folder: Path) -> None:
    world = World()
    settings = {"recipe": "textfooler", "resources": str(folder), "clean_epochs": 0}
    adversary = made(MRAT, further_recipes=["deepwordbug"], **settings)
    world.started(adversary)
    adversary.start_epoch(world.module())
    words = {"movie", "solid", *GOOD, *BAD, *THINGS}
    kinds = set()
    for i, row in adversary._pool.rows.items():
        new = set(words_of(row.text)) - set(words_of(world.samples[i].text))
        kinds.add(bool(new <= words))
    assert kinds == {True, False}  # words of the lists, and misspelt ones


def words_of(text: Any) -> list[str]:
    return str(text).replace(",", "").split()


@pytest.mark.parametrize(
    ("adversary", "classifier", "says"),
    [
        (AMDA(attack=LETTERS, layers=[3]), METHODS["transformer"], r"layers=\[3\], expected .* 2"),
        (AMDA(attack=LETTERS, layers=[1]), METHODS["lstm"], r"whose layers .* layers=\[0\]"),
    ],
)
def test_what_cannot_be_mixed(adversary: AMDA, classifier: Any, says: str) -> None:
    world = World()
    world.classifier = attached(classifier)  # type: ignore[assignment] # another classifier
    with pytest.raises(ValueError, match=says):
        adversary.start(world.module())


class Headless(TextClassifier):
    """Its last layer is unknown."""

    output_layer = None


@pytest.mark.parametrize("adversary", [AMDA(attack=LETTERS, place="smix"), MRAT(attack=LETTERS)])
def test_a_classifier_without_a_head(adversary: EpochTextAdversary) -> None:
    world = World()
    module = attached(lambda: Headless(width=16, heads=4))
    world.classifier = module  # type: ignore[assignment] # another classifier
    with pytest.raises(ValueError, match="no linear head on one vector"):
        adversary.start(world.module())


@pytest.mark.parametrize(
    ("make_one", "part"),
    [
        (lambda: AMDA(place="mix"), "place"),  # type: ignore[arg-type] # is wrong
        (lambda: AMDA(alpha=0), "alpha"),
        (lambda: AMDA(layers=[]), "layers"),
        (lambda: AMDA(layers=[-1]), "layers"),
        (lambda: AMDA(mixed_weight=-1), "mixed_weight"),
        (lambda: MRAT(alpha=0), "alpha"),
        (lambda: MRAT(weight=0), "weight"),
        (lambda: MRAT(further_recipes=["textfoolre"]), "recipe"),
    ],
)
def test_settings_out_of_range(make_one: Callable[[], Any], part: str) -> None:
    with pytest.raises(ValueError, match=f"got .*{part}.*expected"):
        make_one()


def test_a_head_and_layers_of_each_kind(bert: str, roberta: str) -> None:
    for folder in (bert, roberta):
        module = fine_tuning(folder)
        assert find_head(module) is module.network.classifier
        assert len(find_layers(module)) == 2
    linear = attached(METHODS["transformer"])
    assert find_head(linear) is linear.network.head
    assert isinstance(find_head(linear), nn.Linear)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "deberta-v2", "mpnet", "modernbert", "gte"])
@pytest.mark.parametrize("number", [1, 2])
def test_no_token_sees_the_other_text_before_they_are_mixed(kind: str, number: int) -> None:
    torch.manual_seed(0)
    settings = {key: value for key, value in EVERY_KIND[kind].items() if key != "pad_token_id"}
    module = attached(
        lambda: make(FineTuning, architecture=settings, vocab_size=120, max_length=30)
    )
    batch = module.encode_texts(["good", "not a good film", "fine , and long"])
    x, own = module.embed(batch), batch.mask
    backbone: Any = module.network.backbone
    seen: list[Tensor] = []

    def record(tokens: Tensor) -> Tensor:
        seen.append(tokens)
        return tokens

    with torch.no_grad():
        expected = backbone.hidden_states(x, own)[number - 1]
        with mixed_tokens(find_layers(module), number, own, record):
            module.classify(x, torch.ones_like(own))
    if kind == "modernbert" and number == 2:  # the states of the last layer are normalised
        seen = [backbone.encoder.final_norm(seen[0])]
    torch.testing.assert_close(seen[0][own], expected[own], rtol=1e-4, atol=1e-5)


def test_mixing_is_a_weighted_mean() -> None:
    share = torch.tensor([[0.25], [1.0]])
    got = mix(torch.ones(2, 3, 2), torch.zeros(2, 3, 2), share)
    assert got[0].eq(0.25).all()
    assert got[1].eq(1).all()


def test_hooks_are_removed_after_an_error() -> None:
    module = attached(METHODS["transformer"])
    rows = rows_of(module)

    def fail(x: Tensor) -> Tensor:
        raise RuntimeError

    for context in (
        changed_sentences(module, fail),
        mixed_tokens(find_layers(module), 1, rows.mask, fail),
    ):
        with pytest.raises(RuntimeError), context:
            module.classify(rows.x, rows.mask)
    module.classify(rows.x, rows.mask)
