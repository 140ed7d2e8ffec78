"""Applies masks in the attention of encoders of `transformers` without changing their code."""

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
NUMBER = "_steadfast_layer"
"""The attribute with the number of its layer: an int, which copies of a model have as well."""
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
    "mpnet",
    "modernbert",
    "eurobert",
    "nomic_bert",
    "gte",
)
"""The kinds of encoders (`model_type`) whose attention can be biased."""
# Kinds that ignore the registry: a hook on the dropout of their attention weights masks them.
_OWN_SOFTMAX = ("deberta", "deberta-v2", "mpnet")
_LAYER = re.compile(r"SelfAttention$|^(Albert|ModernBert|EuroBert|NomicBert|Gte)Attention$")
# Maps of a layer before its masks. Those of DeBERTa v1 are not here: it changes them in place.
_BEFORE = re.compile(r"query|key|value|[qkv](_lin|_proj)?|(pos_)?(query|key|value)_proj|Wqkv")


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
    """The self-attention of an encoder, with units that can be masked and maps that can be read.

    Outside of `masked`, `watched` and recordings of dropout, the encoder's outputs are unchanged.

    Args:
        encoder: encoder of one of the kinds in `BIASABLE`. Its dropout layers become ones that use
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
        self._layer = -1
        # ALBERT has one module for several layers: there, `_enter` counts the layers of a pass.
        unshared = len(modules) == self.layers
        share_dropout(encoder, self.tape)
        if unshared:  # no mask has changed the input of the first layer
            for name, part in list(modules[0].named_children()):
                if type(part) is nn.Linear and _BEFORE.fullmatch(name):
                    setattr(modules[0], name, SharedLinear(part, self.tape))
        if encoder.config.model_type in _OWN_SOFTMAX:
            for module in modules:
                module.dropout.register_forward_pre_hook(self._reweight)  # type: ignore[union-attr] # a module
        else:
            _register()
            encoder.set_attn_implementation(IMPLEMENTATION)
        for part in encoder.modules():
            if hasattr(part, "get_input_embeddings"):  # an encoder, or a model with a head
                part.register_forward_pre_hook(self._begin)
        for module in modules:
            module.register_forward_pre_hook(self._enter, with_kwargs=True)
            setattr(module, ENTRY, self)
        for number, module in enumerate(modules if unshared else []):
            setattr(module, NUMBER, number)

    # Interface

    @contextmanager
    def masked(self, masks: Masks) -> Iterator[None]:
        """Apply these masks in each pass over the encoder."""
        with self._passing():
            self._masks = masks
            yield

    @contextmanager
    def watched(self) -> Iterator[list[Tensor]]:
        """Collect the attention weights `[B, H, N, N]` of each layer in a list."""
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

    # Hooks in the encoder

    @property
    def _active(self) -> bool:
        return self._masks is not None or self._maps is not None or self.tape.mode != "off"

    def _begin(self, encoder: nn.Module, args: tuple[Any, ...]) -> None:
        """Begin a pass."""
        del args
        self._layer = -1
        if not self._active or not encoder.training:
            return
        if any(getattr(part, "gradient_checkpointing", False) for part in encoder.modules()):
            msg = (
                "got an encoder with gradient checkpointing, which computes its layers again when "
                "masks and recorded dropout are gone, expected one without: switch it off"
            )
            raise ValueError(msg)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Enter a layer."""
        if self._masks is not None:
            self._layer = getattr(module, NUMBER, self._layer + 1)
            self._hidden = args[0] if args else kwargs["hidden_states"]

    def keep(
        self, probabilities: Callable[[], Tensor], near: Tensor | None = None
    ) -> Tensor | None:
        """Return the mask of the present layer; see `Masks`."""
        if self._masks is None:
            return None
        assert self._hidden is not None  # set by `_enter`
        keep = self._masks(self._layer, self._hidden, probabilities, near)
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
        near: Tensor | None,
    ) -> Tensor | None:
        """`[B, H, N, d]`, or None where nothing is masked or recorded."""
        if not self._active:
            return None

        def weights(keep: Tensor | None = None) -> Tensor:
            return attention_weights(query, key, bias=bias, scaling=scaling, keep=keep)

        keep = self.keep(weights, near)
        if self._maps is not None:
            self._maps.append(weights(keep))
            if keep is None and self.tape.mode == "off":
                return None  # reading maps changes no output, not even in the last bit
        factors = None
        if dropout > 0:
            like = query.new_empty((1,)).expand(*query.shape[:-1], key.shape[-2])
            factors = self.tape.factors(like, dropout)
        return masked_attention(
            query, key, value, bias=bias, scaling=scaling, keep=keep, dropout=factors
        )

    def _reweight(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Mask attention weights after their softmax and before their dropout."""
        del module
        (weights,) = args
        keep = self.keep(weights.detach)
        if keep is not None:
            weights = renormalised(weights, keep)
        if self._maps is not None:
            self._maps.append(weights.detach())
        return None if keep is None else (weights,)


def _register() -> None:
    """Register our attention in the library, and its mask function."""
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
    **options: Any,  # required by the library's interface
) -> tuple[Tensor, None]:
    """Attend in one layer; the library calls this function."""
    entry: BiasedAttention | None = getattr(module, ENTRY, None)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    # Grouped queries: several heads share a key and a value.
    if (shared := query.shape[1] // key.shape[1]) > 1:
        key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
    out = None
    if entry is not None:
        # Of a local attention, the mask has more than the padding; None for texts that are shorter.
        near = attention_mask if options.get("sliding_window") is not None else None
        out = entry.attend(
            query, key, value, attention_mask, scaling=scale, dropout=dropout, near=near
        )
    if out is None:
        out = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scale
        )
    return out.transpose(1, 2).contiguous(), None
