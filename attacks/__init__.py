"""Attacks: on texts (`attack`, `Engine`), and on their embeddings (`PGD`, `FGSM`).

A name is loaded when it is used: resources and documents need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attacks.augmenting import augment
    from attacks.composition import Attack
    from attacks.embeddings.fgsm import FGSM
    from attacks.embeddings.pgd import PGD, PGDSettings
    from attacks.engine import Engine, Limits
    from attacks.interface import Outcome, attack
    from attacks.outcome import AttackRecord, Sample
    from attacks.prefixed_words import universal_trigger
    from attacks.recipe_settings import RecipeSettings
    from attacks.victims.http_settings import HttpSettings
    from attacks.victims.http_victim import HttpVictim
    from attacks.victims.kinds import CallableVictim, HuggingFaceVictim, ModuleVictim, VictimError
    from attacks.victims.labels_only import LabelVictim

_HOMES = {
    "FGSM": "embeddings.fgsm",
    "PGD": "embeddings.pgd",
    "PGDSettings": "embeddings.pgd",
    "Attack": "composition",
    "AttackRecord": "outcome",
    "CallableVictim": "victims.kinds",
    "Engine": "engine",
    "HttpSettings": "victims.http_settings",
    "HttpVictim": "victims.http_victim",
    "HuggingFaceVictim": "victims.kinds",
    "LabelVictim": "victims.labels_only",
    "Limits": "engine",
    "ModuleVictim": "victims.kinds",
    "Outcome": "interface",
    "RecipeSettings": "recipe_settings",
    "Sample": "outcome",
    "VictimError": "victims.kinds",
    "attack": "interface",
    "augment": "augmenting",
    "universal_trigger": "prefixed_words",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
