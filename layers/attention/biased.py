"""How masks enter the attention of encoders of `transformers`, whose code stays as it is."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.attention.adversarial import Masks
from layers.attention.masked import attention_scores, masked_attention, renormalised
from layers.shared_dropout import DropoutTape, share_dropout

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPLEMENTATION = "steadfast"
"""The name of our attention function in the library's registry."""
BIASABLE = (
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "electra",
    "albert",
    "distilbert",
    "deberta",
    "deberta-v2",
)
"""The kinds of encoders (`model_type`) whose attention can be biased."""
_OWN_SOFTMAX = ("deberta", "deberta-v2")
"""Kinds that do not ask the registry; the dropout of their attention weights is where we enter."""
_LAYER = re.compile(r"SelfAttention$|^AlbertAttention$")
_ENTRY = "_steadfast_attention"


class BiasedAttention:
    """The self-attention of an encoder, whose units can be masked and whose maps can be looked at.

    Without either, and outside recordings of dropout, the encoder computes what it always does.

    Args:
        encoder: of one of the kinds in `BIASABLE`. Its dropout layers become ones that ask the
            tape, and its attention function becomes ours.

    Raises:
        ValueError: of another kind.
    """

    def __init__(self, encoder: "PreTrainedModel") -> None:
        kind = str(encoder.config.model_type)
        modules = [m for m in encoder.modules() if _LAYER.search(type(m).__name__)]
        if kind not in BIASABLE or not modules:
            msg = (
                f"got a backbone of the kind {kind!r}, whose attention cannot be biased, expected "
                f"one of {', '.join(BIASABLE)}"
            )
            raise ValueError(msg)
        self.tape = DropoutTape()
        self.layers: int = encoder.config.num_hidden_layers
        self._masks: Masks | None = None
        self._maps: list[Tensor] | None = None
        self._hidden: Tensor | None = None
        self._calls = 0
        share_dropout(encoder, self.tape)
        if kind in _OWN_SOFTMAX:
            for module in modules:
                module.dropout.register_forward_pre_hook(self._reweighted)  # type: ignore[union-attr] # theirs
        else:
            _register()
            encoder.set_attn_implementation(IMPLEMENTATION)
        for module in modules:
            module.register_forward_pre_hook(self._enter, with_kwargs=True)
            setattr(module, _ENTRY, self)

    # For users

    @contextmanager
    def masked(self, masks: Masks) -> Iterator[None]:
        """Mask what these say, in each pass over the encoder."""
        with self._passing():
            self._masks = masks
            yield

    @contextmanager
    def watched(self) -> Iterator[list[Tensor]]:
        """A list that is filled with the attention weights `[B, H, N, N]` of each layer."""
        maps: list[Tensor] = []
        inside = self._masks
        with self._passing():
            self._maps, self._masks = maps, inside
            yield maps

    @contextmanager
    def _passing(self) -> Iterator[None]:
        before = self._masks, self._maps
        self._calls = 0
        try:
            yield
        finally:
            (self._masks, self._maps), self._hidden = before, None

    # In the encoder

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del module
        if self._masks is not None:
            self._hidden = args[0] if args else kwargs["hidden_states"]

    def keep(self, probabilities: Callable[[], Tensor]) -> Tensor | None:
        """The mask of the layer that asks; see `Masks`."""
        if self._masks is None:
            return None
        assert self._hidden is not None  # _enter
        layer, self._calls = self._calls, self._calls + 1
        # One layer may be there for several, as ALBERT's; a second pass begins anew.
        keep = self._masks(layer % self.layers, self._hidden, probabilities)
        self._hidden = None
        return keep

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        *,
        scaling: float,
        dropout: float,
    ) -> Tensor | None:
        """`[B, H, N, d]`, or None where nothing is masked, watched or recorded."""
        recorded = self.tape.mode != "off" and dropout > 0
        if self._masks is None and self._maps is None and self.tape.mode == "off":
            return None

        def probabilities() -> Tensor:
            with torch.no_grad():
                return attention_scores(query, key, bias, scaling).softmax(dim=-1)

        keep = self.keep(probabilities)
        if self._maps is not None:
            weights = probabilities()
            self._maps.append(weights if keep is None else renormalised(weights, keep.detach()))
        factors = None
        if dropout > 0:
            shape = (*query.shape[:-1], key.shape[-2])
            like = query.new_empty((1,)).expand(shape)
            factors = (
                self.tape.factors(like, dropout)
                if recorded
                else DropoutTape().factors(like, dropout)
            )
        return masked_attention(
            query, key, value, bias=bias, scaling=scaling, keep=keep, dropout=factors
        )

    def _reweighted(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Before the dropout of attention weights that are known already."""
        del module
        (weights,) = args
        keep = self.keep(weights.detach)
        if keep is not None:
            weights = renormalised(weights, keep)
        if self._maps is not None:
            self._maps.append(weights.detach())
        return None if keep is None else (weights,)


def _register() -> None:
    """Make our attention known to the library, and the mask function that goes with it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(IMPLEMENTATION, _attention)
    # Without it, padding would silently not be masked.
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def _attention(  # noqa: PLR0917 (the interface of the library)
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,  # of the library's interface
) -> tuple[Tensor, None]:
    """What the library calls in each layer."""
    del others
    entry: BiasedAttention | None = getattr(module, _ENTRY, None)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = None
    if entry is not None:
        out = entry.attend(query, key, value, attention_mask, scaling=scale, dropout=dropout)
    if out is None:
        out = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scale
        )
    return out.transpose(1, 2).contiguous(), None
