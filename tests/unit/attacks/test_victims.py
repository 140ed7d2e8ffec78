"""Whatever can be attacked answers the same questions in the same way, or says what is wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attacks.victims import (
    CallableVictim,
    HuggingFaceVictim,
    ModuleVictim,
    VictimError,
    as_victim,
)
from text import Text

TEXTS: list[Text] = ["good film", "a", "one two three four five six seven", "bad"]


class Module(nn.Module):
    """Counts characters; runs out of memory on more than `memory` texts."""

    def __init__(self, memory: int = 10**9) -> None:
        super().__init__()
        self.memory = memory
        self.sizes: list[int] = []

    def predict_texts(self, texts: Sequence[Text], *, batch_size: int) -> Tensor:
        parts = []
        for start in range(0, len(texts), batch_size):
            part = texts[start : start + batch_size]
            self.sizes.append(len(part))
            if len(part) > self.memory:
                msg = "CUDA out of memory"
                raise torch.cuda.OutOfMemoryError(msg)
            parts.append(torch.tensor([[float(len(text)), 0.0] for text in part]))
        return torch.cat(parts)


def test_modules() -> None:
    module = Module()
    victim = as_victim(module, batch_size=3)
    assert victim.logits(TEXTS)[:, 0].tolist() == [len(text) for text in TEXTS]
    assert module.sizes == [3, 1]
    assert victim.name == "Module"


def test_less_memory_than_expected(caplog: pytest.LogCaptureFixture) -> None:
    module = Module(memory=2)
    victim = ModuleVictim(module, batch_size=8)
    expected = [len(text) for text in TEXTS]
    assert victim.logits(TEXTS)[:, 0].tolist() == expected
    assert victim.batch_size == 2
    assert "2 texts per batch from here on" in caplog.text
    assert victim.logits(TEXTS)[:, 0].tolist() == expected


def test_no_memory_at_all() -> None:
    with pytest.raises(torch.cuda.OutOfMemoryError):
        ModuleVictim(Module(memory=0), batch_size=4).logits(TEXTS)


def lengths(texts: list[Text]) -> list[list[float]]:
    return [[0.0, float(len(text))] for text in texts]


def test_functions() -> None:
    victim = as_victim(lengths, batch_size=3)
    assert victim.logits(TEXTS)[:, 1].tolist() == [len(text) for text in TEXTS]


def test_probabilities_become_logits() -> None:
    def function(texts: list[Text]) -> list[list[float]]:
        return [[0.25, 0.75]] * (len(texts) - 1) + [[1.0, 0.0]]

    logits = CallableVictim(function, outputs="probabilities").logits(TEXTS)
    np.testing.assert_allclose(np.exp(logits[0]), [0.25, 0.75])
    assert np.isfinite(logits).all()


def test_probabilities_that_are_none() -> None:
    with pytest.raises(VictimError, match=r"do not sum to 1 \(the worst to 33\)"):
        CallableVictim(lambda texts: [[16.0, 17.0]] * len(texts), outputs="probabilities").logits(
            TEXTS
        )


def test_logits_that_look_like_probabilities(caplog: pytest.LogCaptureFixture) -> None:
    victim = CallableVictim(lambda texts: [[0.5, 0.5]] * len(texts))
    for _ in range(2):
        victim.logits(TEXTS)
    assert caplog.text.count('say outputs="probabilities"') == 1


def raising(texts: list[Text]) -> Any:
    msg = "no such word"
    raise KeyError(msg)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raising, r"raised KeyError: 'no such word', on 4 text\(s\) beginning with 'good film'"),
        (lambda texts: [[1.0, 2.0]], r"shape \[1, 2\] to 4 text\(s\), expected \[4, classes\]"),
        (lambda texts: [1.0] * len(texts), r"shape \[4\]"),
        (lambda texts: [[1.0]] * len(texts), "at least two classes"),
        (lambda texts: [[1.0, 2.0], [1.0]] * 2, "got list, expected numbers"),
        (lambda texts: None, "got NoneType, expected numbers|shape"),
        (
            lambda texts: [[0.0, float("nan") if "bad" in text else 1.0] for text in texts],
            "got NaN for 1 of 4 text.*the first is 'bad'",
        ),
    ],
)
def test_answers_that_are_none(function: Callable[[list[Text]], Any], message: str) -> None:
    with pytest.raises(VictimError, match=message):
        CallableVictim(function).logits(TEXTS)


def test_what_cannot_be_attacked() -> None:
    with pytest.raises(TypeError, match="got a int to attack"):
        as_victim(3)


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    folder: Path = tmp_path_factory.mktemp("tokenizer")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "two"]
    (folder / "vocab.txt").write_text("\n".join(words))
    tokenizer = BertTokenizer(str(folder / "vocab.txt"), model_max_length=12)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    return BertForSequenceClassification(config), tokenizer


@pytest.mark.parametrize("texts", [TEXTS, [("good", "bad film"), ("a " * 30, "two")]])
def test_transformers_models(hugging_face: tuple[Any, Any], texts: list[Text]) -> None:
    model, tokenizer = hugging_face
    model.train()
    victim = as_victim(model, tokenizer=tokenizer, batch_size=2)
    assert isinstance(victim, HuggingFaceVictim)
    assert victim.max_length == 12
    together = victim.logits(texts)
    alone = np.concatenate([victim.logits([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert model.training


def test_transformers_models_need_their_tokenizer(hugging_face: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match="without tokenizer"):
        as_victim(hugging_face[0])
