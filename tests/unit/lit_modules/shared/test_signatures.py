"""Every method offers the same settings, explains them, and keeps plain values only."""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any

import pytest
import torch
import yaml
from pytorch_lightning.core.mixins.hparams_mixin import _given_hyperparameters_context

from lit_modules import METHODS as METHODS_BY_NAME
from lit_modules import OLSA, AdversarialTraining, TaskModule, TextClassifier, TextModule, WindowMax
from lit_modules.shared.settings import parameters, plain, rebuilt
from tests.unit.lit_modules.builders import METHODS, SINGLE, Build, make

COMMON = {"optimisation", "max_length"}
WORDS = {"min_count", "max_vocab_size"}
"""Of methods with a vocabulary of whole words."""
WRAPPERS = (AdversarialTraining, WindowMax)


def classes(method: type) -> list[type]:
    """Those that declare its settings."""
    bases = [one for one in method.__mro__ if "__init__" in vars(one)]
    return bases[: bases.index(TextModule) + 1] if TextModule in bases else bases


def own(one: type) -> dict[str, inspect.Parameter]:
    return dict(list(inspect.signature(vars(one)["__init__"]).parameters.items())[1:])


def explained(text: str | None, heading: str) -> list[str]:
    part = inspect.cleandoc(text or "").split(f"{heading}:\n")[1].split("\n\n")[0]
    return re.findall(r"^    (\w+): \S", part, flags=re.MULTILINE)


@pytest.mark.parametrize("method", METHODS_BY_NAME.values(), ids=METHODS_BY_NAME.keys())
def test_settings_are_there_and_explained(method: type[TextModule]) -> None:
    actual = parameters(method)
    # What wraps a classifier leaves the texts to it.
    common = COMMON - {"max_length"} if method in WRAPPERS else COMMON
    assert common | (WORDS if method in (OLSA, TextClassifier) else set()) <= actual.keys()
    for parameter in actual.values():
        assert parameter.default is not inspect.Parameter.empty
        assert parameter.annotation is not inspect.Parameter.empty
        if is_dataclass(parameter.default):
            names = [field.name for field in fields(parameter.default)]
            # Each class explains its own fields.
            bases = [
                one for one in inspect.getmro(type(parameter.default))[::-1] if is_dataclass(one)
            ]
            assert [name for one in bases for name in explained(one.__doc__, "Attributes")] == names
            with pytest.raises(FrozenInstanceError):
                setattr(parameter.default, names[0], None)
    for cls in classes(method):
        assert explained(vars(cls)["__init__"].__doc__, "Args") == list(own(cls))


@pytest.mark.parametrize("method", METHODS_BY_NAME.values(), ids=METHODS_BY_NAME.keys())
def test_a_setting_is_declared_once_or_has_another_default(method: type[TextModule]) -> None:
    if method is AdversarialTraining:  # none of its settings are those of its base
        return
    declared: dict[str, Any] = {}
    for cls in reversed(classes(method)):
        for name, parameter in own(cls).items():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                assert name not in declared or declared[name] != parameter.default, (cls, name)
                declared[name] = parameter.default


@pytest.mark.parametrize("method", METHODS_BY_NAME.values(), ids=METHODS_BY_NAME.keys())
def test_settings_survive_as_plain_values(method: type[TextModule]) -> None:
    defaults = {name: parameter.default for name, parameter in parameters(method).items()}
    again = rebuilt(method, plain(defaults))
    assert again == defaults


@pytest.mark.parametrize("build", METHODS.values(), ids=METHODS.keys())
def test_hyperparameters_are_plain(build: Build) -> None:
    """Anything else could not be read back safely."""
    settings = dict(build().hparams)
    inner = settings["classifier"]["settings"] if "classifier" in settings else settings
    assert "depth" in inner
    assert not {"optimizer", "lr_scheduler"} & inner["optimisation"].keys()
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
    stored = {"_class_path": "a.B", **settings}
    with _given_hyperparameters_context(stored, "pytorch_lightning.cli.instantiate_module"):
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
        module = make(method, **settings)
    module.attach(module.build_tokenizer(SINGLE), ["a", "b"])
    module.configure_model()
    assert module.predict_texts(SINGLE).shape == (len(SINGLE), 2)
    assert module.hparams.items() >= settings.items()


def test_optimizer_given_by_the_command_line_is_no_hyperparameter() -> None:
    stored = {"optimizer": {"class_path": "x"}, "lr_scheduler": None, "warmup": 0.0}
    with command_line(depth=1, optimisation=stored, width=16):
        module = OLSA(depth=1, width=16)
    assert module.hparams["optimisation"] == {"warmup": 0.0}


def test_optimizer_gets_what_is_trainable() -> None:
    seen: list[Any] = []

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        seen[:] = parameters  # the last time: it is tried with another one before
        return torch.optim.SGD(seen, lr=0.1)

    module = make(OLSA, width=8, heads=2, optimizer=optimizer, warmup=0.0, decay="none")
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
        (
            lambda: make(TextClassifier, gamma=1.0),
            "it has no certificate to train for; use OLSA or mean",
        ),
        (lambda: TextClassifier(encoder="rnn"), "got encoder='rnn'"),  # type: ignore[arg-type] # wrong on purpose
    ],
)
def test_settings_that_make_no_sense(build: Build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
