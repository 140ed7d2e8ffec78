"""A small UniBERT, for the tests of what keeps its weights unitary."""

from typing import Any

from torch import Tensor

from layers import unitary_residual
from lit_modules import UniBERT
from tests.unit.lit_modules.builders import Build, make

ARCHITECTURE = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}


def unibert(**settings: Any) -> Build:
    return lambda: make(
        UniBERT, **{"architecture": ARCHITECTURE, "vocab_size": 80, "max_length": 30, **settings}
    )


def residual(weights: dict[str, Tensor]) -> float:
    """Of the attention weights among them."""
    matrices = [w for name, w in weights.items() if ".attention." in name and w.ndim == 2]
    assert len(matrices) == 8
    return float(unitary_residual(matrices).max())
