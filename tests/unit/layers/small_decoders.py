"""Decoders of `transformers` that are small enough to be tried on."""

from typing import Any

_SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "intermediate_size": 24,
    "max_position_embeddings": 80,
    "bos_token_id": 1,
    "eos_token_id": 1,
}

DECODERS: dict[str, dict[str, Any]] = {
    "qwen3": {"model_type": "qwen3", **_SIZES},
    "llama": {"model_type": "llama", **_SIZES},  # SmolLM and SmolLM2 are of this type
    "smollm3": {"model_type": "smollm3", **_SIZES, "pad_token_id": None},
    "gemma3": {
        "model_type": "gemma3_text",
        **_SIZES,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 80,
        "bos_token_id": 1,
        "eos_token_id": 1,
    },
}
