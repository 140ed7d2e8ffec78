"""Pre-training with ASA: its loss, who sees which gradient, and that the encoder stays plain."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning import seed_everything
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForMaskedLM

from datamodules import RunningText
from layers import unitary_residual, unitary_weights
from layers.attention.masking.masks import Masks
from layers.divergence import divergence
from lit_modules import ASAPretraining, FineTuning, MaskedLM, load_module
from lit_modules.asa_pretraining import EncoderOutputs
from lit_modules.masked_lm import Hidden
from tests.unit.datamodules.running_text import TOKENIZER as LONG
from tests.unit.datamodules.running_text import corpus, write
from tests.unit.layers.small_encoders import ARCHITECTURES
from tests.unit.lit_modules.builders import make, trainer
from text import Batch, PretrainedTokenizer

every = pytest.mark.parametrize("kind", ARCHITECTURES)
TOKENIZER = PretrainedTokenizer.from_state({**LONG.state(), "max_length": 16})
UNKNOWN = "12 34 56 78"


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-3)


def made(method: type[MaskedLM] = ASAPretraining, kind: str = "bert", **settings: Any) -> Any:
    """A module with layers, under the dropout of its kind."""
    torch.manual_seed(2)
    # ALBERT has none, unless it is told to.
    dropout = {"hidden_dropout_prob": 0.1} if kind == "albert" else {}
    arguments = {
        "architecture": ARCHITECTURES[kind] | dropout,
        "optimizer": adamw,
        "token_masking.share": 0.4,
    }
    module = make(
        method, **{**arguments, "max_length": 16, "warmup": 0.0, "decay": "none", **settings}
    )
    module.attach_tokenizer(TOKENIZER)
    module.configure_model()
    return module


def batch() -> Batch:
    ids = torch.randint(
        5, TOKENIZER.vocab_size, (3, 12), generator=torch.Generator().manual_seed(0)
    )
    mask = torch.arange(12) < torch.tensor([12, 7, 9])[:, None]
    return Batch(ids.masked_fill(~mask, 0), mask, torch.tensor([4, 8, 1]))


@pytest.fixture
def text(tmp_path: Path) -> RunningText:
    write(tmp_path, lines=20)
    data = corpus(tmp_path)
    data.tokenizer = TOKENIZER
    return data


def fit(module: MaskedLM, data: RunningText, **settings: Any) -> pl.Trainer:
    seed_everything(3, verbose=False)
    module.train()
    run = trainer(**{"max_epochs": 1, "log_every_n_steps": 1, "limit_val_batches": 0, **settings})
    run.fit(module, datamodule=data)
    return run


def read(
    module: ASAPretraining, given: Batch, epoch: int = 1
) -> tuple[Hidden, EncoderOutputs, EncoderOutputs, Masks]:
    hidden, masks = module.hide(given, epoch=epoch), module.masks(given)
    assert masks is not None
    return hidden, *module.passes(hidden, masks), masks


def apart(first: Tensor, second: Tensor) -> Tensor:
    """KL(p || q), by torch."""
    p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    return functional.kl_div(q, p, log_target=True, reduction="none").sum(dim=-1)


def parts(module: ASAPretraining, given: Batch) -> dict[str, Tensor]:
    """The four terms of equation 10."""
    hidden, clean, biased, masks = read(module, given)
    return {
        "guess": functional.cross_entropy(clean.logits, hidden.words),
        "tokens": apart(clean.logits, biased.logits).mean(),
        "first": apart(clean.first, biased.first).mean(),
        "penalty": module.masking.penalty(masks),
    }


def gradients(module: ASAPretraining, scalar: Tensor) -> dict[str, Tensor]:
    """By parameter; those that the scalar does not depend on are left out."""
    named = dict(module.named_parameters())
    found: tuple[Tensor | None, ...] = torch.autograd.grad(
        scalar, list(named.values()), allow_unused=True, retain_graph=True
    )
    return {name: g for name, g in zip(named, found, strict=True) if g is not None}


def attentive(module: ASAPretraining) -> ASAPretraining:
    """With attention that matters to the guesses, as that of a trained encoder does."""
    with torch.no_grad():
        for name, parameter in module.model.named_parameters():
            if any(part in name for part in ("query", "key", "value", "predictions.transform")):
                parameter.mul_(20)
    return module


def keep_all(module: ASAPretraining) -> ASAPretraining:
    """Force the adversary to mask nothing: no logistic number is as small as this is large."""
    with torch.no_grad():
        module.masking.adversary.offset.fill_(1e4)
    return module


# Passes


@every
def test_the_pass_without_masks_is_that_of_the_plain_model(kind: str) -> None:
    module, examples = made(kind=kind).eval(), batch()
    hidden, clean, biased, masks = read(module, examples)
    # Recorded, attention is computed by other code than without.
    logits = module(hidden.batch, hidden.chosen)
    torch.testing.assert_close(clean.logits, logits, rtol=0, atol=1e-6)
    outputs = module.model.base_model(
        input_ids=hidden.batch.input_ids, attention_mask=examples.mask.long()
    )
    torch.testing.assert_close(clean.first, outputs.last_hidden_state[:, 0], rtol=0, atol=1e-5)
    assert not torch.equal(biased.first, clean.first)
    assert not torch.equal(biased.logits, clean.logits)
    assert len(masks.kept) == 2
    plain = made(MaskedLM, kind).eval()
    plain.load_state_dict({k: v for k, v in module.state_dict().items() if k.startswith("model")})
    assert torch.equal(plain(hidden.batch, hidden.chosen), logits)


@every
def test_padding_and_company_change_nothing(kind: str) -> None:
    module, examples = made(kind=kind, initial_keep=0.6).eval(), batch()
    hidden, clean, biased, masks = read(module, examples)
    rows = hidden.chosen.nonzero()[:, 0]
    for i in range(3):
        length = int(examples.mask[i].sum())
        one = Batch(
            examples.input_ids[i : i + 1, :length],
            examples.mask[i : i + 1, :length],
            examples.sample_ids[i : i + 1],
        )
        _, *both, alone = read(module, one)
        for many, single in zip((clean, biased), both, strict=True):
            torch.testing.assert_close(many.logits[rows == i], single.logits, rtol=0, atol=1e-5)
            torch.testing.assert_close(many.first[i], single.first[0], rtol=0, atol=1e-5)
        assert torch.equal(torch.stack(masks.kept)[:, i], torch.stack(alone.kept)[:, 0])


@every
def test_both_passes_drop_the_same(kind: str) -> None:
    module = keep_all(made(kind=kind)).train()
    module.shared_dropout = False
    _, clean, biased, _ = read(module, batch())
    assert not torch.equal(clean.logits, biased.logits)
    module.shared_dropout = True
    hidden, clean, biased, _ = read(module, batch())
    assert torch.equal(clean.logits, biased.logits)
    assert torch.equal(clean.first, biased.first)
    again = read(module, batch())[1]
    assert not torch.equal(again.logits, clean.logits)
    assert not module.attention.tape._factors
    assert len(hidden.words) == len(clean.logits)


# The loss


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("masking", ["adversarial", "bernoulli"])
def test_the_loss_is_that_of_equation_10(
    text: RunningText, *, symmetric: bool, masking: str
) -> None:
    settings = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    module = made(
        architecture={**ARCHITECTURES["bert"], **settings},
        masking=masking,
        symmetric=symmetric,
        alpha=0.5,
        tau=3.0,
        initial_keep=0.7,
    )
    attentive(module)
    wanted: list[dict[str, float]] = []
    found: list[float] = []
    numbers: list[float] = []
    step = module.training_step

    def training_step(given: Batch, batch_idx: int) -> Tensor:
        with torch.no_grad():
            hidden, clean, biased, masks = read(module, given)
        both = [(clean, biased), (biased, clean)][: 1 + symmetric]
        share = torch.stack(masks.kept).mean()
        numbers.append(float((torch.stack(masks.kept) * masks.units).sum(dim=0).mean()))
        terms = {
            "task_loss": functional.cross_entropy(clean.logits, hidden.words),
            "divergence_tokens": sum(apart(a.logits, b.logits).mean() for a, b in both),
            "divergence_first": sum(apart(a.first, b.first).mean() for a, b in both),
            "masked": 1 - share,
        }
        wanted.append({name: float(torch.as_tensor(value)) for name, value in terms.items()})
        loss: Tensor = step(given, batch_idx)
        found.append(loss.item())
        return loss

    module.training_step = training_step
    run = fit(module, text, max_steps=2)
    sum_ = 0.0
    for terms, loss, number in zip(wanted, found, numbers, strict=True):
        sum_ = terms["task_loss"] + 0.5 * (terms["divergence_tokens"] + terms["divergence_first"])
        penalty = 3.0**2 / 1e4 * number if masking == "adversarial" else 0.0
        assert loss == pytest.approx(sum_ + penalty, rel=1e-5)
    logged = {k: float(v) for k, v in run.callback_metrics.items()}
    for name, value in wanted[-1].items():
        assert logged[f"train/{name}"] == pytest.approx(value, rel=1e-4, abs=1e-9), name
        assert value > 1e-5
    assert logged["train/loss"] == pytest.approx(sum_, rel=1e-5)
    layers = [logged[f"train/masked/layer_{i}"] for i in (1, 2)]
    assert logged["train/masked"] == pytest.approx(sum(layers) / 2)
    assert {"train/accuracy", "train/tokens_per_second"} <= logged.keys()
    assert module.masking.masked_over_training


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    ["bert", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("albert", "deberta-v2"))],
)
def test_masks_that_keep_all_are_plain_training_bit_for_bit(text: RunningText, kind: str) -> None:
    """With dropout, the head's gradients, and all random numbers the same."""
    forced = keep_all(made(kind=kind, adversary_lr_factor=1e-9)).train()
    _, clean, biased, _ = read(forced, batch())
    for one, other in zip(clean, biased, strict=True):
        moved = divergence(one, other)
        assert not moved.any()
        assert not any(g.any() for g in gradients(forced, moved.sum()).values())
    plain = made(kind=kind, masking="none")
    # Recorded, its attention is computed as that of the clean pass.
    forward: Callable[[Batch, Tensor], Tensor] = plain.forward

    def recorded(given: Batch, chosen: Tensor) -> Tensor:
        with plain.attention.tape.recording():
            return forward(given, chosen)

    plain.forward = recorded
    forced = keep_all(made(kind=kind, adversary_lr_factor=1e-9))
    runs = [fit(module, text, max_epochs=2, limit_train_batches=5) for module in (plain, forced)]
    assert forced.masking.masked_over_training == [0.0] * len(forced.masking.masked_over_training)
    assert runs[1].callback_metrics["train/divergence_first"] == 0
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(weight, forced.model.state_dict()[name]), name


def test_without_masks_it_is_masked_lm(text: RunningText) -> None:
    """The same random numbers, too; the encoder's code is the library's in both."""
    modules = made(MaskedLM), made(masking="none")
    runs = [fit(module, text, limit_train_batches=5) for module in modules]
    first, other = (run.callback_metrics for run in runs)
    assert first.keys() == other.keys()
    torch.testing.assert_close(first["train/loss"], other["train/loss"])
    expected, got = (module.model.state_dict() for module in modules)
    assert modules[0].state_dict().keys() == modules[1].state_dict().keys()
    for name, weight in expected.items():
        torch.testing.assert_close(weight, got[name], rtol=0, atol=1e-4, msg=name)


@pytest.mark.parametrize("kind", ["bert", "deberta"])
def test_who_sees_which_gradient(kind: str) -> None:
    """The encoder never sees L_c, the adversary never L_mlm; through the others they pull apart."""
    module = made(kind=kind, initial_keep=0.7).train()
    terms = parts(module, batch())
    layers = {f"{part}.{i}.weight" for part in ("query", "key") for i in range(2)}
    adversary = {f"masking.adversary.{name}" for name in (*layers, "offset")}
    assert gradients(module, terms["penalty"]).keys() == adversary
    assert not any(name.startswith("masking") for name in gradients(module, terms["guess"]))
    for name in ("tokens", "first"):
        nonzero = gradients(module, terms[name])
        assert {one for one in nonzero if one.startswith("masking")} == adversary
        assert all(bool(nonzero[one].any()) for one in adversary)
        assert any(one.startswith("model") and g.any() for one, g in nonzero.items())
        module.masking.settings = replace(module.masking.settings, reversal=2.0)
        twice = gradients(module, parts(keep_dropout(module), batch())[name])
        module.masking.settings = replace(module.masking.settings, reversal=1.0)
        once = gradients(module, parts(keep_dropout(module), batch())[name])
        for one in adversary:
            torch.testing.assert_close(twice[one], 2 * once[one], rtol=1e-4, atol=1e-12)
    # The penalty is the share kept: gradient descent through the reversal keeps more.
    assert bool((gradients(module, terms["penalty"])["masking.adversary.offset"] < 0).all())


def keep_dropout(module: ASAPretraining) -> ASAPretraining:
    """The module, before the same random numbers."""
    torch.manual_seed(5)
    return module


# Training


@pytest.mark.slow
@every
def test_the_loss_falls(text: RunningText, kind: str) -> None:
    module = made(kind=kind)
    before = trainer().validate(module, datamodule=text, verbose=False)[0]["val/loss"]
    start = {name: p.detach().clone() for name, p in module.named_parameters()}
    run = fit(module, text, max_epochs=3, limit_val_batches=None)
    assert run.callback_metrics["val/loss"] < before - 0.3
    still = [name for name, p in module.named_parameters() if torch.equal(p, start[name])]
    assert not [name for name in still if "adversary" in name]
    # Of no use to a language model on one segment; and DeBERTa's, which is its first version's own.
    assert all("token_type" in name or "LayerNorm" in name or "rel_" in name for name in still)


@pytest.mark.long
@pytest.mark.parametrize(
    "precision", ["bf16-mixed", pytest.param("64-true", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("masking", ["adversarial", "bernoulli", "magnitude", "scheduled", "none"])
def test_every_precision(text: RunningText, masking: str, precision: Any) -> None:
    schedule = [0.1, 0.4] if masking == "scheduled" else None
    module = made(masking=masking, schedule=schedule)
    run = fit(module, text, precision=precision, limit_train_batches=3, gradient_clip_val=1.0)
    assert torch.isfinite(run.callback_metrics["train/loss"])
    assert all(bool(torch.isfinite(p).all()) for p in module.parameters())
    assert ("train/masked" in run.callback_metrics) == (masking != "none")


@pytest.mark.slow
@pytest.mark.parametrize("token_masking", ["dynamic", "fixed"])
def test_other_tokens_are_hidden_in_each_epoch(text: RunningText, token_masking: str) -> None:
    module = made(token_masking=token_masking)
    seen: list[dict[int, list[int]]] = [{}, {}]
    passes = module.passes

    def watched(hidden: Hidden, masks: Masks) -> tuple[EncoderOutputs, EncoderOutputs]:
        rows = zip(hidden.batch.sample_ids.tolist(), hidden.batch.input_ids.tolist(), strict=True)
        seen[module.current_epoch].update(rows)
        readings: tuple[EncoderOutputs, EncoderOutputs] = passes(hidden, masks)
        return readings

    module.passes = watched
    fit(module, text, max_epochs=2)
    same = sum(seen[0][sample] == seen[1][sample] for sample in seen[0])
    assert same == len(seen[0]) if token_masking == "fixed" else same < 5


def test_unitary_weights_are_those_of_the_encoder(text: RunningText) -> None:
    module = made(unitary="qr")
    fit(module, text, limit_train_batches=3)
    weights = unitary_weights(module)
    assert len(weights) == 8
    assert all(name.startswith("model.bert.encoder") for name in weights)
    assert unitary_residual(list(weights.values())).max() < 1e-5
    adversary = list(module.masking.adversary.query)
    assert unitary_residual([linear.weight for linear in adversary]).max() > 0.1


def test_the_learning_rate_of_the_adversary() -> None:
    module = made(adversary_lr_factor=10.0)
    groups = module.configure_optimizers().param_groups
    rate = {id(p): group["lr"] for group in groups for p in group["params"]}
    adversary = {id(p) for p in module.masking.parameters()}
    assert rate.keys() == {id(p) for p in module.parameters()}
    assert rate == {p: pytest.approx(3e-2 if p in adversary else 3e-3) for p in rate}
    rest = made(masking="magnitude").configure_optimizers().param_groups
    assert len({group["lr"] for group in rest}) == 1


@pytest.mark.slow
def test_nothing_to_guess(tmp_path: Path) -> None:
    """A batch of unknown words has no guesses; an epoch of them is refused, as by MaskedLM."""
    texts = ["the hare ran on when a tortoise won"]
    (tmp_path / "a.txt").write_text("\n".join(texts * 12 + [UNKNOWN] * 60))
    data = corpus(tmp_path, batch_size=2, validation_share=0)
    data.tokenizer = TOKENIZER
    module = made()
    fit(module, data)
    assert all(bool(torch.isfinite(p).all()) for p in module.parameters())
    (tmp_path / "a.txt").write_text("\n".join([UNKNOWN] * 60))
    data = corpus(tmp_path, batch_size=2, validation_share=0, cache_dir=str(tmp_path / "again"))
    data.tokenizer = TOKENIZER
    with pytest.raises(ValueError, match="got no token to guess in this epoch of training"):
        fit(made(), data)


# Folders and checkpoints


@every
def test_the_folder_holds_the_plain_encoder(kind: str, tmp_path: Path) -> None:
    module, plain = made(kind=kind).eval(), made(MaskedLM, kind)
    plain.export(tmp_path / "plain")
    module.export(tmp_path / "asa")
    described = [
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("plain", "asa")
    ]
    assert described[0] == described[1]
    assert not [key for key in described[1] if "attn" in key or "steadfast" in key]
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path / "asa").eval()
    assert theirs.state_dict().keys() == module.model.state_dict().keys()
    examples = batch()
    ours = module(examples, examples.mask)
    logits = theirs(input_ids=examples.input_ids, attention_mask=examples.mask.long()).logits[
        examples.mask
    ]
    torch.testing.assert_close(ours, logits, rtol=0, atol=1e-5)


def test_fine_tuning_begins_with_its_encoder(tmp_path: Path) -> None:
    module = made()
    module.export(tmp_path)
    classifier = make(FineTuning, backbone=str(tmp_path), max_length=16)
    classifier.attach(classifier.build_tokenizer([]), ["a", "b"])
    classifier.configure_model()
    encoder = classifier.network.backbone.encoder.state_dict()
    trained = module.model.base_model.state_dict()
    assert encoder.keys() == trained.keys()
    assert all(torch.equal(encoder[name], trained[name]) for name in encoder)


@pytest.mark.slow
def test_a_checkpoint_is_enough(tmp_path: Path, text: RunningText) -> None:
    learnt = {"tau": 0.2, "per_head": True}
    rule = {"masking": "scheduled", "schedule": [0.1, 0.3], "token_masking": "fixed"}
    settings: dict[str, dict[str, Any]] = {"learnt": learnt, "rule": rule}
    for name, given in settings.items():
        module = made(kind="roberta", **given)
        run = fit(module, text, limit_train_batches=2)
        run.save_checkpoint(tmp_path / f"{name}.ckpt")
        again = load_module(tmp_path / f"{name}.ckpt")
        assert isinstance(again, ASAPretraining)
        ours, theirs = (biased(model.eval(), batch()) for model in (module, again))
        assert torch.equal(ours.logits, theirs.logits)
        assert torch.equal(ours.first, theirs.first)
        assert again.token_masking.kind == ("fixed" if name == "rule" else "dynamic")
        assert again.masking.masked_over_training == module.masking.masked_over_training


def biased(module: ASAPretraining, given: Batch) -> EncoderOutputs:
    """The pass with masks, in the middle of a training, whose epoch is left out."""
    masks = module.masking.masks(given.mask, given.sample_ids, progress=0.5)
    assert masks is not None
    return module.passes(module.hide(given, epoch=1), masks)[1]


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": None}, "got backbone.pretrained=None, backbone.architecture=None"),
        ({"token_masking.share": 0.0}, "token_masking.share=0.0"),
        (
            {"masking": "dynamic"},
            "got masking.kind='dynamic'.*expected one of adversarial, bernoulli",
        ),
        ({"token_masking": "none"}, "token_masking.kind='none'"),
        ({"tau": -1.0}, "^got masking.tau=-1.0, expected a finite number of at least 0$"),
        ({"alpha": float("nan")}, "^got alpha=nan, expected a finite number of at least 0$"),
        ({"adversary_lr_factor": 0.0}, "^got adversary_lr_factor=0.0, expected .* more than 0$"),
        ({"schedule": [0.1, 0.2]}, "expected a schedule for kind scheduled, and for no other"),
        ({"unitary": "lu"}, "unitary.method='lu'"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**settings)


def test_an_encoder_whose_attention_cannot_be_biased() -> None:
    sizes = {**ARCHITECTURES["bert"], "model_type": "rembert"}
    assert made(MaskedLM, architecture=sizes) is not None
    with pytest.raises(
        ValueError, match=r"'rembert', whose attention cannot be biased.*bert, roberta"
    ):
        made(architecture=sizes)
