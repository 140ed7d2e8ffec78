"""Whatever can be attacked answers the same questions in the same way, or says what is wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attacks.victims.kinds import (
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
        (lambda texts: [[1.0]] * len(texts), r"two classes: .* for one logit z answer \[0, z\]"),
        (lambda texts: [[0.0, -np.inf]] * len(texts), "got -infinity for 4 of 4 text.*has -1e4"),
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


def small() -> dict[str, Any]:
    return {
        "vocab_size": 10,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 16,
    }


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    folder: Path = tmp_path_factory.mktemp("tokenizer")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "two"]
    (folder / "vocab.txt").write_text("\n".join(words))
    tokenizer = BertTokenizer(str(folder / "vocab.txt"), model_max_length=12)
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**small())), tokenizer


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


class Dropping(nn.Module):
    """A module of somebody: texts to logits, at random while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout()
        self.frozen = nn.Dropout().eval()
        self.weight = nn.Parameter(torch.ones(2, 64))

    def forward(self, texts: list[Text]) -> Tensor:
        wide = self.drop(self.weight) + self.frozen(self.weight)
        lengths = torch.tensor([float(len(text)) for text in texts])
        answer: Tensor = lengths[:, None] * wide.sum(dim=1)
        return answer


@pytest.mark.parametrize("asked", ["module", "method"])
def test_a_module_answers_in_evaluation_mode(asked: str) -> None:
    module = Dropping().train()
    module.frozen.eval()
    victim = as_victim(module if asked == "module" else module.forward)
    answer = victim.logits(TEXTS)
    np.testing.assert_array_equal(answer, [[128 * len(text)] * 2 for text in TEXTS])
    assert module.training
    assert module.drop.training
    assert not module.frozen.training


def test_a_transformers_model_is_left_as_it_was(hugging_face: tuple[Any, Any]) -> None:
    model, tokenizer = hugging_face
    model.train()
    model.base_model.eval()
    as_victim(model, tokenizer=tokenizer).logits(TEXTS)
    assert model.training
    assert not model.base_model.training


def test_the_model_says_how_long_a_text_may_be(hugging_face: tuple[Any, Any]) -> None:
    model, tokenizer = hugging_face
    unlimited = type(tokenizer)(vocab=tokenizer.get_vocab())
    victim = HuggingFaceVictim(model, unlimited)
    assert victim.max_length == 16  # all positions: only RoBERTa and its kin keep some
    assert np.isfinite(victim.logits(["good film " * 40])).all()


def test_no_padding_token(hugging_face: tuple[Any, Any]) -> None:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    tokenizer = type(hugging_face[1])(vocab=hugging_face[1].get_vocab(), pad_token=None)
    config = GPT2Config(
        vocab_size=10, n_embd=16, n_layer=1, n_head=2, bos_token_id=2, eos_token_id=3
    )
    model = GPT2ForSequenceClassification(config)
    expected = "got a tokenizer with pad_token_id=None and a model with None, expected one token"
    with pytest.raises(ValueError, match=expected):
        as_victim(model, tokenizer=tokenizer)
    tokenizer.pad_token = "[SEP]"
    with pytest.raises(ValueError, match="pad_token_id=3 and a model with None"):
        as_victim(model, tokenizer=tokenizer)
    model.config.pad_token_id = tokenizer.pad_token_id
    victim = as_victim(model, tokenizer=tokenizer)
    alone = np.concatenate([victim.logits([text]) for text in TEXTS])
    np.testing.assert_allclose(victim.logits(TEXTS), alone, atol=1e-6)


def test_models_that_are_no_classifiers(hugging_face: tuple[Any, Any]) -> None:
    from transformers import BertForSequenceClassification

    model, tokenizer = hugging_face
    with pytest.raises(VictimError, match="got BertModel, which answers without logits"):
        as_victim(model.base_model, tokenizer=tokenizer).logits(TEXTS)
    regression = BertForSequenceClassification(type(model.config)(**small(), num_labels=1))
    with pytest.raises(ValueError, match="at least two classes: a regression has none"):
        as_victim(regression, tokenizer=tokenizer)
    config = type(model.config)(**small(), num_labels=3, problem_type="multi_label_classification")
    several = BertForSequenceClassification(config)
    with pytest.raises(ValueError, match="which gives several classes to a text"):
        as_victim(several, tokenizer=tokenizer)


def test_pipelines(hugging_face: tuple[Any, Any]) -> None:
    from transformers import BertForMaskedLM, pipeline

    model, tokenizer = hugging_face
    expected = as_victim(model, tokenizer=tokenizer).logits(TEXTS)
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer)
    victim = as_victim(classify)
    assert isinstance(victim, HuggingFaceVictim)
    np.testing.assert_array_equal(victim.logits(TEXTS), expected)
    fill = pipeline("fill-mask", model=BertForMaskedLM(model.config), tokenizer=tokenizer)
    with pytest.raises(TypeError, match="got a pipeline for fill-mask, expected one for text-"):
        as_victim(fill)
