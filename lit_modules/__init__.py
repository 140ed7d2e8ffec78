"""LightningModules, one per method, and the checkpoints they write."""

from lit_modules.adversarial import AdversarialTraining
from lit_modules.adversaries import Adversary
from lit_modules.asa import ASA
from lit_modules.asa_pretraining import ASAPretraining
from lit_modules.base import Classifier
from lit_modules.checkpoint import (
    CheckpointError,
    check_fits,
    check_method,
    check_would_fit,
    load,
    load_module,
    read_checkpoint,
)
from lit_modules.fine_tuning import FineTuning
from lit_modules.masked_lm import MaskedLM
from lit_modules.olsa import OLSA
from lit_modules.text_classifier import TextClassifier
from lit_modules.text_module import METHODS, TextModule
from lit_modules.unibert import UniBERT
from lit_modules.unitary_distillation import UnitaryDistillation
from lit_modules.unused import unused_settings

__all__ = [
    "ASA",
    "METHODS",
    "OLSA",
    "ASAPretraining",
    "AdversarialTraining",
    "Adversary",
    "CheckpointError",
    "Classifier",
    "FineTuning",
    "MaskedLM",
    "TextClassifier",
    "TextModule",
    "UniBERT",
    "UnitaryDistillation",
    "check_fits",
    "check_method",
    "check_would_fit",
    "load",
    "load_module",
    "read_checkpoint",
    "unused_settings",
]
