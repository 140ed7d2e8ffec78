"""The longest text that an encoder of `transformers` has positions for."""

from typing import Any

from torch import nn


def longest_text(model: Any) -> int | None:
    """Tokens that a model has positions for, special ones included; None if any number will do.

    Args:
        model: an encoder, or a model with one in it.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    if not getattr(model.config, "position_biased_input", True):
        return None  # DeBERTa with relative positions alone, which have no end
    limits = [positions] if isinstance(positions, int) and positions > 0 else []
    for name, table in model.named_modules():
        if name.rpartition(".")[2] == "position_embeddings" and isinstance(table, nn.Embedding):
            # RoBERTa and its kin count positions from behind the padding id; BERT has no such id.
            taken = 0 if table.padding_idx is None else table.padding_idx + 1
            limits.append(table.num_embeddings - taken)
    return min(limits, default=None)
