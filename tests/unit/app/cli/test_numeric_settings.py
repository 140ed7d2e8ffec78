"""Every numeric setting of every method, adversary, corpus and attack says itself what is wrong."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest
import torch

from attacks import PGD
from attacks.engine import Limits
from attacks.recipe_settings import RecipeSettings
from datamodules import CORPORA
from lit_modules import METHODS, OLSA, TaskModule, TextClassifier
from lit_modules.adversaries import ADVERSARIES, FreeLB
from lit_modules.shared.settings import parameters
from measure.attack_settings import AttackSettings
from tests.unit.lit_modules.builders import SINGLE, make
from training.early_stopping import EarlyStoppingSettings

NEEDED: dict[str, dict[str, Any]] = {
    **{
        name: {"architecture": {"model_type": "bert"}}
        for name in ("FineTuning", "UniBERT", "ASA", "MaskedLM", "ASAPretraining", "EncodedScores")
    },
    "UnitaryDistillation": {"backbone": "folder"},
    "AdversarialTraining": {"classifier": TextClassifier(), "adversary": FreeLB()},
    "RunningText": {"files": "a.txt"},
}
ANY_NUMBER = {"backbone.layer", "corpus_seed"}
"""-1 is the last layer; and any whole number is a seed of a generator of ours."""
CLASSES: dict[str, Callable[..., Any]] = {
    **METHODS,
    **ADVERSARIES,
    **CORPORA,
    **{
        cls.__name__: cls
        for cls in (AttackSettings, RecipeSettings, EarlyStoppingSettings, PGD, Limits)
    },
}


def numbers(cls: Callable[..., Any]) -> Iterator[tuple[str, type]]:
    """The settings that take a number, and of which kind."""
    assert isinstance(cls, type)
    hints = {name: one.annotation for name, one in parameters(cls).items()}
    for name, hint in (get_type_hints(cls) if is_dataclass(cls) else hints).items():
        if isinstance(hint, type) and is_dataclass(hint):
            yield from ((f"{name}.{inner}", kind) for inner, kind in numbers(hint))
            continue
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        # A class is named or numbered: attacks look it up among those of the model.
        if str in kinds:
            continue
        if float in kinds:
            yield name, float
        elif int in kinds:
            yield name, int


CASES = [(name, setting, kind) for name, cls in CLASSES.items() for setting, kind in numbers(cls)]


def message(cls: Callable[..., Any], settings: Mapping[str, Any]) -> str | None:
    """What is said of a setting; None if nothing is."""
    try:
        make(cls, **settings)
    except ValueError as error:
        return str(error)
    return None


def short(setting: str) -> str:
    """A setting as its message names it: a schedule is in several groups."""
    return setting[max(0, setting.find("schedule.")) :]


def test_the_sweep_sees_them() -> None:
    assert len(CASES) > 150
    for case in ("OLSA.width", "SMART.noise", "SST2.batch_size", "RunningText.length"):
        assert case in {f"{name}.{setting}" for name, setting, _ in CASES}


@pytest.mark.parametrize("name", CLASSES)
def test_numbers_out_of_range_are_named(name: str) -> None:
    cls = CLASSES[name]
    for owner, setting, kind in CASES:
        if owner != name or setting in ANY_NUMBER:
            continue
        wrong = [-2] if kind is int else [-1.5, math.nan, math.inf, -math.inf]
        for value in wrong:
            said = message(cls, {**NEEDED.get(name, {}), setting: value})
            assert said is not None, f"{name}({setting}={value}) is accepted"
            group, _, inner = setting.rpartition(".")
            # An attack on texts stands in several places, and does not know in which.
            names = rf"({group}\.)?{inner}" if group == "attack" else re.escape(short(setting))
            assert re.fullmatch(rf"got (--\w+\.)?{names}[= ]{value}, expected [^\n]+", said), said


@pytest.mark.parametrize("cls", [OLSA, TextClassifier])
def test_zero_works_or_is_named(cls: type[TaskModule]) -> None:
    small: dict[str, Any] = {"width": 8, "heads": 2, "depth": 1}
    for setting, _ in numbers(cls):
        settings = {**small, setting: 0}
        said = message(cls, settings)
        if said is not None:
            assert said.startswith(f"got {short(setting)}=0, expected"), said
            continue
        module = make(cls, **settings)
        module.attach(module.build_tokenizer(SINGLE), ["a", "b"])
        module.configure_model()
        assert torch.isfinite(module.predict_texts(SINGLE)).all(), setting


@pytest.mark.parametrize("cls", METHODS.values(), ids=METHODS)
def test_the_optimiser_is_tried_before_anything_is_read(cls: type[TaskModule]) -> None:
    def negative(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=-1.0)

    said = message(cls, {**NEEDED.get(cls.__name__, {}), "optimizer": negative})
    assert said is not None
    assert said.startswith(
        "got --model.optimisation.optimizer that torch refuses (Invalid learning rate: -1.0)"
    )
