"""A description of a setting stands alone in `--help`: it is no rest of a sentence."""

import typing
from collections.abc import Iterator
from dataclasses import is_dataclass

import pytest
from docstring_parser import parse

from attacks.embeddings.pgd import PGDSettings
from attacks.recipe_settings import RecipeSettings
from datamodules import CORPORA
from lit_modules import METHODS
from lit_modules.adversaries import Adversary
from lit_modules.shared.settings import parameters
from measure.attack_settings import AttackSettings
from training.checkpoint_callbacks import CheckpointSettings
from training.early_stopping import EarlyStoppingSettings

FRAGMENTS = (
    "of in at from for that with by on after before where whether how which what see".split()
)
GROUPS = [AttackSettings, CheckpointSettings, EarlyStoppingSettings, PGDSettings, RecipeSettings]


def below(cls: type) -> Iterator[type]:
    one: type
    for one in cls.__subclasses__():
        yield one
        yield from below(one)


def groups(cls: type) -> Iterator[type]:
    """The dataclasses among the types of a class's settings, and those inside of them."""
    hints = (
        typing.get_type_hints(cls)
        if is_dataclass(cls)
        else {name: one.annotation for name, one in parameters(cls).items()}
    )
    for hint in hints.values():
        for one in typing.get_args(hint) or (hint,):
            if isinstance(one, type) and is_dataclass(one):
                yield from (one, *groups(one))


def described() -> Iterator[tuple[str, str]]:
    """Each setting of methods, adversaries, corpora and groups, and its description."""
    owners = [*METHODS.values(), *CORPORA.values(), *below(Adversary), *GROUPS]
    owners += [one for owner in owners for one in groups(owner)]
    classes = {one for owner in owners for one in owner.__mro__}
    for cls in sorted(classes, key=lambda one: (one.__module__, one.__qualname__)):
        if cls.__module__.split(".")[0] not in (
            "app",
            "lit_modules",
            "datamodules",
            "attacks",
            "layers",
        ):
            continue
        for text in (vars(cls).get("__doc__"), getattr(vars(cls).get("__init__"), "__doc__", None)):
            for one in parse(text or "").params:
                yield f"{cls.__name__}.{one.arg_name}", one.description or ""


def fragment(description: str) -> bool:
    return not description or description.split(maxsplit=1)[0].rstrip(",.:;") in FRAGMENTS


@pytest.mark.parametrize(
    ("description", "expected"),
    [("of the hinge.", True), ("from 0 to 1.", True), ("", True), ("seed of the order.", False)],
)
def test_fragments_are_recognised(description: str, expected: bool) -> None:
    assert fragment(description) == expected


def test_every_description_stands_alone() -> None:
    every = dict(described())
    for known in (
        "MaskingSettings.tau",
        "OLSALayers.dropout",
        "SMART.norm",
        "Corpus.seed",
        "RecipeSettings.recipe",
    ):
        assert known in every
    assert {name: text for name, text in every.items() if fragment(text)} == {}
