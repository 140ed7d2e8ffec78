"""Decoders of `transformers` that are small enough to be tried on."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.unit.layers.small_encoders import untried

TEXTS = ["the soup was fresh", "a rude waiter , and cold coffee", "not bad at all"]
END = "<|endoftext|>"
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
    "smollm3": {
        "model_type": "smollm3",
        **{name: size for name, size in _SIZES.items() if name != "head_dim"},
        "pad_token_id": None,
    },
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


def pretrained(kind: str, folder: Path) -> str:
    """A decoder with a tokenizer as Qwen's: bytes, no template, and no padding token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # transformers has no types
        tokenizer_object=tokenizer, model_max_length=64, eos_token=END
    )
    wrapped.save_pretrained(folder)
    untried({**DECODERS[kind], "vocab_size": len(wrapped)}).save_pretrained(folder)
    return str(folder)
