"""LightningModules, one per method, and the checkpoints they write."""

from lit_modules.base import Classifier
from lit_modules.checkpoint import (
    METHODS,
    CheckpointError,
    check_fits,
    check_method,
    check_would_fit,
    load,
    read_checkpoint,
)
from lit_modules.olsa import OLSA
from lit_modules.text_classifier import TextClassifier

__all__ = [
    "METHODS",
    "OLSA",
    "CheckpointError",
    "Classifier",
    "TextClassifier",
    "check_fits",
    "check_method",
    "check_would_fit",
    "load",
    "read_checkpoint",
]
