"""The longest text that a model of `transformers` and its tokenizer take."""

from typing import Any

from torch import nn


def longest_text(model: Any) -> int | None:
    """Return the longest text of a model in tokens, special ones included; None without a limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if not getattr(model.config, "position_biased_input", True):
        return None  # DeBERTa with relative positions only, which have no limit
    limits = [positions] if isinstance(positions, int) and positions > 0 else []
    for name, table in model.named_modules():
        if name.rpartition(".")[2] == "position_embeddings" and isinstance(table, nn.Embedding):
            # RoBERTa and similar models count positions from the padding id + 1; BERT from 0.
            first = 0 if table.padding_idx is None else table.padding_idx + 1
            limits.append(table.num_embeddings - first)
    return min(limits, default=None)


def shortest_limit(model: Any, tokenizer: Any, *others: int | None) -> int:
    """Return the least of the limits of a model, of its tokenizer, and of others, in tokens.

    None and 0 are no limits.
    """
    # `model_max_length` is 10^30 where the folder of a tokenizer does not state it.
    limits = (*others, tokenizer.model_max_length, longest_text(model))
    least: int = min(limit for limit in limits if limit)
    return least
