"""Encoders inside `torch.compile`: the same logits and gradients, in one graph."""

import shutil
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from lit_modules import FineTuning, LipsLev, TaskModule, TextCNN, UniBERT, WordScores
from tests.unit.lit_modules.builders import METHODS, SINGLE, attached, batch_of
from tests.unit.lit_modules.encoders import made

MODELS: dict[str, Callable[[], TaskModule]] = {
    # torch does not trace its own LSTM.
    **{name: partial(attached, build) for name, build in METHODS.items() if name != "lstm"},
    "FineTuning": lambda: made(FineTuning),
    "UniBERT": lambda: made(UniBERT),
    "WordScores": lambda: attached(lambda: WordScores(min_ngram_count=1)),
    "TextCNN": lambda: attached(lambda: TextCNN(width=4)),
    "LipsLev": lambda: attached(lambda: LipsLev(width=4, kernel=3)),
}
QUICK = ("transformer",)


def logits_and_gradients(
    module: TaskModule, classify: Callable[..., Tensor]
) -> tuple[Tensor, list[Tensor]]:
    module.zero_grad()
    logits = classify(batch_of(module, SINGLE))
    logits.square().sum().backward()  # type: ignore[no-untyped-call] # of torch
    gradients = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    return logits.detach(), gradients


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
)
def test_the_same_results(name: str) -> None:
    module = MODELS[name]().eval()
    torch._dynamo.reset()
    compiled = torch.compile(module.forward, backend="aot_eager", fullgraph=True)
    expected, gradients = logits_and_gradients(module, module.forward)
    logits, others = logits_and_gradients(module, compiled)
    torch.testing.assert_close(logits, expected)
    assert len(gradients) == len(others) > 0
    for gradient, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(other, gradient)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler of C++")
@pytest.mark.parametrize("name", ["olsa", "transformer", "FineTuning", "WordScores"])
def test_compiled_code(name: str) -> None:
    module = MODELS[name]().eval()
    torch._dynamo.reset()
    expected, _ = logits_and_gradients(module, module.forward)
    logits, _ = logits_and_gradients(module, torch.compile(module.forward))
    torch.testing.assert_close(logits, expected)
