"""Attention mechanisms, one per file."""

from layers.attention.masking.biased import BIASABLE, BiasedAttention
from layers.attention.masking.learnt_masks import AttentionAdversary
from layers.attention.masking.masked_attention import masked_attention
from layers.attention.masking.masks import Masks
from layers.attention.masking.renormalised import renormalised
from layers.attention.masking.rules import RuleMasks
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.scaled_dot_product import SelfAttention
