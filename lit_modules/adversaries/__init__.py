"""Adversaries to train against: on texts, and in the space of their embeddings."""

from lit_modules.adversaries.adversary import AdversarialLoss, Adversary, InnerProblem, TextSample
from lit_modules.adversaries.amda import AMDA
from lit_modules.adversaries.ascc import ASCC
from lit_modules.adversaries.dne import DNE
from lit_modules.adversaries.epoch_text import EpochTextAdversary
from lit_modules.adversaries.freelb import FreeLB
from lit_modules.adversaries.freelb_plus import FreeLBPlus
from lit_modules.adversaries.infobert import InfoBERT
from lit_modules.adversaries.mrat import MRAT
from lit_modules.adversaries.pgd_adversary import FGSMAdversary, PGDAdversary
from lit_modules.adversaries.ranmask import RanMASK
from lit_modules.adversaries.rdrop import RDrop
from lit_modules.adversaries.smart import SMART
from lit_modules.adversaries.tavat import TAVAT
from lit_modules.adversaries.temperature import TemperatureScaling
from lit_modules.adversaries.text_adversary import TextAdversary
from lit_modules.adversaries.virtual import VirtualAdversary

ADVERSARIES: dict[str, type[Adversary]] = {
    cls.__name__: cls
    for cls in (
        PGDAdversary,
        FGSMAdversary,
        FreeLB,
        FreeLBPlus,
        SMART,
        TAVAT,
        VirtualAdversary,
        TextAdversary,
        EpochTextAdversary,
        RanMASK,
        RDrop,
        TemperatureScaling,
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
    "TAVAT",
    "AdversarialLoss",
    "Adversary",
    "EpochTextAdversary",
    "FGSMAdversary",
    "FreeLB",
    "FreeLBPlus",
    "InfoBERT",
    "InnerProblem",
    "PGDAdversary",
    "RDrop",
    "RanMASK",
    "TemperatureScaling",
    "TextAdversary",
    "TextSample",
    "VirtualAdversary",
]
