"""Every method offers the same settings, explains them, and keeps plain values only."""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import yaml
from pytorch_lightning.core.mixins.hparams_mixin import _given_hyperparameters_context

from lit_modules import METHODS as METHODS_BY_NAME
from lit_modules import OLSA, AdversarialTraining, TaskModule, TextClassifier, TextModule
from tests.unit.lit_modules.builders import METHODS, SINGLE, Build

COMMON = {"optimizer", "lr_scheduler", "max_length", "warmup", "decay"}
WORDS = {"min_count", "max_vocab_size"}
"""Of methods with a vocabulary of whole words."""
REQUIRED = {("UnitaryDistillation", "backbone")}
"""Settings that nothing can stand for."""


@pytest.mark.parametrize("method", METHODS_BY_NAME.values(), ids=METHODS_BY_NAME.keys())
def test_settings_are_there_and_explained(method: type[TextModule]) -> None:
    parameters = dict(inspect.signature(method.__init__).parameters)
    del parameters["self"]
    # What wraps a classifier leaves the texts to it.
    common = COMMON - {"max_length"} if method is AdversarialTraining else COMMON
    assert common | (WORDS if method in (OLSA, TextClassifier) else set()) <= parameters.keys()
    for name, parameter in parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        given = parameter.default is not inspect.Parameter.empty
        assert given != ((method.__name__, name) in REQUIRED)
        assert parameter.annotation is not inspect.Parameter.empty
    docstring = inspect.getdoc(method.__init__) or ""
    explained = re.findall(r"^    (\w+): \S", docstring.split("Args:")[1], flags=re.MULTILINE)
    assert explained == list(parameters)


@pytest.mark.parametrize("build", METHODS.values(), ids=METHODS.keys())
def test_hyperparameters_are_plain(build: Build) -> None:
    """Anything else could not be read back safely."""
    settings = dict(build().hparams)
    inner = settings["classifier"]["settings"] if "classifier" in settings else settings
    assert "depth" in inner
    assert not {"optimizer", "lr_scheduler"} & inner.keys()
    assert not {"optimizer", "lr_scheduler"} & settings.keys()
    assert yaml.safe_load(yaml.safe_dump(settings)) == settings
    for value in plain_values(settings):
        assert value is None or isinstance(value, (bool, int, float, str))


def plain_values(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict | list):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from plain_values(part)
    else:
        yield tree


@contextmanager
def command_line(**settings: Any) -> Iterator[None]:
    """What LightningCLI puts around making a module: hparams are the arguments it was given."""
    given = {"_class_path": "a.B", **settings}
    with _given_hyperparameters_context(given, "pytorch_lightning.cli.instantiate_module"):
        yield


class DeepOLSA(OLSA):
    def __init__(self, *, layers: int = 2) -> None:
        super().__init__(depth=layers, width=8, heads=2)


class WideTransformer(TextClassifier):
    def __init__(self, *, size: int = 8) -> None:
        super().__init__(depth=1, width=size, heads=2)


@pytest.mark.parametrize(
    ("method", "settings"), [(DeepOLSA, {"layers": 1}), (WideTransformer, {"size": 12})]
)
def test_subclass_with_settings_of_its_own(
    method: type[TaskModule], settings: dict[str, Any]
) -> None:
    with command_line(**settings):
        module = method(**settings)
    module.attach(module.build_tokenizer(SINGLE), ["a", "b"])
    module.configure_model()
    assert module.predict_texts(SINGLE).shape == (len(SINGLE), 2)
    assert module.hparams.items() >= settings.items()


def test_optimizer_given_by_the_command_line_is_no_hyperparameter() -> None:
    with command_line(depth=1, optimizer={"class_path": "x"}, lr_scheduler=None, width=16):
        module = OLSA(depth=1, width=16)
    assert "optimizer" not in module.hparams
    assert "lr_scheduler" not in module.hparams


def test_optimizer_gets_what_is_trainable() -> None:
    seen: list[Any] = []

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        seen[:] = parameters  # the last time: it is tried with another one before
        return torch.optim.SGD(seen, lr=0.1)

    module = OLSA(width=8, heads=2, optimizer=optimizer, warmup=0.0, decay="none")
    module.attach(module.build_tokenizer(SINGLE), ["a", "b"])
    module.configure_model()
    module.network.requires_grad_(requires_grad=False)
    module.configure_optimizers()
    assert [id(p) for p in seen] == [id(p) for p in module.parameters() if p.requires_grad]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: OLSA(depth=-1), "got depth=-1, expected a whole number of at least 0"),
        (lambda: TextClassifier(depth=-1), "got depth=-1, expected a whole number of at least 0"),
        (lambda: TextClassifier(gamma=1.0), "it has no certificate to train for; use OLSA or mean"),
        (lambda: TextClassifier(encoder="rnn"), "got encoder='rnn'"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense(build: Build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
