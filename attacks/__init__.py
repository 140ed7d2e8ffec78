"""Attacks: on texts (`attack`, `Engine`), and on their embeddings (`PGD`, `FGSM`).

What is named here is loaded when it is used: resources and documents need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attacks.composition import Attack
    from attacks.engine import Engine, Limits
    from attacks.fgsm import FGSM
    from attacks.interface import Outcome, attack
    from attacks.pgd import PGD
    from attacks.records import AttackRecord, Sample
    from attacks.victims import CallableVictim, HuggingFaceVictim, ModuleVictim, VictimError

_HOMES = {
    "FGSM": "fgsm",
    "PGD": "pgd",
    "Attack": "composition",
    "AttackRecord": "records",
    "CallableVictim": "victims",
    "Engine": "engine",
    "HuggingFaceVictim": "victims",
    "Limits": "engine",
    "ModuleVictim": "victims",
    "Outcome": "interface",
    "Sample": "records",
    "VictimError": "victims",
    "attack": "interface",
}

__all__ = [
    "FGSM",
    "PGD",
    "Attack",
    "AttackRecord",
    "CallableVictim",
    "Engine",
    "HuggingFaceVictim",
    "Limits",
    "ModuleVictim",
    "Outcome",
    "Sample",
    "VictimError",
    "attack",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"attacks.{_HOMES[name]}"), name)
