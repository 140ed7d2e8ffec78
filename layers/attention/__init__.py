"""Attention mechanisms, one per file."""

from layers.attention.olsa import OneLipschitzSelfAttention
from layers.attention.scaled_dot_product import SelfAttention

__all__ = ["OneLipschitzSelfAttention", "SelfAttention"]
