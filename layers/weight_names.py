"""Selects the weights of a module that should be unitary, by name, and checks them."""

import re
from collections.abc import Sequence

from torch import Tensor, float32, float64, nn

ATTENTION_WEIGHTS = (
    r"(^|\.)attention\.self\.(query|key|value)(_proj)?\.weight$",  # BERT, RoBERTa, DeBERTa v2
    r"(^|\.)attention\.output\.dense\.weight$",
    r"(^|\.)attention\.(query|key|value|dense)\.weight$",  # ALBERT
    r"(^|\.)attention\.(q|k|v|out)_lin\.weight$",  # DistilBERT
)
"""Names of the query, key, value and attention-output weights of `transformers`' encoders.

DeBERTa's first version keeps query, key and value in one matrix of 3 d x d, which is not square;
of its weights only those of the attention output are here.
"""


def unitary_weights(
    module: nn.Module, patterns: Sequence[str] | None = None
) -> dict[str, nn.Parameter]:
    """Return the trainable parameters that should be unitary, by name.

    Patterns are regular expressions, found anywhere in a parameter's name; None for the query, key,
    value and attention-output weights of the encoders of `transformers`.

    Raises:
        ValueError: a pattern matches no parameter, or one that is not a square matrix.
    """
    trainable = {n: p for n, p in module.named_parameters() if p.requires_grad}
    square = [n for n, p in trainable.items() if p.ndim == 2 and p.shape[0] == p.shape[1]]
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


def check_projectable(weights: Sequence[Tensor]) -> None:
    """Raise ValueError unless all are square matrices of float32 or float64."""
    shapes = {str(tuple(w.shape)) for w in weights if w.ndim != 2 or w.shape[0] != w.shape[1]}
    if shapes:
        msg = f"got weights of shape {', '.join(sorted(shapes))}, expected square matrices [d, d]"
        raise ValueError(msg)
    wrong = {str(w.dtype) for w in weights if w.dtype not in (float32, float64)}
    if wrong:
        msg = (
            f"got weights in {', '.join(sorted(wrong))}, expected float32 or float64: fewer digits "
            "cannot hold a unitary matrix; train with --trainer.precision bf16-mixed or 16-mixed, "
            "which keep the weights themselves in float32"
        )
        raise ValueError(msg)
