"""Classifying with any encoder: the same from a folder, from a checkpoint, alone and in a batch."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import BertConfig, BertForSequenceClassification

import lit_modules
from layers import unitary_residual, unitary_weights
from layers.architectures import build_masked_lm
from layers.pretrained_encoders import load_encoder, save_model
from lit_modules import MaskedLM, UniBERT
from lit_modules.shared.multi_margin import multi_margin_losses
from lit_modules.shared.unitary_projection import UnitaryProjection
from tests.unit.layers.small_encoders import ARCHITECTURES
from tests.unit.lit_modules.builders import (
    PAIRS,
    SINGLE,
    attached,
    batch_of,
    loader,
    make,
    save_backbone,
    trainer,
)
from tests.unit.lit_modules.shared.unitary_models import unibert
from text import PretrainedTokenizer, save_tokenizer, train_word_piece

CONFIGS = Path(__file__).parents[3] / "configs"
every = pytest.mark.parametrize("kind", ARCHITECTURES)


def model(kind: str = "bert", *, pairs: bool = False, **settings: Any) -> UniBERT:
    # Of DeBERTa's weights only the attention outputs are square; that is documented.
    module = attached(unibert(architecture=ARCHITECTURES[kind], **settings), pairs=pairs)
    assert isinstance(module, UniBERT)
    return module


def save(module: UniBERT, path: Path, texts: list[Any] = SINGLE) -> None:
    run = trainer(max_steps=2, max_epochs=-1, limit_val_batches=0)
    run.fit(module.train(), loader(module, texts, 2), loader(module, texts, 2))
    run.save_checkpoint(path)


@every
def test_a_checkpoint_alone_is_the_model(kind: str, tmp_path: Path) -> None:
    module = model(kind)
    save(module, tmp_path / "a.ckpt")
    again = lit_modules.load(tmp_path / "a.ckpt")
    assert torch.equal(again.predict_texts(SINGLE), module.eval().predict_texts(SINGLE))
    assert isinstance(again, UniBERT)
    assert again.network.backbone.architecture == module.network.backbone.architecture


@pytest.mark.parametrize("kind", ["bert", "albert", "deberta with segments"])
def test_pairs(kind: str, tmp_path: Path) -> None:
    module = model(kind, pairs=True)
    save(module, tmp_path / "a.ckpt", PAIRS)
    again = lit_modules.load(tmp_path / "a.ckpt")
    logits = again.predict_texts(PAIRS)
    assert torch.equal(logits, module.eval().predict_texts(PAIRS))
    alone = torch.cat([again.predict_texts([pair]) for pair in PAIRS])
    torch.testing.assert_close(logits, alone, rtol=0, atol=1e-5)
    swapped = again.predict_texts([(pair[1], pair[0]) for pair in PAIRS])
    assert not torch.allclose(logits, swapped, atol=1e-3)


@pytest.mark.parametrize("pooling", ["first", "mean"])
@every
def test_a_text_alone_is_a_text_in_a_batch(kind: str, pooling: str) -> None:
    module = model(kind, pooling=pooling)
    together = module.predict_texts(SINGLE)
    alone = torch.cat([module.predict_texts([text]) for text in SINGLE])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_from_a_folder_without_which_it_is_loaded(tmp_path: Path) -> None:
    pretrained = make(MaskedLM, architecture=ARCHITECTURES["bert"], max_length=30)
    texts = [text for text in SINGLE if isinstance(text, str)]
    pretrained.attach_tokenizer(train_word_piece(texts, 80, max_length=30))
    pretrained.configure_model()
    folder = tmp_path / "backbone"
    folder.mkdir()
    pretrained.export(folder)
    module = make(UniBERT, backbone=str(folder), max_length=20)
    module.attach(module.build_tokenizer(SINGLE), ["a", "b", "c"])
    module.configure_model()
    assert module.require_tokenizer().max_length == 20
    save(module, tmp_path / "a.ckpt")
    shutil.rmtree(folder)
    again = lit_modules.load(tmp_path / "a.ckpt")
    assert torch.equal(again.predict_texts(SINGLE), module.eval().predict_texts(SINGLE))


@pytest.mark.long
def test_from_a_folder_of_a_classifier_with_named_classes(tmp_path: Path) -> None:
    """Its names of classes, which come by number, are not kept: checkpoints take none such."""
    folder = Path(save_backbone(tmp_path, "bert"))
    encoder = load_encoder(str(folder))
    config = BertConfig(
        **{**encoder.config.to_dict(), "id2label": {0: "no", 1: "may be", 2: "yes"}}
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    module = make(UniBERT, backbone=str(folder), max_length=20)
    module.attach(module.build_tokenizer(SINGLE), ["a", "b", "c"])
    module.configure_model()
    save(module, tmp_path / "a.ckpt")
    again = lit_modules.load(tmp_path / "a.ckpt")
    assert torch.equal(again.predict_texts(SINGLE), module.eval().predict_texts(SINGLE))


@pytest.mark.long
@pytest.mark.pretrained
def test_from_the_packaged_encoder(minilm: str, tmp_path: Path) -> None:
    module = make(UniBERT, backbone=minilm, max_length=20, unitary="none")
    tokenizer = module.build_tokenizer(SINGLE)
    module.attach(tokenizer, ["a", "b", "c"])
    module.configure_model()
    backbone, batch = module.eval().network.backbone, batch_of(module, SINGLE)
    encoder = load_encoder(minilm)
    encoder.train(mode=False)
    expected = encoder(input_ids=batch.input_ids, attention_mask=batch.mask.long())
    output = backbone(module.embed(batch), batch.mask)
    torch.testing.assert_close(
        output[batch.mask], expected.last_hidden_state[batch.mask], rtol=0, atol=1e-5
    )
    assert len(module.activations(batch)) == backbone.encoder.config.num_hidden_layers
    module.source.backbone = None  # of no use any more
    path = tmp_path / "a.ckpt"
    run = trainer(max_steps=1, limit_val_batches=0)
    run.fit(module, loader(module, SINGLE, 2), loader(module, SINGLE, 2))
    run.save_checkpoint(path)
    again = lit_modules.load(path)
    assert torch.equal(again.predict_texts(SINGLE), module.eval().predict_texts(SINGLE))


def test_activations_are_those_that_are_classified() -> None:
    module = model()
    batch = batch_of(module, SINGLE)
    states = module.activations(batch)
    assert [tuple(state.shape) for state in states] == [(*batch.mask.shape, 16)] * 2
    assert torch.equal(states[-1], module.network.backbone(module.embed(batch), batch.mask))


def test_objectives() -> None:
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 0, 1])
    plain = model(loss="cross_entropy")
    torch.testing.assert_close(
        plain.loss(logits, labels), torch.nn.functional.cross_entropy(logits, labels)
    )
    summed, mean = model(margin=7.0), model(margin=7.0, form="mean")
    by_sample = multi_margin_losses(logits, labels, margin=7.0)
    torch.testing.assert_close(summed.loss(logits, labels), by_sample.mean())
    assert float(summed.loss(logits, labels)) == pytest.approx(3 * float(mean.loss(logits, labels)))
    assert model().objective.margin == 100


@pytest.mark.long
def test_how_many_samples_meet_the_margin_is_logged() -> None:
    """At a margin of 0.05 some do; the objective is the hinge, the loss is cross-entropy."""
    module = model(margin=0.05, unitary="none", dropout=0.0, backbone_dropout=0.0)
    with torch.no_grad():
        module.network.projection.weight.mul_(100)
    batch = batch_of(module, SINGLE)
    labels = batch.labels
    assert labels is not None
    with torch.no_grad():
        logits = module(batch)
    gaps = [
        float(row[label] - max(y for j, y in enumerate(row) if j != label))
        for row, label in zip(logits, labels, strict=True)
    ]
    met = sum(gap >= 0.05 for gap in gaps) / len(gaps)
    assert 0 < met < 1
    hinges = multi_margin_losses(logits, labels, margin=0.05).mean().item()
    run = trainer()
    run.validate(module, loader(module, SINGLE, 3), verbose=False)
    metrics = {name: value.item() for name, value in run.callback_metrics.items()}
    assert metrics["val/margin_met"] == pytest.approx(met)
    assert metrics["val/logit_gap"] == pytest.approx(sum(gaps) / len(gaps), rel=1e-4)
    assert metrics["val/objective"] == pytest.approx(hinges, rel=1e-4)
    cross_entropy = torch.nn.functional.cross_entropy(logits, labels).item()
    assert metrics["val/loss"] == pytest.approx(cross_entropy, rel=1e-4)
    run = trainer(max_epochs=1, log_every_n_steps=1)
    data = loader(module, SINGLE, len(SINGLE))
    run.fit(module.train(), data, data)
    trained = {name: value.item() for name, value in run.callback_metrics.items()}
    assert trained["train/margin_met"] == pytest.approx(met)
    assert trained["train/logit_gap"] == pytest.approx(sum(gaps) / len(gaps), rel=1e-4)
    assert trained["train/loss"] == pytest.approx(hinges, rel=1e-4)
    run = trainer()
    plain = model(loss="cross_entropy")
    run.validate(plain, loader(plain, SINGLE, 3), verbose=False)
    assert not {"val/margin_met", "val/objective"} & run.callback_metrics.keys()


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_precisions(precision: Any) -> None:
    module = model(dropout=0.0, backbone_dropout=0.0).train()
    run = trainer(max_steps=3, max_epochs=-1, precision=precision, limit_val_batches=0)
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 3))
    weights = list(unitary_weights(module).values())
    assert float(unitary_residual(weights).max()) < 1e-5
    dtype = torch.float64 if precision == "64-true" else torch.float32
    assert {weight.dtype for weight in weights} == {dtype}


@pytest.mark.parametrize("rate", [None, 0.0, 0.3])
def test_dropout_of_the_encoder(rate: float | None) -> None:
    encoder = model(backbone_dropout=rate).network.backbone.encoder
    rates = {m.p for m in encoder.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == {0.1 if rate is None else rate}


# The projection


def test_the_projection_comes_with_it() -> None:
    settings: dict[str, Any] = {"every_n_steps": 3, "weights": ["query.weight"], "unitary": "polar"}
    (projection,) = model(**settings).configure_callbacks()
    assert isinstance(projection, UnitaryProjection)
    assert (projection.method, projection.settings.every_n_steps) == ("polar", 3)
    assert projection.patterns == ["query.weight"]
    assert projection.settings.gradual_steps == 0
    (gradual,) = model(gradual_steps=5).configure_callbacks()
    assert isinstance(gradual, UnitaryProjection)
    assert gradual.settings.gradual_steps == 5
    assert model(unitary="none").configure_callbacks() == []


@pytest.mark.long
@every
def test_fits_of_every_encoder_end_unitary(kind: str) -> None:
    module = model(kind).train()
    run = trainer(max_steps=3, max_epochs=-1, limit_val_batches=0)
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 3))
    chosen = unitary_weights(module)
    assert all(name.startswith("network.backbone.") for name in chosen)
    assert float(unitary_residual(list(chosen.values())).max()) < 1e-5


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": None}, "got backbone.pretrained=None, backbone.architecture=None"),
        ({"backbone": "a"}, "got backbone.pretrained='a', backbone.architecture="),
        ({"margin": 0.0}, "margin=0.0"),
        ({"margin": float("nan")}, "margin=nan"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"form": "max"}, "form='max'"),
        ({"unitary": "lu"}, "unitary.method='lu'"),
        ({"pooling": "second"}, "pooling='second'"),
        ({"every_n_steps": 0}, "every_n_steps=0"),
        ({"gradual_steps": -1}, "gradual_steps=-1"),
        ({"dropout": 1.5}, "dropout"),
        ({"backbone_dropout": -0.1}, "dropout"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unibert(**settings)()


def test_backbones_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "last.ckpt").write_text("")
    for name, message in (
        (str(tmp_path / "last.ckpt"), "which is a file, expected a folder or hub name"),
        ("runs/absent/backbone", r"which is no folder, .* or a hub name: pre-training"),
    ):
        with pytest.raises(ValueError, match=message):
            make(UniBERT, backbone=name).build_tokenizer(SINGLE)
        with pytest.raises(ValueError, match=message):
            make(MaskedLM, backbone=name).build_tokenizer(SINGLE)
        with pytest.raises(ValueError, match=message):
            make(MaskedLM, architecture={"model_type": "bert"}, tokenizer=name).build_tokenizer(
                SINGLE
            )


def test_a_tokenizer_with_more_ids_than_the_encoder(tmp_path: Path) -> None:
    """Of a folder that was put together by hand."""
    folder = save_backbone(tmp_path, "bert")
    words = [f"word{i}" for i in range(300)]
    module = make(UniBERT, backbone=folder, max_length=20)
    module.attach(train_word_piece([" ".join(words)], 400, max_length=20), ["a", "b"])
    with pytest.raises(ValueError, match=r"a tokenizer of \d+ ids .* use the tokenizer it was tra"):
        module.configure_model()


def test_texts_longer_than_the_encoder_takes(tmp_path: Path) -> None:
    folder = save_backbone(tmp_path, "bert")
    with pytest.raises(ValueError, match="got max_length=41, expected at most 40"):
        make(UniBERT, backbone=folder, max_length=41).build_tokenizer(SINGLE)
    with pytest.raises(ValueError, match=r"max_length=41, expected at most .* 40 tokens"):
        model(max_length=41)


def test_architectures_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"'hiden_size' .* did you mean hidden_size\?"):
        attached(unibert(architecture={"model_type": "bert", "hiden_size": 16}))
    with pytest.raises(ValueError, match="expected int, got str"):
        attached(unibert(architecture={"model_type": "bert", "hidden_size": "wide"}))
    with pytest.raises(ValueError, match="with auto_map, expected settings of its layers alone"):
        attached(unibert(architecture={"model_type": "bert", "auto_map": {}}))


def test_wrong_patterns_are_found_with_the_layers() -> None:
    with pytest.raises(ValueError, match=r"'querry', which fits no .*attention\.self\.query"):
        model(weights=["querry"])
    with pytest.raises(ValueError, match=r"intermediate.* of shape \(24, 16\) .* choose among"):
        model(weights=["intermediate.dense.weight"])
    model(unitary="none", weights=["querry"])


def test_the_tokenizer_is_that_of_the_folder(tmp_path: Path) -> None:
    tokenizer = make(
        UniBERT, backbone=save_backbone(tmp_path, "bert"), max_length=20
    ).build_tokenizer([])
    assert isinstance(tokenizer, PretrainedTokenizer)
    assert tokenizer.max_length == 20


def test_the_learning_rate_of_the_head() -> None:
    settings: dict[str, Any] = {
        "warmup": 0.0,
        "decay": "none",
        "optimizer": partial(torch.optim.AdamW, lr=1e-3),
    }
    module = model(head_lr_factor=20.0, **settings)
    optimizer: Any = module.configure_optimizers()
    rate = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    encoder = {id(p) for p in module.network.backbone.parameters()}
    assert rate.keys() == {id(p) for p in module.parameters()}
    assert rate == {p: pytest.approx(1e-3 if p in encoder else 2e-2) for p in rate}
    with pytest.raises(ValueError, match=r"^got head_lr_factor=0.0, expected .* more than 0$"):
        model(head_lr_factor=0.0)


@pytest.mark.parametrize("kind", ["roberta", "albert", "distilbert"])
def test_the_baselines_of_table_2_fine_tune(kind: str, tmp_path: Path) -> None:
    """Their settings files on a small encoder of their kind: cross-entropy, nothing unitary."""
    content = yaml.safe_load((CONFIGS / f"unibert/trims/{kind}.yaml").read_text())
    settings = content["model"]["init_args"]
    assert settings.pop("backbone")["pretrained"].startswith(kind)
    source = model(kind)
    torch.manual_seed(0)
    save_model(build_masked_lm(source.network.backbone.architecture), tmp_path)
    tokenizer = source.tokenizer
    assert isinstance(tokenizer, PretrainedTokenizer)
    save_tokenizer(tokenizer, tmp_path)
    groups = {group: settings.pop(group) for group in ("objective", "unitary")}
    flat = {f"{group}.{name}": v for group, own in groups.items() for name, v in own.items()}
    folder = str(tmp_path)
    module = attached(lambda: make(UniBERT, pretrained=folder, max_length=30, **settings, **flat))
    assert isinstance(module, UniBERT)
    before = {name: p.clone() for name, p in module.named_parameters()}
    run = trainer(max_steps=2, max_epochs=-1, limit_val_batches=0)
    run.fit(module.train(), loader(module, SINGLE, 2), loader(module, SINGLE, 2))
    assert module.projection is None
    assert not module.own_objective
    moved = [name for name, p in module.named_parameters() if not torch.equal(p, before[name])]
    assert any(".attention." in name for name in moved)
