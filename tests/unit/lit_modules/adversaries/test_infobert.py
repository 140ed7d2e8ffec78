"""InfoBERT against sums over all pairs, plain loops and a fit."""

from dataclasses import replace
from itertools import product
from math import ceil, log
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import lit_modules
from lit_modules import AdversarialTraining, TaskModule
from lit_modules.adversaries import FreeLB, InfoBERT, InnerProblem
from lit_modules.adversaries.infobert import Critic, anchors, info_nce, word_spread
from tests.unit.lit_modules.adversaries.test_space import assert_same, gradients, problem_of
from tests.unit.lit_modules.builders import (
    METHODS,
    SINGLE,
    Build,
    adversarial,
    attached,
    loader,
    olsa,
    plain,
    trainer,
)

SETTINGS: dict[str, Any] = {"step_size": 0.3, "initial_size": 0.5}


def problem_with_critic(module: TaskModule, adversary: InfoBERT, **settings: Any) -> InnerProblem:
    torch.manual_seed(2)
    critic = adversary.build_critic(module).to(next(module.parameters()).dtype)
    return problem_of(module, critic=critic, **settings)


def test_spread_is_that_of_all_pairs() -> None:
    torch.manual_seed(0)
    words, mask = torch.randn(3, 5, 4), torch.tensor([[1] * 5, [1, 1, 0, 0, 0], [1] * 3 + [0] * 2])
    mask = mask.bool()
    real = words[mask]
    pairs = [(a - b).square().sum() / 2 for a, b in product(real, real)]
    torch.testing.assert_close(word_spread(words, mask), torch.stack(pairs).mean())
    # What the released code draws in its place, one partner for each word, has this mean.
    drawn = [(real - real[torch.randperm(len(real))]).square().sum(dim=1) / 2 for _ in range(4000)]
    estimate = torch.stack(drawn).mean().item()
    assert estimate == pytest.approx(word_spread(words, mask).item(), rel=0.02)


def test_anchors_have_middling_gradients() -> None:
    torch.manual_seed(1)
    gradient, mask = torch.randn(4, 10, 3), torch.zeros(4, 10, dtype=torch.bool)
    for row, length in enumerate((10, 7, 2, 1)):
        mask[row, :length] = True
    rows, columns = anchors(gradient, mask, 0.5, 0.9)
    got = set(zip(rows.tolist(), columns.tolist(), strict=True))
    wanted = set()
    for row, length in enumerate((10, 7, 2, 1)):
        order = sorted(range(length), key=lambda i: gradient[row, i].norm().item())  # used at once
        wanted |= {(row, i) for i in order[ceil(0.5 * length) : ceil(0.9 * length)]}
    assert got == wanted
    assert not any(row == 3 for row, _ in wanted)


def test_bound_by_contrast() -> None:
    torch.manual_seed(0)
    scores = torch.randn(5, 5, dtype=torch.float64, requires_grad=True)
    pairs = [scores[i, i] - scores[i].exp().mean().log() for i in range(5)]
    assert info_nce(scores).item() == pytest.approx(torch.stack(pairs).mean().item(), rel=1e-5)
    # Pairs that are told apart perfectly: as much as a batch of m pairs can show.
    assert info_nce(100 * torch.eye(8)).item() == pytest.approx(log(8))
    assert info_nce(torch.ones(8, 8)).item() == pytest.approx(0, abs=1e-6)


def test_critic_is_one_network_of_both() -> None:
    torch.manual_seed(0)
    critic = Critic(4, 3, hidden=6).double()
    words, sentences = torch.randn(5, 4).double(), torch.randn(5, 3).double()
    weight = torch.cat([critic.sentence.weight, critic.word.weight], dim=1)
    scores = critic(words, sentences)
    for i, j in product(range(5), range(5)):
        both = torch.cat([sentences[i], words[j]])
        hidden = functional.relu(weight @ both + critic.word.bias)
        torch.testing.assert_close(scores[i, j], functional.softplus(critic.score(hidden))[0])
    inputs = words.requires_grad_(), sentences.requires_grad_()
    assert torch.autograd.gradcheck(critic, inputs)


def test_without_its_bounds_it_is_freelb() -> None:
    module = attached(METHODS["transformer"])
    adversary = InfoBERT(bottleneck=0, anchoring=0, **SETTINGS)
    problem = problem_with_critic(module, adversary)
    got = gradients(module, adversary.step(problem).loss)
    freelb = FreeLB(steps=3, **SETTINGS)
    assert_same(got, gradients(module, freelb.step(problem_of(module)).loss))


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_infobert_against_a_plain_loop(name: str) -> None:
    module = attached(METHODS[name])
    adversary = InfoBERT(bottleneck=0.3, anchoring=0.7, steps=2, low=0.2, high=0.9, **SETTINGS)
    problem = problem_with_critic(module, adversary, logs=True)
    critic = problem.critic
    assert isinstance(critic, Critic)
    result = adversary.step(problem)
    got = gradients(nn.ModuleList([module, critic]), result.loss)

    mask, labels = problem.mask, problem.labels
    both = nn.ModuleList([module, critic])
    both.zero_grad(set_to_none=True)
    delta = adversary._start(problem, module.embed(problem.batch))
    total = torch.zeros(())
    for _ in range(2):
        delta = delta.detach().requires_grad_()
        x = module.embed(problem.batch) + delta
        head, inputs = module.output_layer, []
        assert head is not None
        handle = head.register_forward_hook(lambda part, given, out: inputs.append(given[0]))  # noqa: B023 # used at once
        loss = functional.cross_entropy(module.classify(x, mask), labels)
        handle.remove()
        (g,) = torch.autograd.grad(loss, delta, retain_graph=True)
        rows, columns = anchors(g, mask, 0.2, 0.9)
        from text.splitmix import GOLDEN, mixed

        order = mixed(problem.seeds[rows] + GOLDEN * (columns + 1)).argsort()
        bounds = []
        for start in range(0, len(order), len(SINGLE)):
            part = order[start : start + len(SINGLE)]
            scores = critic(x[rows[part], columns[part]], inputs[0][rows[part]])
            bounds.append(info_nce(scores))
        step = loss + 0.3 * word_spread(x, mask) - 0.7 * torch.stack(bounds).mean()
        (step / 2).backward()  # type: ignore[no-untyped-call] # of torch
        total = total + step.detach() / 2
        real = g * mask.unsqueeze(-1)
        delta = delta.detach() + 0.3 * real / real.flatten(1).norm(dim=1).view(-1, 1, 1)
    wanted = {name: p.grad for name, p in both.named_parameters() if p.grad is not None}
    assert result.loss.item() == pytest.approx(total.item(), rel=1e-5)
    assert any(name.startswith("1.") for name in wanted)
    assert_same(got, wanted)
    assert {"bottleneck", "anchoring", "clean_loss"} <= result.values.keys()


def test_more_padding_changes_nothing() -> None:
    module = attached(METHODS["transformer"]).double()
    adversary = InfoBERT(**SETTINGS, bottleneck=0.3, anchoring=0.3)
    problem = problem_with_critic(module, adversary, logs=False)
    narrow = adversary.step(problem).loss
    batch = problem.batch
    wide = replace(
        problem,
        batch=replace(
            batch,
            input_ids=functional.pad(batch.input_ids, (0, 6)),
            mask=functional.pad(batch.mask, (0, 6)),
        ),
    )
    torch.testing.assert_close(adversary.step(wide).loss, narrow, rtol=1e-6, atol=0)


def test_texts_of_one_word_have_no_anchors() -> None:
    module = attached(METHODS["transformer"])
    adversary = InfoBERT(**SETTINGS)
    problem = problem_with_critic(module, adversary)
    batch = module.encode_texts(["good", "bad"])
    problem.batch, problem.labels = batch, torch.tensor([0, 1])
    problem.seeds = problem.seeds[:2]
    critic = problem.critic
    assert critic is not None
    found = gradients(critic, adversary.step(problem).loss)
    assert len(found) == len(list(critic.parameters()))  # DDP waits for them
    assert not any(gradient.any() for gradient in found.values())


def test_half_precision_and_scale() -> None:
    module = attached(METHODS["transformer"])
    adversary = InfoBERT(**SETTINGS)
    plain_ = gradients(module, adversary.step(problem_with_critic(module, adversary)).loss)
    scaled = problem_with_critic(module, adversary, scale=1024.0)
    assert_same(plain_, gradients(module, adversary.step(scaled).loss))
    problem = problem_with_critic(module, adversary)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = adversary.step(problem).loss
    found = gradients(module, loss)
    assert found.keys() == plain_.keys()
    assert all(torch.isfinite(gradient).all() for gradient in found.values())


def weights_of(module: TaskModule) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in module.state_dict().items()}


@pytest.mark.parametrize("build", [plain(dropout=0.2), olsa(depth=1)], ids=["transformer", "olsa"])
def test_the_critic_is_trained_and_saved(tmp_path: Path, build: Build) -> None:
    module = attached(adversarial(build, InfoBERT(**SETTINGS))).train()
    assert isinstance(module, AdversarialTraining)
    assert isinstance(module.critic, Critic)
    before = weights_of(module)
    run = trainer(max_epochs=1)
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 7))
    run.save_checkpoint(tmp_path / "a.ckpt")
    after = weights_of(module)
    assert all(not torch.equal(before[name], after[name]) for name in after if "critic" in name)
    loaded = lit_modules.load(tmp_path / "a.ckpt")
    assert all(torch.equal(after[name], weight) for name, weight in loaded.state_dict().items())
    assert any("critic" in name for name in loaded.state_dict())
    optimizer = run.optimizers[0]
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in module.parameters()}


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"low": 0.9, "high": 0.5}, "low"),
        ({"bottleneck": -1}, "bottleneck"),
        ({"anchoring": -1}, "anchoring"),
        ({"high": 1.5}, "high"),
        ({"steps": 0}, "steps"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=f"got .*{part}.*expected"):
        InfoBERT(**settings)
