"""Certificates: Lipschitz bounds that are theorems, and the radii that follow from them.

A name is imported when it is first used: threats, which are sets of texts, need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from text.module_names import real_name

if TYPE_CHECKING:
    from certify.certificate import (
        Certificates,
        Certifier,
        certify,
        in_float64,
        margins,
        signed_margins,
    )
    from layers.attention.bounds import BOUNDS, Bound
    from layers.norms import spectral_norm_bound

_HOMES = {
    "BOUNDS": "layers.attention.bounds",
    "Bound": "layers.attention.bounds",
    "Certificates": "certify.certificate",
    "Certifier": "certify.certificate",
    "certify": "certify.certificate",
    "in_float64": "certify.certificate",
    "margins": "certify.certificate",
    "signed_margins": "certify.certificate",
    "spectral_norm_bound": "layers.norms",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(real_name(_HOMES[name])), name)
