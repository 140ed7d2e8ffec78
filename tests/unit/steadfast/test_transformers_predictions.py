"""Predictions of a classifier of `transformers`, in Python."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

import steadfast as sf
from app.hub_folder import adopt_classifier

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "soup"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = BertConfig(
        vocab_size=len(TOKENS), intermediate_size=8, max_position_embeddings=8, **sizes
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    BertTokenizer(str(tmp_path / "vocab.txt"), model_max_length=8).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder: Path) -> Any:
    return sf.load(f"hf:{folder}", device="cpu")


def test_a_long_text_is_named(model: Any) -> None:
    # [CLS] and [SEP] leave six tokens.
    found = model.predict(["good soup " * 3, "good soup " * 4, "bad"])
    assert [one["cut"] for one in found] == [False, True, False]
    assert [one["cut"] for one in model.predict([("good", "bad"), ("good " * 4, "bad " * 4)])] == [
        False,
        True,
    ]


def test_no_texts(model: Any) -> None:
    assert list(model.predict([])) == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([None], "got None at place 0"),
        (["good", 3], "got a int at place 1"),
        ([b"good"], "got a bytes at place 0"),
        (["good", ("good", "bad")], "got a tuple of 2 at place 1"),
        ([("good", "bad"), "good"], "got a single string at place 1"),
    ],
)
def test_other_values_than_texts(model: Any, texts: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.predict(texts)


def test_a_tokenizer_that_cuts_the_begin_is_not_exported_as_another(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "truncation_side": "left"}))
    with pytest.raises(ValueError, match="truncation_side left, expected right: change it"):
        adopt_classifier(f"hf:{folder}", folder / "ours", pairs=False, onnx=False)
    assert not (folder / "ours").exists()
