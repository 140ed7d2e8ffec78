"""Certificates: Lipschitz bounds that are theorems, and the radii that follow from them."""

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

__all__ = [
    "BOUNDS",
    "Bound",
    "Certificates",
    "Certifier",
    "certify",
    "in_float64",
    "margins",
    "signed_margins",
    "spectral_norm_bound",
]
