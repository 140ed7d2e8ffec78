"""Puts masks into the attention of encoders of `transformers` without changing their code."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional

from layers.attention.masking.masked_attention import attention_weights, masked_attention
from layers.attention.masking.masks import Masks
from layers.attention.masking.renormalised import renormalised
from layers.shared_dropout import DropoutTape, SharedLinear, share_dropout

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPLEMENTATION = "steadfast"
"""The name of our attention function in the registry of `transformers`."""
ENTRY = "_steadfast_attention"
"""The attribute of a module of the library that holds its `BiasedAttention`."""
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
_BEFORE = re.compile(r"query|key|value|[qkv]_lin|(pos_)?(query|key|value)_proj")
"""Maps of a layer that come before its masks. What DeBERTa v1 has there, it changes in place."""


def _attentions(encoder: "PreTrainedModel") -> list[nn.Module]:
    """Return the self-attentions of an encoder that can be biased."""
    kind = str(encoder.config.model_type)
    modules = [m for m in encoder.modules() if _LAYER.search(type(m).__name__)]
    if kind not in BIASABLE or not modules or getattr(encoder.config, "is_decoder", False):
        msg = (
            f"got a backbone of the kind {kind!r}, whose attention cannot be biased, expected "
            f"an encoder, one of {', '.join(BIASABLE)}"
        )
        raise ValueError(msg)
    inner = getattr(encoder.config, "inner_group_num", 1)
    if inner != 1:
        msg = (
            f"got an {kind} of inner_group_num={inner}, which attends as often in each layer, "
            "expected inner_group_num=1: masks are counted by layers"
        )
        raise ValueError(msg)
    if any(hasattr(module, ENTRY) for module in modules):
        msg = (
            f"got a {kind} whose attention is biased already, expected one as it was built: "
            "keep the first BiasedAttention, or build or load the encoder anew"
        )
        raise ValueError(msg)
    return modules


class BiasedAttention:
    """The self-attention of an encoder, whose units can be masked and whose maps can be looked at.

    Without either, and outside recordings of dropout, the encoder computes what it always does.

    Args:
        encoder: encoder of one of the kinds in `BIASABLE`. Its dropout layers become ones that ask
            the tape, and its attention function becomes ours.

    Raises:
        ValueError: of another kind, a decoder, an ALBERT of several layers in one, or one whose
            attention is biased already.
    """

    def __init__(self, encoder: "PreTrainedModel") -> None:
        modules = _attentions(encoder)
        self.tape = DropoutTape()
        self.layers: int = encoder.config.num_hidden_layers
        self._masks: Masks | None = None
        self._maps: list[Tensor] | None = None
        self._hidden: Tensor | None = None
        self._calls = 0
        share_dropout(encoder, self.tape)
        if len(modules) == self.layers > 0:  # what the first layer is given, no mask has touched
            for name, part in list(modules[0].named_children()):
                if type(part) is nn.Linear and _BEFORE.fullmatch(name):
                    setattr(modules[0], name, SharedLinear(part, self.tape))
        if encoder.config.model_type in _OWN_SOFTMAX:
            for module in modules:
                module.dropout.register_forward_pre_hook(self._reweighted)  # type: ignore[union-attr] # theirs
        else:
            _register()
            encoder.set_attn_implementation(IMPLEMENTATION)
        for part in encoder.modules():
            if hasattr(part, "get_input_embeddings"):  # an encoder, or one under a head
                part.register_forward_pre_hook(self._begin)
        for module in modules:
            module.register_forward_pre_hook(self._enter, with_kwargs=True)
            setattr(module, ENTRY, self)

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
        with self._passing():
            self._maps = maps
            yield maps

    @contextmanager
    def _passing(self) -> Iterator[None]:
        before = self._masks, self._maps
        try:
            yield
        finally:
            (self._masks, self._maps), self._hidden = before, None

    # In the encoder

    @property
    def _active(self) -> bool:
        return self._masks is not None or self._maps is not None or self.tape.mode != "off"

    def _begin(self, encoder: nn.Module, args: tuple[Any, ...]) -> None:
        """Before each pass."""
        del args
        self._calls = 0
        if not self._active or not encoder.training:
            return
        if any(getattr(part, "gradient_checkpointing", False) for part in encoder.modules()):
            msg = (
                "got an encoder with gradient checkpointing, which computes its layers again when "
                "masks and recorded dropout are gone, expected one without: switch it off"
            )
            raise ValueError(msg)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del module
        if self._masks is not None:
            self._hidden = args[0] if args else kwargs["hidden_states"]

    def keep(self, probabilities: Callable[[], Tensor]) -> Tensor | None:
        """The mask of the layer that asks; see `Masks`."""
        if self._masks is None:
            return None
        assert self._hidden is not None  # _enter
        # Counted, not read off the module: one may be there for all layers, as ALBERT's.
        layer, self._calls = self._calls, self._calls + 1
        keep = self._masks(layer, self._hidden, probabilities)
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
        """`[B, H, N, d]`, or None where nothing is masked or recorded."""
        if not self._active:
            return None

        def weights(keep: Tensor | None = None) -> Tensor:
            return attention_weights(query, key, bias=bias, scaling=scaling, keep=keep)

        keep = self.keep(weights)
        if self._maps is not None:
            self._maps.append(weights(keep))
            if keep is None and self.tape.mode == "off":
                return None  # who only looks changes nothing, not even the last bit
        factors = None
        if dropout > 0:
            like = query.new_empty((1,)).expand(*query.shape[:-1], key.shape[-2])
            factors = self.tape.factors(like, dropout)
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
    """The function that the library calls in each layer."""
    del others
    entry: BiasedAttention | None = getattr(module, ENTRY, None)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = None
    if entry is not None:
        out = entry.attend(query, key, value, attention_mask, scaling=scale, dropout=dropout)
    if out is None:
        out = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scale
        )
    return out.transpose(1, 2).contiguous(), None
