"""Trainable encoders, cut behind their word embeddings: nothing else about them changes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from layers.architectures import architecture_of, build_encoder, build_masked_lm, check_settings
from layers.backbones import Backbone, BackboneClassifier
from layers.pretrained_encoders import check_fits, load_encoder, load_masked_lm, save_model
from tests.unit.layers.small_encoders import EVERY_KIND, untried

every = pytest.mark.parametrize("kind", EVERY_KIND)
LENGTHS = torch.tensor([9, 5, 7])
MASK = torch.arange(9) < LENGTHS[:, None]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
SEGMENTS = ((torch.arange(9) > 2) & MASK).long()


def backbone(kind: str) -> Backbone:
    torch.manual_seed(3)
    encoder = build_encoder({**EVERY_KIND[kind], "vocab_size": 50})
    with torch.no_grad():  # biases and the like begin at zero, where errors do not show
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    encoder.train(mode=False)
    return Backbone(encoder)


def ids_for(model: Backbone) -> Tensor:
    torch.manual_seed(4)
    ids = torch.randint(5, 50, MASK.shape)
    return ids.masked_fill(~MASK, model.encoder.config.pad_token_id)


def segments_for(model: Backbone) -> Tensor | None:
    return SEGMENTS if getattr(model.encoder.config, "type_vocab_size", 0) > 1 else None


def original(model: Backbone, ids: Tensor) -> Any:
    """What the encoder gives when it is asked as its library means it."""
    segments = segments_for(model)
    extra = {} if segments is None else {"token_type_ids": segments}
    return model.encoder(
        input_ids=ids, attention_mask=MASK.long(), output_hidden_states=True, **extra
    )


@every
def test_nothing_changes_by_the_cut(kind: str) -> None:
    model = backbone(kind)
    ids = ids_for(model)
    x = model.embed(ids, segments_for(model))
    expected = original(model, ids)
    torch.testing.assert_close(
        model(x, MASK)[MASK], expected.last_hidden_state[MASK], rtol=0, atol=1e-5
    )
    states = model.hidden_states(x, MASK)
    assert len(states) == 2
    for actual, target in zip(states, expected.hidden_states[1:], strict=True):
        torch.testing.assert_close(actual[MASK], target[MASK], rtol=0, atol=1e-5)


@every
def test_segments_matter_where_there_are_any(kind: str) -> None:
    model = backbone(kind)
    ids = ids_for(model)
    plain, of_pair = model.embed(ids), model.embed(ids, SEGMENTS)
    assert torch.equal(plain, of_pair) == (segments_for(model) is None)
    # The first text is in segment 0, which is what the encoder takes by itself.
    assert torch.equal(plain[SEGMENTS == 0], of_pair[SEGMENTS == 0])


@every
def test_a_text_alone_is_a_text_padded(kind: str) -> None:
    model = backbone(kind)
    ids, segments = ids_for(model), segments_for(model)
    together = model(model.embed(ids, segments), MASK)
    for row, length in enumerate(LENGTHS.tolist()):
        part = None if segments is None else segments[row : row + 1, :length]
        x = model.embed(ids[row : row + 1, :length], part)
        alone = model(x, torch.ones(1, length, dtype=torch.bool))
        torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-5)


@every
def test_what_stands_at_padding_is_not_seen(kind: str) -> None:
    model = backbone(kind)
    x = model.embed(ids_for(model))
    other = torch.where(MASK.unsqueeze(-1), x, 100.0)
    torch.testing.assert_close(model(x, MASK)[MASK], model(other, MASK)[MASK], rtol=0, atol=1e-5)


@every
def test_gradients_reach_the_embeddings_and_every_weight(kind: str) -> None:
    model = backbone(kind)
    segments = segments_for(model)
    x = model.embed(ids_for(model), segments)
    x.retain_grad()
    hidden = model(x, MASK)
    torch.autograd.backward((hidden[:, 0] * torch.randn(3, 16)).sum())
    assert x.grad is not None
    assert float(x.grad[MASK].abs().sum(dim=-1).min()) > 0
    # An encoder with weights that get none cannot be trained by several processes.
    without = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []


FAST = ("bert", "roberta", "albert", "distilbert", "modernbert", "eurobert", "nomic_bert", "gte")


@every
def test_the_attention_is_the_fast_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library has it: DeBERTa's relative positions go through none of torch's."""
    model = backbone(kind)
    calls: list[int] = []
    real = nn.functional.scaled_dot_product_attention

    def watched(*args: Any, **settings: Any) -> Tensor:
        calls.append(1)
        return real(*args, **settings)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", watched)
    model(model.embed(ids_for(model)), MASK)
    assert len(calls) == (2 if kind.startswith(FAST) else 0)


@every
def test_the_pooler_is_dropped(kind: str) -> None:
    names = [name for name, _ in backbone(kind).named_parameters()]
    assert names
    assert not [name for name in names if "pooler" in name]


@every
def test_the_architecture_alone_rebuilds_it(kind: str) -> None:
    model = backbone(kind)
    description = json.loads(json.dumps(model.architecture))
    assert description == model.architecture
    again = Backbone(build_encoder(description)).eval()
    again.load_state_dict(model.state_dict())
    ids = ids_for(model)
    assert torch.equal(again(again.embed(ids), MASK), model(model.embed(ids), MASK))
    assert again.architecture == description


def test_names_of_classes_are_no_part_of_it() -> None:
    """They come by number, and checkpoints hold texts as keys only."""
    config = BertConfig(**{**_sizes(), "num_labels": 3})
    assert "id2label" in config.to_diff_dict()
    architecture = architecture_of(BertForSequenceClassification(config).base_model)  # type: ignore[arg-type] # it has a base model
    assert {"id2label", "label2id", "problem_type"}.isdisjoint(architecture)


def _sizes() -> dict[str, Any]:
    return {**EVERY_KIND["bert"], "vocab_size": 50}


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_head(pooling: Literal["first", "mean"]) -> None:
    head = BackboneClassifier(backbone("bert"), 4, pooling=pooling).eval()
    x = head.backbone.embed(ids_for(head.backbone))
    hidden = head.backbone(x, MASK)
    rows = []
    for row, length in enumerate(LENGTHS.tolist()):
        pooled = hidden[row, 0] if pooling == "first" else hidden[row, :length].mean(dim=0)
        inner = torch.tanh(head.classifier.weight @ pooled + head.classifier.bias)
        rows.append(head.projection.weight @ inner + head.projection.bias)
    torch.testing.assert_close(head(x, MASK), torch.stack(rows))


def test_a_head_that_pools_late() -> None:
    """That of EuroBERT: the mean comes after the dense layer."""
    head = BackboneClassifier(backbone("eurobert"), 4, pooling="architecture").eval()
    x = head.backbone.embed(ids_for(head.backbone))
    hidden = head.backbone(x, MASK)
    rows = []
    for row, length in enumerate(LENGTHS.tolist()):
        inner = nn.functional.gelu(head.classifier(hidden[row, :length]))
        rows.append(head.projection(inner).mean(dim=0))
    torch.testing.assert_close(head(x, MASK), torch.stack(rows))


@pytest.mark.parametrize("kind", ["bert", "modernbert", "eurobert", "albert"])
def test_dropout_is_everywhere_what_was_asked_for(kind: str) -> None:
    model = backbone(kind).train()
    model.set_dropout(0.3)
    x = model.embed(ids_for(model))
    assert not torch.equal(model(x, MASK), model(x, MASK))
    model.set_dropout(0.0)
    assert torch.equal(model(x, MASK), model(x, MASK))


RATES: dict[str, dict[str, Any]] = {
    "xlm": {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "dropout": 0.5, "attention_dropout": 0.5},
    "esm": {**SIZES, "pad_token_id": 1, "mask_token_id": 2, "attention_probs_dropout_prob": 0.5},
    "opt": {**SIZES, "ffn_dim": 24, "word_embed_proj_dim": 16, "dropout": 0.5},
    "bloom": {
        "hidden_size": 16,
        "n_layer": 2,
        "n_head": 2,
        "pad_token_id": 3,
        "hidden_dropout": 0.5,
    },
}
"""Types that keep a rate of dropout as a number, under several names."""


@pytest.mark.parametrize("kind", RATES)
def test_rates_that_are_numbers_are_set(kind: str) -> None:
    torch.manual_seed(3)
    architecture = {"model_type": kind, **RATES[kind], "vocab_size": 50}
    model = Backbone(build_encoder(architecture, decoders=True)).train()
    x = model.embed(ids_for(model))
    assert not torch.equal(model(x, MASK), model(x, MASK))
    model.set_dropout(0.0)
    assert torch.equal(model(x, MASK), model(x, MASK))


# Folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a masked language model."""
    torch.manual_seed(5)
    save_model(build_masked_lm(_sizes()), tmp_path)
    return tmp_path


def change(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def test_a_folder_loads_as_either(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    encoder = load_encoder(str(folder))
    model, complete = load_masked_lm(str(folder))
    assert complete
    assert encoder.config._attn_implementation == "sdpa"
    ours, theirs = Backbone(encoder).encoder.state_dict(), model.base_model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    # Nothing is said of heads that are missing or not needed, and no bars are drawn.
    assert capfd.readouterr() == ("", "")


def test_files_are_for_everybody(folder: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes.keys() == {"config.json", "model.safetensors"}
    assert set(modes.values()) == {0o644}


def test_half_precision_in_a_folder_is_read_as_float32(folder: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    BertForMaskedLM.from_pretrained(folder, dtype=torch.float16).save_pretrained(half)
    encoder = load_encoder(str(half))
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    again = build_encoder(architecture_of(encoder))
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}


def test_an_encoder_without_head(folder: Path, tmp_path: Path) -> None:
    load_encoder(str(folder)).save_pretrained(tmp_path / "bare")
    model, complete = load_masked_lm(str(tmp_path / "bare"))
    assert not complete
    ours, theirs = model.base_model.state_dict(), load_encoder(str(folder)).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def _truncated(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


BROKEN: dict[str, tuple[Any, str]] = {
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "no file named model.safetensors",
    ),
    "truncated weights": (_truncated, "no encoder could be loaded .*header"),
    "other width": (
        lambda folder: change(folder, hidden_size=32),
        r"weights have other shapes than its config\.json says \(.*\(16,\) and \(32,\)",
    ),
    "more layers": (
        lambda folder: change(folder, num_hidden_layers=3),
        r"whose weights lack 16 of the encoder's .*layer\.2",
    ),
    "unknown type": (lambda folder: change(folder, model_type="evil"), "model type `evil`"),
    "wrong kind": (lambda folder: change(folder, hidden_size="wide"), "expected int, got str"),
    "heads": (lambda folder: change(folder, num_attention_heads=3), "not a multiple"),
    "a list": (
        lambda folder: (folder / "config.json").write_text("[1]"),
        "no encoder could be loaded",
    ),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "not a valid JSON"),
    "nothing": (_emptied, "no encoder could be"),
}


@pytest.mark.parametrize("load", [load_encoder, load_masked_lm])
@pytest.mark.parametrize("case", BROKEN)
def test_broken_folders(folder: Path, case: str, load: Any) -> None:
    harm, message = BROKEN[case]
    harm(folder)
    with pytest.raises(ValueError, match=message) as caught:
        load(str(folder))
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_neither_folder_nor_name(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"which is a file, .* writes a folder, runs/NAME/backbo"):
        load_encoder(str(folder / "model.safetensors"))
    with pytest.raises(ValueError, match=r"no folder, expected one .* or a hub name: pre-training"):
        load_encoder("runs/absent/backbone")
    for name in (str(folder / "absent"), "./absent", "./runs/absent", "../absent"):
        with pytest.raises(ValueError, match=f"'{re.escape(name)}', which is no folder, expected"):
            load_encoder(name)
    with pytest.raises(ValueError, match=r"'~/absent', which is no folder \(~ is left as it is: w"):
        load_encoder("~/absent")


# Architectures


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bret"}, "model_type 'bret', expected .* such as bert"),
        ({"model_type": None}, "model_type None, expected one"),
        ({"hidden_size": "wide"}, "'hidden_size' expected int, got str"),
        ({"hidden_size": -16}, "a backbone's architecture of bert that cannot be"),
        ({"num_attention_heads": 3}, "not a multiple of the number of attention heads"),
        ({"auto_map": {"AutoModel": "evil.Evil"}}, "with auto_map, expected settings of its"),
        ({"model_type": "t5"}, "type t5, which is no text encoder"),
        ({"model_type": "clip"}, "type clip, which is no text encoder"),
    ],
)
@pytest.mark.parametrize("build", [build_encoder, build_masked_lm])
def test_architectures_that_cannot_be(changes: dict[str, Any], message: str, build: Any) -> None:
    kind = changes.get("model_type", "bert")
    if build is build_masked_lm and kind in ("t5", "clip"):
        message = f"type {kind}, which guesses no masked words, expected an encoder"
    base = _sizes() if kind not in ("t5", "clip") else {}
    with pytest.raises(ValueError, match=message) as caught, torch.device("meta"):
        build({**base, **changes})
    assert "\n" not in str(caught.value)


DECODERS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1},
    "bert": {**EVERY_KIND["bert"], "is_decoder": True},
    "xlm": {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "causal": True},
}


@pytest.mark.parametrize("kind", DECODERS)
def test_decoders_are_refused(kind: str, tmp_path: Path) -> None:
    """Their first token sees itself alone: a classifier of it would never see the text."""
    architecture = {**DECODERS[kind], "model_type": kind, "vocab_size": 50}
    message = f"type {kind}, which is a decoder, .* expected one such as bert, .* without is_decod"
    with pytest.raises(ValueError, match=message):
        build_encoder(architecture)
    untried(architecture).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize("kind", ["gpt2", "xlnet"])
def test_masked_words_need_a_model_that_guesses_them(kind: str, tmp_path: Path) -> None:
    architecture = {**{"gpt2": DECODERS["gpt2"], "xlnet": XLNET}[kind], "model_type": kind}
    message = f"type {kind}, which guesses no masked words, expected an encoder that was trained"
    with pytest.raises(ValueError, match=message):
        build_masked_lm({**architecture, "vocab_size": 50})
    untried({**architecture, "vocab_size": 50}).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_masked_lm(str(tmp_path))


def test_an_encoder_and_decoder_is_refused(tmp_path: Path) -> None:
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 50}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    untried({"model_type": "bart", **sizes, **heads}).save_pretrained(tmp_path)
    for load in (load_encoder, load_masked_lm):
        with pytest.raises(ValueError, match="type bart, which is no text encoder, expected one"):
            load(str(tmp_path))


@pytest.mark.parametrize("load", [load_encoder, load_masked_lm])
def test_a_folder_with_code_of_its_own(folder: Path, load: Any) -> None:
    """As the first GTE and NomicBERT on the hub."""
    change(folder, model_type="new", auto_map={"AutoConfig": "a.B", "AutoModel": "a.C"})
    with pytest.raises(ValueError, match=r"no code of a model is run.*a model_type of tran") as e:
        load(str(folder))
    assert "trust_remote_code" not in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("kind", ["bert", "modernbert", "deberta-v2", "distilbert"])
def test_an_encoder_without_a_padding_id(kind: str) -> None:
    """The mask hides what is there: any id will do."""
    torch.manual_seed(3)
    encoder = build_encoder({**EVERY_KIND[kind], "vocab_size": 50, "pad_token_id": None})
    model = Backbone(encoder.train(mode=False))
    ids = torch.randint(5, 50, MASK.shape)
    together = model(model.embed(ids), MASK)
    alone = model(model.embed(ids[1:2, :5]), MASK[1:2, :5])
    torch.testing.assert_close(together[1, :5], alone[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["roberta", "roberta with segments"])
def test_positions_that_are_counted_from_no_padding_id(kind: str) -> None:
    encoder = build_encoder({**EVERY_KIND[kind], "vocab_size": 50, "pad_token_id": None})
    with pytest.raises(ValueError, match="roberta without pad_token_id, from which it counts pos"):
        Backbone(encoder)


XLNET = {"model_type": "xlnet", "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}


@pytest.mark.parametrize("layers", [0, 2])
def test_kinds_that_guess_no_masked_words_are_tried(layers: int) -> None:
    """XLNet is no masked language model, and sees both sides; without layers, neither."""
    torch.manual_seed(3)
    encoder = build_encoder({**XLNET, "n_layer": layers, "vocab_size": 50})
    assert encoder.training
    after = torch.rand(1)
    torch.manual_seed(3)
    untried({**XLNET, "n_layer": layers, "vocab_size": 50})
    assert torch.equal(torch.rand(1), after)  # nothing was drawn
    with torch.device("meta"):
        build_encoder({**XLNET, "n_layer": layers, "vocab_size": 50})


@every
def test_settings_are_known(kind: str) -> None:
    check_settings(EVERY_KIND[kind])


def test_misspelt_settings() -> None:
    check_settings({"model_type": "distilbert", "hidden_size": 16})  # by its other name
    with pytest.raises(ValueError, match=r"'hiden_size' .* of a bert.*did you mean hidden_size\?"):
        check_settings({"model_type": "bert", "hiden_size": 16})
    with pytest.raises(ValueError, match=r"no such setting: known are .*hidden_size"):
        check_settings({"model_type": "bert", "xyz": 16})
    with pytest.raises(ValueError, match="model_type None"):
        check_settings({})


@every
def test_positions(kind: str) -> None:
    """As many tokens as are said to fit do, and one more is refused or has its place, too."""
    model = backbone(kind)
    longest = 38 if kind.startswith(("roberta", "mpnet")) else 40
    check_fits(model.encoder, 50, longest)
    ones = torch.ones(1, longest, dtype=torch.long)
    assert model(model.embed(5 * ones), ones.bool()).isfinite().all()
    with pytest.raises(ValueError, match="got a tokenizer of 51 ids"):
        check_fits(model.encoder, 51, longest)
    if kind == "deberta-v2":  # relative positions only
        check_fits(model.encoder, 50, 100)
        return
    with pytest.raises(ValueError, match=rf"expected at most 50 ids and {longest} tokens"):
        check_fits(model.encoder, 50, longest + 1)
