"""Attention mechanisms, one per file."""

from layers.attention.adversarial import AttentionAdversary
from layers.attention.biased import BIASABLE, BiasedAttention
from layers.attention.masked import masked_attention
from layers.attention.masking_rules import RuleMasks
from layers.attention.masks import Masks
from layers.attention.olsa import OneLipschitzSelfAttention
from layers.attention.renormalised import renormalised
from layers.attention.scaled_dot_product import SelfAttention

__all__ = [
    "BIASABLE",
    "AttentionAdversary",
    "BiasedAttention",
    "Masks",
    "OneLipschitzSelfAttention",
    "RuleMasks",
    "SelfAttention",
    "masked_attention",
    "renormalised",
]
