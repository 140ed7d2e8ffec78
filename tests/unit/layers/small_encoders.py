"""Small architectures of every type of encoder that is named in the documentation."""

from typing import Any

from transformers import AutoModel, PreTrainedModel

from layers.architectures import configuration

_SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_SIZES},
    "roberta": {"model_type": "roberta", **_SIZES, "type_vocab_size": 1},
    "roberta with segments": {"model_type": "roberta", **_SIZES, "type_vocab_size": 2},
    "albert": {"model_type": "albert", **_SIZES, "embedding_size": 8},
    "distilbert": {
        "model_type": "distilbert",
        "dim": 16,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 24,
        "max_position_embeddings": 40,
    },
    "deberta": {"model_type": "deberta", **_SIZES, **_RELATIVE},
    "deberta with segments": {"model_type": "deberta", **_SIZES, **_RELATIVE, "type_vocab_size": 2},
    "deberta-v2": {
        "model_type": "deberta-v2",
        **_SIZES,
        **_RELATIVE,
        "type_vocab_size": 2,
        "position_biased_input": False,
    },
}
NEWER: dict[str, dict[str, Any]] = {
    "mpnet": {"model_type": "mpnet", **_SIZES},
    # The second layer sees two tokens to each side.
    "modernbert": {
        "model_type": "modernbert",
        **_SIZES,
        "pad_token_id": 0,
        "layer_types": ["full_attention", "sliding_attention"],
        "local_attention": 4,
    },
    # Two heads share a key and a value.
    "eurobert": {"model_type": "eurobert", **_SIZES, "pad_token_id": 0, "num_key_value_heads": 1},
    "nomic_bert": {"model_type": "nomic_bert", **_SIZES},
    "gte": {"model_type": "gte", **_SIZES},
}
"""Those that came later: tests of layers have them, and tests/integration/test_architectures.py."""
EVERY_KIND = ARCHITECTURES | NEWER
MORE: dict[str, dict[str, Any]] = {
    **{name: {**ARCHITECTURES["bert"], "model_type": name} for name in ("electra", "xlm-roberta")},
    "xlnet": {"model_type": "xlnet", "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24},
}
"""Like others, or of less use."""


def untried(architecture: dict[str, Any]) -> PreTrainedModel:
    """A model as the library builds it, whether it is of use here or not."""
    model: PreTrainedModel = AutoModel.from_config(configuration(architecture))  # type: ignore[no-untyped-call] # theirs
    return model
