"""ASA: what it trains on, who sees which gradient, and that nothing else changes."""

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from pytorch_lightning import seed_everything
from torch import Tensor

from layers.attention.masking.learnt_masks import Masks
from lit_modules import ASA, FineTuning
from lit_modules.asa import Passes
from lit_modules.shared.task_module import labels_of
from tests.unit.lit_modules.builders import trainer
from tests.unit.lit_modules.encoders import CLASSES, DEBERTA, batch_of, loader, made
from text import Batch, TaskName

TASKS = list(CLASSES)
ROWS = [1, 2, 4, 6]


def keep_all(module: ASA) -> None:
    """Force the adversary to mask nothing: no logistic number is as small as this is large."""
    with torch.no_grad():
        module.masking.adversary.offset.fill_(1e4)


def parts(module: ASA, batch: Batch, *, draw: bool = True) -> tuple[Passes, Tensor, Tensor, Tensor]:
    """What is computed in a step: the passes, L_e, D and tau * L_c."""
    masks = module.masks(batch, draw=draw)
    assert masks is not None
    passes = module.passes(batch, masks)
    labels = labels_of(batch)
    moved = module.task.divergence(passes.clean, passes.biased, labels, symmetric=module.symmetric)
    return passes, module.loss(passes.clean, labels), moved, module.masking.penalty(masks)


def gradients(module: ASA, scalar: Tensor) -> dict[str, Tensor]:
    """By parameter; those that the scalar does not depend on are left out."""
    named = dict(module.named_parameters())
    found: list[Tensor | None] = [
        *torch.autograd.grad(scalar, list(named.values()), allow_unused=True, retain_graph=True)
    ]
    return {name: g for name, g in zip(named, found, strict=True) if g is not None}


def attentive(module: ASA) -> ASA:
    """With attention that matters to the prediction, as that of a trained encoder does."""
    with torch.no_grad():
        for name, parameter in module.network.named_parameters():
            if any(part in name for part in ("query", "key", "value", "projection")):
                parameter.mul_(20)
    return module


def fitted(module: FineTuning, **settings: Any) -> dict[str, Tensor]:
    """The weights after a short fit of which all random numbers are the same."""
    seed_everything(3, verbose=False)
    module.train()
    trainer(max_epochs=2, **settings).fit(module, loader(module, 3), loader(module, 7))
    return {k: v.clone() for k, v in module.state_dict().items() if k.startswith("network")}


@pytest.mark.long
@pytest.mark.parametrize(
    "architecture", [None, pytest.param(DEBERTA, marks=pytest.mark.slow)], ids=["bert", "deberta"]
)
@pytest.mark.parametrize(
    "task", [TASKS[0], *(pytest.param(task, marks=pytest.mark.slow) for task in TASKS[1:])]
)
def test_masks_that_keep_all_are_plain_training_bit_for_bit(
    task: TaskName, architecture: dict[str, Any] | None
) -> None:
    """With dropout: both passes drop the same."""
    forced = made(ASA, task, architecture=architecture)
    keep_all(forced)
    batch = batch_of(forced, ROWS)
    found, _, moved, _ = parts(forced.train(), batch)
    real = batch.mask if task == "tagging" else slice(None)
    assert torch.equal(found.clean[real], found.biased[real])
    assert moved == 0
    assert not gradients(forced, moved)["network.projection.weight"].any()

    plain = made(ASA, task, architecture=architecture, masking="none")
    # Recorded, its attention is computed as that of the clean pass.
    classify = plain.classify

    def recorded(x: Tensor, mask: Tensor) -> Tensor:
        with plain.attention.tape.recording():
            logits: Tensor = classify(x, mask)
            return logits

    plain.classify = recorded
    expected, got = fitted(plain), fitted(forced)
    assert expected.keys() == got.keys()
    for name, weight in expected.items():
        assert torch.equal(weight, got[name]), name


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_plain_fine_tuning_is_what_masking_none_does(task: TaskName) -> None:
    """The same random numbers, too; the encoder's code is the library's in both."""
    expected, got = fitted(made(FineTuning, task)), fitted(made(ASA, task, masking="none"))
    for name, weight in expected.items():
        assert torch.allclose(weight, got[name], atol=1e-5), name


@pytest.mark.parametrize("task", TASKS)
def test_who_sees_which_gradient(task: TaskName) -> None:
    """The encoder never sees L_c, the adversary never L_e; through D they pull apart."""
    module = made(ASA, task, initial_keep=0.7).train()
    _, task_loss, moved, penalty = parts(module, batch_of(module, ROWS))
    adversary = {name for name in gradients(module, moved) if name.startswith("masking")}
    layers = {f"{part}.{i}.weight" for part in ("query", "key") for i in range(2)}
    assert adversary == {f"masking.adversary.{name}" for name in (*layers, "offset")}
    assert not any(name.startswith("masking") for name in gradients(module, task_loss))
    assert gradients(module, penalty).keys() == adversary
    assert all(bool(gradients(module, moved)[name].any()) for name in adversary)


def test_the_sign_on_both_sides() -> None:
    """A step of the encoder against its gradient lowers D, one of the adversary raises D."""
    module = attentive(made(ASA, initial_keep=0.5, rate=0.0, temperature=0.5)).train()
    batch = batch_of(module, [0, 1, 2, 3, 4, 5, 6])
    _, _, moved, penalty = parts(module, batch, draw=False)
    assert penalty > 0
    named = dict(module.named_parameters())
    of_moved, of_penalty = gradients(module, moved), gradients(module, penalty)
    # The encoder goes down.
    lower = copy.deepcopy(module)
    with torch.no_grad():
        for name, parameter in lower.named_parameters():
            if name.startswith("network") and name in of_moved:
                parameter.sub_(1e-3 * of_moved[name] / of_moved[name].norm().clamp_min(1e-12))
    assert parts(lower, batch, draw=False)[2] < moved
    # Without noise the masks are steps of their scores, which a small step does not cross; their
    # gradient is that of the relaxation. What reaches the adversary is exactly minus that.
    module.masking.settings = replace(module.masking.settings, reversal=0.0)
    assert not any(
        g.any()
        for n, g in gradients(module, parts(module, batch, draw=False)[2]).items()
        if n.startswith("masking")
    )
    module.masking.settings = replace(module.masking.settings, reversal=2.0)
    twice = gradients(module, parts(module, batch, draw=False)[2])
    for name in named:
        if name.startswith("masking"):
            assert torch.allclose(twice[name], 2 * of_moved[name], rtol=1e-4, atol=1e-12), name
    # The penalty is the share kept: gradient descent through the reversal keeps more.
    assert bool((of_penalty["masking.adversary.offset"] < 0).all())


@pytest.mark.long
def test_the_adversary_learns_to_move_the_prediction() -> None:
    """Trained alone, it finds masks that change the prediction more than random ones do."""
    module = attentive(made(ASA, initial_keep=0.8, rate=0.0, tau=0.0)).train()
    batch = batch_of(module, [0, 1, 2, 3, 4, 5, 6])

    def moved() -> float:
        total = 0.0
        for epoch in range(20):
            batch.sample_ids = torch.arange(7) + 1000 + 7 * epoch
            total += parts(module, batch)[2].item()
        return total

    before = moved()
    optimizer = torch.optim.Adam(module.masking.parameters(), lr=0.05)
    for step in range(60):
        batch.sample_ids = torch.arange(7) + 7 * step
        optimizer.zero_grad()
        parts(module, batch)[2].backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
        optimizer.step()
    assert moved() > 1.5 * before


@pytest.mark.long
def test_the_lower_tau_the_more_is_masked() -> None:
    """The divergence of so small an encoder is far below that of a trained one."""

    def masked(tau: float) -> float:
        module = attentive(made(ASA, tau=tau, initial_keep=0.6, rate=0.0, warmup=0.0))
        module.adversary_lr_factor = 20.0
        seed_everything(0, verbose=False)
        trainer(max_epochs=20).fit(module.train(), loader(module, 7), loader(module, 7))
        share: float = module.masking.masked_over_training[-1]
        return share

    shares = [masked(tau) for tau in (6.0, 0.3, 0.0)]
    assert shares[0] < shares[1] < shares[2]


def test_the_penalty_counts_what_is_kept_of_pairs_of_real_tokens() -> None:
    module = made(ASA, tau=0.5, initial_keep=0.6)
    batch = batch_of(module, ROWS)
    masks = module.masks(batch)
    assert masks is not None
    module.passes(batch, masks)
    real = batch.lengths.float()
    counts = torch.stack(masks.kept) * real.square()
    assert torch.allclose(counts, counts.round(), atol=1e-3), "counts of units"
    number, share = counts.sum(dim=0).mean(), (counts / real.square()).mean()
    for form, expected in [
        ("released", 0.25e-4 * number),
        ("sum", number / 2),
        ("mean", share / 2),
    ]:
        assert form != "released" or module.masking.settings.penalty == form, "the default"
        module.masking.settings = replace(module.masking.settings, penalty=form)
        torch.testing.assert_close(module.masking.penalty(masks), expected)


@pytest.mark.parametrize("architecture", [None, DEBERTA], ids=["bert", "deberta"])
@pytest.mark.parametrize("task", TASKS)
def test_dropout_of_its_own_in_each_pass(
    task: TaskName, architecture: dict[str, Any] | None
) -> None:
    """Then D is not 0 where nothing is masked, but only if anything is dropped."""
    module = made(ASA, task, architecture=architecture, shared_dropout=False)
    keep_all(module)
    batch = batch_of(module, ROWS)
    assert parts(module.train(), batch)[2] > 0
    assert parts(module.eval(), batch)[2] < 1e-9
    assert not module.attention.tape._factors


@pytest.mark.parametrize("masking", ["adversarial", "bernoulli", "magnitude", "scheduled"])
@pytest.mark.parametrize("task", TASKS)
def test_padding_and_company_change_nothing(task: TaskName, masking: str) -> None:
    schedule = [0.1, 0.4] if masking == "scheduled" else None
    module = made(ASA, task, masking=masking, share=0.3, schedule=schedule, initial_keep=0.7)
    module.eval()
    together = parts_of(module, batch_of(module, ROWS))
    for i, row in enumerate(ROWS):
        alone = parts_of(module, batch_of(module, [row]))
        length = alone.biased.shape[1] if task == "tagging" else None
        for many, single in ((together.clean, alone.clean), (together.biased, alone.biased)):
            expected = many[i, :length] if length else many[i]
            assert torch.allclose(expected, single[0], atol=1e-5)
        rows = batch_of(module, [row]).choices
        shares = torch.stack(together.masks.kept)[:, i * rows : (i + 1) * rows]
        assert torch.equal(shares, torch.stack(alone.masks.kept))


def parts_of(module: ASA, batch: Batch) -> Passes:
    masks: Masks | None = module.masks(batch)
    assert masks is not None
    with torch.no_grad():
        return module.passes(batch, masks)


def test_inference_is_the_plain_encoder() -> None:
    plain, robust = made(FineTuning), made(ASA)
    robust.network.load_state_dict(plain.network.state_dict())
    batch = batch_of(plain, ROWS)
    assert torch.equal(plain.eval()(batch), robust.eval()(batch))
    # And what a checkpoint says of the architecture.
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    plain.on_save_checkpoint(one)
    robust.on_save_checkpoint(other)
    assert one["steadfast"]["backbone"] == other["steadfast"]["backbone"]


@pytest.mark.parametrize("masking", ["adversarial", "bernoulli", "magnitude", "none"])
@pytest.mark.parametrize(
    "precision",
    [
        pytest.param("32-true", marks=pytest.mark.slow),
        "bf16-mixed",
        pytest.param("64-true", marks=pytest.mark.slow),
    ],
)
def test_every_precision(masking: str, precision: Any) -> None:
    module = made(ASA, masking=masking, share=0.2)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    run = trainer(max_epochs=1, precision=precision, log_every_n_steps=1)
    run.fit(module.train(), loader(module, 3), loader(module, 4))
    assert torch.isfinite(run.callback_metrics["train/loss"])
    changed = [k for k, v in module.state_dict().items() if not torch.equal(v.float(), before[k])]
    assert any(name.startswith("masking.adversary") for name in changed) == (
        masking == "adversarial"
    )
    assert "network.projection.weight" in changed
    assert module.attention.tape.mode == "off"
    assert not module.attention.tape._factors


def test_what_is_logged() -> None:
    module = made(ASA)
    run = trainer(max_epochs=1, log_every_n_steps=1)
    run.fit(module.train(), loader(module, 7), loader(module, 7))
    metrics = {k: float(v) for k, v in run.callback_metrics.items()}
    assert 0 < metrics["train/masked"] < 0.4
    layers = [metrics[f"train/masked/layer_{i}"] for i in (1, 2)]
    assert metrics["train/masked"] == pytest.approx(sum(layers) / 2)
    assert metrics["train/loss"] == pytest.approx(
        metrics["train/task_loss"] + metrics["train/divergence"], rel=1e-5
    )
    assert {"val/loss", "val/accuracy", "train/accuracy"} <= metrics.keys()
    assert module.masking.masked_over_training == [pytest.approx(metrics["train/masked"])]


def test_the_learning_rate_of_the_adversary() -> None:
    adamw = partial(torch.optim.AdamW, lr=1e-3)
    module = made(ASA, adversary_lr_factor=10.0, warmup=0.0, decay="none", optimizer=adamw)
    optimizer = module.configure_optimizers()
    rate = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    adversary = {id(p) for p in module.masking.parameters()}
    assert rate.keys() == {id(p) for p in module.parameters()}
    assert rate == {p: pytest.approx(1e-2 if p in adversary else 1e-3) for p in rate}
    rest = made(ASA, masking="bernoulli", warmup=0.0, decay="none").configure_optimizers()
    assert len({group["lr"] for group in rest.param_groups}) == 1


@pytest.mark.parametrize("penalty", ["released", "mean"])
@pytest.mark.parametrize("kind", ["AdamW", "Adam", "RMSprop", "SGD"])
def test_the_first_step_is_that_of_the_undivided_objective(kind: str, penalty: str) -> None:
    """`released` divides the adversary's objective by 10,000; eps and the rate of SGD follow it."""
    optimizer = partial(getattr(torch.optim, kind), lr=1e-3, weight_decay=0.0)
    settings: dict[str, Any] = {"warmup": 0.0, "decay": "none", "optimizer": optimizer}
    module = made(ASA, penalty=penalty, rate=0.0, **settings).train()
    group = module.configure_optimizers()
    adversary = list(module.masking.parameters())
    parts(module, batch_of(module, ROWS))[3].backward()  # type: ignore[no-untyped-call] # of torch
    before = [p.detach().clone() for p in adversary]
    slopes = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in adversary]
    group.step()
    divisor = 1e4 if penalty == "released" else 1.0
    undivided = [p.clone().requires_grad_() for p in before]
    for p, slope in zip(undivided, slopes, strict=True):
        p.grad = slope * divisor
    optimizer(undivided).step()
    damped = 0.0
    for p, start, expected, slope in zip(adversary, before, undivided, slopes, strict=True):
        torch.testing.assert_close(p - start, expected - start, rtol=1e-3, atol=1e-8)
        damped = max([damped, *(1e-8 / (slope.abs() + 1e-8))[slope != 0].tolist()])
    assert penalty == "mean" or damped > 0.01, "with the usual eps the step would be shorter"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"masking": "some"}, "got masking.kind='some'.*expected one of adversarial, bernoulli"),
        ({"tau": -1.0}, "^got masking.tau=-1.0, expected a finite number of at least 0$"),
        (
            {"temperature": 0.0},
            "^got masking.temperature=0.0, expected a finite number of more than 0$",
        ),
        (
            {"initial_keep": 1.0},
            "^got masking.initial_keep=1.0, expected a finite number of more than 0 and less than",
        ),
        ({"masking": "bernoulli", "share": 1.0}, "got masking.share=1.0.*less than 1"),
        ({"masking": "scheduled"}, "schedule=None, expected a schedule for kind scheduled"),
        ({"schedule": [0.1, 0.2]}, "expected a schedule for kind scheduled, and for no other"),
        ({"masking": "scheduled", "schedule": [0.1]}, "expected at least two shares"),
        ({"alpha": float("nan")}, "^got alpha=nan, expected a finite number of at least 0$"),
        ({"adversary_lr_factor": 0.0}, "^got adversary_lr_factor=0.0, expected .* more than 0$"),
        (
            {"reversal": float("inf")},
            "^got masking.reversal=inf, expected a finite number of at least 0$",
        ),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(ASA, **settings)


def test_a_backbone_whose_attention_cannot_be_biased() -> None:
    architecture = {
        "model_type": "rembert",
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 70,
    }
    assert made(FineTuning, architecture=architecture, pooling="mean") is not None
    with pytest.raises(
        ValueError, match=r"'rembert', whose attention cannot be biased.*bert, roberta"
    ):
        made(ASA, architecture=architecture, pooling="mean")
