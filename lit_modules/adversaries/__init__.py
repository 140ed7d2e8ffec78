"""Adversaries to train against: on texts, and in the space of their embeddings."""

from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem, TextSample
from lit_modules.adversaries.amda import AMDA
from lit_modules.adversaries.ascc import ASCC
from lit_modules.adversaries.dne import DNE
from lit_modules.adversaries.epoch_text import EpochTextAdversary
from lit_modules.adversaries.freelb import FreeLB
from lit_modules.adversaries.infobert import InfoBERT
from lit_modules.adversaries.mrat import MRAT
from lit_modules.adversaries.pgd_adversary import FGSMAdversary, PGDAdversary
from lit_modules.adversaries.smart import SMART
from lit_modules.adversaries.text_adversary import TextAdversary
from lit_modules.adversaries.virtual import VirtualAdversary

ADVERSARIES: dict[str, type[Adversary]] = {
    cls.__name__: cls
    for cls in (
        PGDAdversary,
        FGSMAdversary,
        FreeLB,
        SMART,
        VirtualAdversary,
        TextAdversary,
        EpochTextAdversary,
        AMDA,
        MRAT,
        InfoBERT,
        ASCC,
        DNE,
    )
}
"""Every adversary, by its name in checkpoints."""

__all__ = [
    "ADVERSARIES",
    "AMDA",
    "ASCC",
    "DNE",
    "MRAT",
    "SMART",
    "AdversarialLoss",
    "Adversary",
    "EpochTextAdversary",
    "FGSMAdversary",
    "FreeLB",
    "InfoBERT",
    "InnerProblem",
    "PGDAdversary",
    "TextAdversary",
    "TextSample",
    "VirtualAdversary",
]
