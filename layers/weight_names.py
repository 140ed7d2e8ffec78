"""Selects the weights of a module that should be unitary, by name, and checks them."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor, float32, float64, nn

ATTENTION_WEIGHTS = (
    r"(^|\.)attention\.self\.(query|key|value)(_proj)?\.weight$",  # BERT, RoBERTa, DeBERTa v2
    r"(^|\.)attention\.output\.dense\.weight$",
    r"(^|\.)attention\.(query|key|value|dense)\.weight$",  # ALBERT
    r"(^|\.)attention\.(q|k|v|out)_lin\.weight$",  # DistilBERT
    r"(^|\.)attention\.attn\.[qkvo]\.weight$",  # MPNet
    r"(^|\.)self_attn\.[qkvo]_proj\.weight$",  # EuroBERT, NomicBERT, GTE
    r"(^|\.)attn\.W(qkv|o)\.weight$",  # ModernBERT
)
"""Names of the query, key, value and attention-output weights of `transformers`' encoders.

DeBERTa's first version keeps query, key and value in one matrix of 3 d x d, which is not square;
of its weights only those of the attention output are here.
"""
_FUSED = re.compile(r"(^|\.)Wqkv\.weight$")
"""Query, key and value one below the other: 3 d x d."""
_GROUPED = re.compile(r"(^|\.)self_attn\.[kv]_proj\.weight$")
"""Keys or values that several heads share: fewer rows than columns."""


def unitary_weights(
    module: nn.Module, patterns: Sequence[str] | None = None
) -> dict[str, nn.Parameter]:
    """Return the trainable parameters that should be unitary, by name.

    Patterns are regular expressions, found anywhere in a parameter's name; None for the query, key,
    value and attention-output weights of the encoders of `transformers`.

    Raises:
        ValueError: a pattern matches no parameter, or one without `unitary_blocks`.
    """
    trainable = {n: p for n, p in module.named_parameters() if p.requires_grad}
    square = [n for n, p in trainable.items() if _shape(n, p) is not None]
    listing = ", ".join(square) or "none"
    matches: set[str] = set()
    if patterns is not None and not patterns:
        msg = f"got no pattern, expected some that fit square weights: {listing}; or null"
        raise ValueError(msg)
    for pattern in ATTENTION_WEIGHTS if patterns is None else patterns:
        try:
            names = {name for name in trainable if re.search(pattern, name)}
        except re.error as error:
            msg = f"got pattern {pattern!r}, which is no regular expression ({error})"
            raise ValueError(msg) from error
        if patterns is not None and not names:
            msg = (
                f"got pattern {pattern!r}, which fits no trainable weight, expected one that fits "
                f"some of the square ones: {listing}"
            )
            raise ValueError(msg)
        matches |= names
    if not matches:
        msg = (
            f"got {type(module).__name__} without attention weights of known names, expected "
            f"patterns for some of its square weights: {listing}"
        )
        raise ValueError(msg)
    for name, parameter in trainable.items():
        if name in matches and name not in square:
            msg = (
                f"got {name} of shape {tuple(parameter.shape)} among the weights to be "
                f"unitary, expected square matrices: choose among {listing}"
            )
            raise ValueError(msg)
    return {name: parameter for name, parameter in trainable.items() if name in matches}


def _shape(name: str, weight: Tensor) -> Literal["square", "fused", "grouped"] | None:
    """Return the kind of a weight that can be unitary; None for others."""
    if weight.ndim != 2:
        return None
    rows, columns = weight.shape
    if rows == columns:
        return "square"
    if _FUSED.search(name) and rows == 3 * columns:
        return "fused"
    return "grouped" if _GROUPED.search(name) and rows < columns else None


def unitary_blocks(weights: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the matrices `[m, n]`, m >= n, of `unitary_weights` that are unitary alone, as views.

    A square weight is one. Of a weight with query, key and value in one matrix, each is one. A
    weight of shared keys or values has fewer rows than columns: it is transposed, so that its rows
    become orthonormal, and the map cannot lengthen a vector.
    """
    blocks: list[Tensor] = []
    for name, weight in weights.items():
        kind = _shape(name, weight)
        blocks += weight.detach().chunk(3) if kind == "fused" else [weight.detach()]
        if kind == "grouped":
            blocks[-1] = blocks[-1].mT
    return blocks


def check_projectable(weights: Sequence[Tensor]) -> None:
    """Raise ValueError unless all are matrices of float32 or float64, no wider than high."""
    shapes = {str(tuple(w.shape)) for w in weights if w.ndim != 2 or w.shape[0] < w.shape[1]}
    if shapes:
        msg = (
            f"got weights of shape {', '.join(sorted(shapes))}, expected matrices with at least as "
            "many rows as columns"
        )
        raise ValueError(msg)
    wrong = {str(w.dtype) for w in weights if w.dtype not in (float32, float64)}
    if wrong:
        msg = (
            f"got weights in {', '.join(sorted(wrong))}, expected float32 or float64: fewer digits "
            "cannot hold a unitary matrix; train with --trainer.precision bf16-mixed or 16-mixed, "
            "which keep the weights themselves in float32"
        )
        raise ValueError(msg)
