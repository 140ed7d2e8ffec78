"""A small UniBERT, for the tests of what keeps its weights unitary."""

from typing import Any

from lit_modules import UniBERT
from tests.unit.lit_modules.builders import Build

ARCHITECTURE = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}


def unibert(**settings: Any) -> Build:
    return lambda: UniBERT(
        **{"architecture": ARCHITECTURE, "vocab_size": 80, "max_length": 30, **settings}
    )
