"""The head of a fine-tuned encoder begins with its pretrained pooler, as transformers' own does."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

import lit_modules
from layers.architectures import configuration
from layers.pretrained_encoders import save_model
from lit_modules import ASA, FineTuning, MaskedLM, UniBERT
from tests.unit.layers.small_encoders import ARCHITECTURES
from tests.unit.lit_modules.builders import make, trainer
from text import Batch, TaskName, collate, save_tokenizer, train_word_piece

TEXTS = ["good", "not a good film , and it is long", "a bad one", "it is what it is"]
TOKENIZER = train_word_piece(TEXTS, 80, max_length=30)


def folder(where: Path, kind: str, *, pooler: bool = True) -> str:
    """An encoder with random weights, as `transformers` saves it, its pooler far from any start."""
    torch.manual_seed(3)
    sizes = {"vocab_size": TOKENIZER.vocab_size, "pad_token_id": TOKENIZER.pad_id}
    config = configuration({**ARCHITECTURES[kind], **sizes})
    encoder: PreTrainedModel = AutoModel.from_config(config)  # type: ignore[no-untyped-call] # theirs
    for name, parameter in encoder.named_parameters():
        if "pooler" in name:
            torch.nn.init.normal_(parameter)
    if not pooler:
        encoder.pooler = None  # type: ignore[assignment] # torch allows it
    where.mkdir(exist_ok=True)
    save_model(encoder, where)
    save_tokenizer(TOKENIZER, where)
    return str(where)


def made(
    backbone: str,
    method: type[FineTuning] = FineTuning,
    *,
    task: TaskName = "classification",
    **settings: Any,
) -> Any:
    module = make(method, backbone=backbone, max_length=30, **settings)
    names = {"classification": ["a", "b", "c"], "choice": ["A", "B"], "tagging": ["O", "B-x"]}
    tokenizer = module.build_tokenizer(TEXTS)
    module.attach(tokenizer, names[task], pairs=task == "choice", task=task)
    module.configure_model()
    return module.eval()


def batch(*, choices: bool = False) -> Batch:
    encodings = TOKENIZER.encode([(text, "good") for text in TEXTS] if choices else TEXTS)
    return collate(encodings, pad_id=TOKENIZER.pad_id, pairs=choices, choices=2 if choices else 1)


@pytest.mark.parametrize("kind", ["bert", "albert"])
@pytest.mark.parametrize("method", [FineTuning, ASA])
def test_logits_are_those_of_transformers(
    method: type[FineTuning], kind: str, tmp_path: Path
) -> None:
    """Under one projection. (RoBERTa's own head has a dense layer that nobody pretrained.)"""
    where = folder(tmp_path / "backbone", kind)
    module = made(where, method)
    theirs = AutoModelForSequenceClassification.from_pretrained(where, num_labels=3)
    theirs.classifier.load_state_dict(module.network.projection.state_dict())
    texts = batch()
    with torch.no_grad():
        expected = theirs.eval()(input_ids=texts.input_ids, attention_mask=texts.mask.long())
        torch.testing.assert_close(module(texts), expected.logits)


def test_logits_of_multiple_choice_are_those_of_transformers(tmp_path: Path) -> None:
    where = folder(tmp_path / "backbone", "bert")
    module = made(where, task="choice")
    theirs = AutoModelForMultipleChoice.from_pretrained(where)
    theirs.classifier.load_state_dict(module.network.projection.state_dict())
    texts = batch(choices=True)
    assert texts.segment_ids is not None
    with torch.no_grad():
        expected = theirs.eval()(
            input_ids=texts.input_ids.view(2, 2, -1),
            attention_mask=texts.mask.long().view(2, 2, -1),
            token_type_ids=texts.segment_ids.view(2, 2, -1),
        )
        torch.testing.assert_close(module(texts), expected.logits)


def has_pooler(module: Any) -> bool:
    dense = getattr(module.network, "classifier", None)
    return dense is not None and float(dense.weight.detach().std()) > 0.5


@pytest.mark.parametrize(
    ("method", "settings", "kept"),
    [
        (FineTuning, {}, True),
        (FineTuning, {"pretrained_pooler": False}, False),
        (FineTuning, {"pooling": "mean"}, False),
        (FineTuning, {"task": "tagging"}, False),
        (UniBERT, {"unitary": "none"}, False),  # the paper begins W_c at random
        (UniBERT, {"unitary": "none", "pretrained_pooler": True}, True),
    ],
)
def test_when_it_is_kept(
    method: type[FineTuning],
    settings: dict[str, Any],
    kept: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    where = folder(tmp_path / "backbone", "bert")
    with caplog.at_level(logging.INFO, "lit_modules.fine_tuning"):
        module = made(where, method, **settings)
    assert has_pooler(module) == kept
    assert ("begins with its pooler" in caplog.text) == kept
    assert not [name for name in module.state_dict() if "pooler" in name]


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "deberta-v2"])
def test_a_folder_without_pooler_is_told(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of masked language models: transformers would fill it at random."""
    where = folder(tmp_path / "backbone", kind, pooler=False)
    with caplog.at_level(logging.INFO, "lit_modules.fine_tuning"):
        module = made(where)
    assert "the head's dense layer begins at random: it has no pooler" in caplog.text
    assert not has_pooler(module)
    assert float(module.network.classifier.bias.detach().abs().max()) == 0


def test_what_pre_training_writes_has_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pretrained = make(MaskedLM, architecture=ARCHITECTURES["bert"])
    pretrained.attach_tokenizer(TOKENIZER)
    pretrained.configure_model()
    pretrained.export(tmp_path)
    with caplog.at_level(logging.INFO, "lit_modules.fine_tuning"):
        made(str(tmp_path))
    assert "begins at random: it has no pooler" in caplog.text


def test_checkpoints_of_older_versions_are_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They have the same weights, and no such setting; nothing is said of where they began."""
    module = made(folder(tmp_path / "backbone", "bert"))
    run = trainer()
    run.strategy.connect(module)
    path = tmp_path / "a.ckpt"
    run.save_checkpoint(path)
    content = torch.load(path, weights_only=True)
    del content["hyper_parameters"]["pretrained_pooler"]
    torch.save(content, path)
    caplog.clear()  # of what was said while it was made
    with caplog.at_level(logging.INFO, "lit_modules.fine_tuning"):
        again = lit_modules.load(path)
    assert "begins" not in caplog.text
    assert torch.equal(again(batch()), module(batch()))
