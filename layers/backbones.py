"""Encoders of `transformers` that are trained as classifiers."""

import re
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from layers.architectures import architecture_of, caches, is_causal
from layers.pretrained_encoders import drop_pooler
from layers.sequence_classifiers import LAST_TOKEN, SequenceHead, find_head

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Pooling = Literal["architecture", "first", "mean", "last"]
POOLINGS: tuple[Pooling, ...] = ("architecture", "first", "mean", "last")
Reading = Literal["text", "token", "choice"]
"""The unit to which the outputs of a head belong."""
_IDLE = {"xlnet": ("mask_emb", "seg_embed", "r_s_bias")}
"""Weights without a gradient, by the type of the model: several processes would wait for it."""


_RATE = re.compile(r"((attention|attn|hidden|resid|embd?)_)?(dropout|pdrop)")
"""Names of the attributes with which layers of `transformers` keep a rate as a number."""


class Backbone(nn.Module):
    """An encoder of `transformers` in two parts, so that perturbations can be added between them.

    `embed` returns word embeddings; `forward` takes them. Segments are added in `embed`, so that
    the vectors determine the text.

    Args:
        encoder: BERT, ModernBERT, DeBERTa, Qwen3 or another with their interface. Its pooler is
            dropped: a head may have it. Weights that it uses for nothing here are not trained.

    Attributes:
        causal: True for a decoder, whose tokens see only what is before them.

    Raises:
        ValueError: it counts positions from the id of the padding, and has none.
    """

    def __init__(self, encoder: "PreTrainedModel") -> None:
        super().__init__()
        if getattr(getattr(encoder, "embeddings", None), "padding_idx", 0) is None:
            msg = (
                f"got a {encoder.config.model_type} without pad_token_id, from which it counts "
                "positions, expected its number in config.json: 1 for the models on the hub"
            )
            raise ValueError(msg)
        drop_pooler(encoder)
        idle = _IDLE.get(encoder.config.model_type, ())
        for name, parameter in encoder.named_parameters():
            if name.endswith(idle):
                parameter.requires_grad = False
        self.encoder = encoder
        self.width: int = encoder.config.hidden_size
        self.causal = is_causal(encoder)
        self._caches = caches(encoder)

    @property
    def architecture(self) -> dict[str, Any]:
        """The architecture, as JSON scalars, lists and dicts."""
        return architecture_of(self.encoder)

    def set_dropout(self, rate: float) -> None:
        """Use this rate everywhere in the encoder, instead of the rates of its configuration."""
        set_dropout(self.encoder, rate)

    def embed(self, input_ids: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """Return word embeddings `[B, N, e]`, e the encoder's width, but for ALBERT.

        Segments of pairs are left out where the encoder knows none.
        """
        x: Tensor = self.encoder.get_input_embeddings()(input_ids)
        table = getattr(getattr(self.encoder, "embeddings", None), "token_type_embeddings", None)
        if segment_ids is None or table is None or table.num_embeddings < 2:
            return x
        # The encoder itself adds segment 0 to embedded tokens.
        first: Tensor = table.weight[0]
        extra: Tensor = table(segment_ids) - first
        return x + extra

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the last hidden states `[B, N, d]` of embeddings `[B, N, e]`.

        Real tokens come first in the mask `[B, N]`.

        Raises:
            ValueError: DeBERTa v1 in mixed precision.
        """
        kind = self.encoder.config.model_type
        if kind == "deberta" and torch.is_autocast_enabled(x.device.type):
            # transformers fills its 16-bit scores with the lowest number of 32 bits.
            msg = (
                "got a deberta in mixed precision, for which it has no attention, expected a "
                "deberta-v2, or --trainer.precision 32-true"
            )
            raise ValueError(msg)
        hidden: Tensor = self._encode(x, mask).last_hidden_state
        return hidden

    def hidden_states(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """`[B, N, d]` after each layer, the first layer first."""
        out = self._encode(x, mask, output_hidden_states=True)
        # The first state is the embedded text, before any layer.
        return list(out.hidden_states[1:])

    def _encode(self, x: Tensor, mask: Tensor, **options: bool) -> Any:
        if self._caches:
            options["use_cache"] = False  # keys and values of all layers, which nothing reads
        return self.encoder(inputs_embeds=x, attention_mask=mask.long(), **options)


def set_dropout(encoder: nn.Module, rate: float) -> None:
    """Use this rate everywhere in an encoder, instead of the rates of its configuration."""
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate
        # Functions take numbers: `attention_dropout` of most types, `dropout` of XLM, ESM and OPT.
        # ESM's `token_dropout` is a switch.
        for name, value in [*vars(module).items()]:
            if _RATE.fullmatch(name) and type(value) in (float, int):
                setattr(module, name, rate)


class BackboneClassifier(nn.Module):
    """An encoder under a dense layer, an activation, and a projection to the classes.

    The activation is BERT's tanh, or that of the architecture. The dense layer and the projection
    are W_c and W_proj of the UniBERT paper's Table 1.

    Args:
        backbone: the encoder.
        num_classes: number of classes C.
        pooling: input of the head: the `first` token of the last layer, or the `mean` over all;
            `last`: the last token of a decoder, whose head is a projection without bias;
            `architecture`: pooling, activation and norm of the head that `transformers` has, for
            decoders always the last token.
        dropout: dropout before the projection, while training.
        reading: `text`: logits `[B, C]` of each text; `token`: `[B, N, C]` of each token, by the
            projection alone, as BERT tags; `choice`: one number for each row, and the C rows of a
            sample are its logits `[B, C]`.
        dense: the dense layer to begin with, such as BERT's pooler; None for random weights.

    Raises:
        ValueError: `transformers` has no such head for this architecture, or the token that is
            read does not see the text.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        *,
        pooling: Pooling = "first",
        dropout: float = 0.1,
        reading: Reading = "text",
        dense: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.reading = backbone, reading
        self.num_classes = num_classes
        self.activation: nn.Module
        self.norm: nn.Module
        self.head = SequenceHead() if reading == "token" else _head(backbone, pooling)
        layers = []
        bias = True
        if reading != "token" and self.head.activation is None:
            self.activation, self.norm, bias = nn.Identity(), nn.Identity(), False
        elif reading != "token":
            self.classifier = dense or nn.Linear(backbone.width, backbone.width, self.head.bias)
            if dense is None:
                layers.append(self.classifier)
            self.activation = _activation(self.head.activation)
            self.norm = nn.Identity()
            if (epsilon := self.head.norm) is not None:
                self.norm = nn.LayerNorm(backbone.width, epsilon, bias=self.head.norm_bias)
        outputs = 1 if reading == "choice" else num_classes
        self.projection = nn.Linear(backbone.width, outputs, bias)
        layers.append(self.projection)
        self.dropout = nn.Dropout(dropout)
        # A pretrained dense layer keeps its weights.
        std = getattr(backbone.encoder.config, "initializer_range", 0.02)
        for layer in layers:
            nn.init.normal_(layer.weight, std=std)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def embed(self, input_ids: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """See `Backbone.embed`."""
        return self.backbone.embed(input_ids, segment_ids)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[R, N, e]` embedded tokens and mask `[R, N]` to logits, see `reading`."""
        hidden: Tensor = self.backbone(x, mask)
        if self.reading == "token":
            tags: Tensor = self.projection(self.dropout(hidden))
            return tags
        pooling = self.head.pooling
        if pooling == "late":
            features = _mean(self.norm(self.activation(self.classifier(hidden))), mask)
        else:
            if pooling == "last":
                # Whichever side is padded.
                last = (mask * torch.arange(mask.shape[1], device=mask.device)).argmax(dim=1)
                pooled = hidden.take_along_dim(last[:, None, None], dim=1).squeeze(1)
            else:
                pooled = hidden[:, 0] if pooling == "first" else _mean(hidden, mask)
            if self.head.activation is not None:
                pooled = self.classifier(pooled)
            features = self.norm(self.activation(pooled))
        logits: Tensor = self.projection(self.dropout(features))
        # Each choice is a row of its own: [B * choices, 1] to [B, choices].
        return logits.view(-1, self.num_classes) if self.reading == "choice" else logits


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    """`[R, d]`, the mean of tokens `[R, N, d]` over a mask `[R, N]`."""
    real = mask.unsqueeze(-1).to(x.dtype)
    return (x * real).sum(dim=1) / real.sum(dim=1)


def _head(backbone: Backbone, pooling: Pooling) -> SequenceHead:
    config = backbone.encoder.config
    if backbone.causal and pooling in ("architecture", "last"):
        return LAST_TOKEN
    if backbone.causal and pooling == "first":
        msg = (
            f"got --model.pooling first for a {config.model_type}, a decoder, whose first token "
            "sees nothing of the text behind it, expected --model.pooling last or mean"
        )
        raise ValueError(msg)
    if pooling == "last":
        msg = (
            f"got --model.pooling last for a {config.model_type}, an encoder, expected --model."
            "pooling architecture, first or mean: last is for decoders"
        )
        raise ValueError(msg)
    if pooling != "architecture":
        return SequenceHead(pooling)
    head = find_head(config)
    if head is None:
        msg = (
            f"got pooling architecture for a {config.model_type}, whose classifier in transformers "
            "has another form, expected --model.pooling first or mean"
        )
        raise ValueError(msg)
    return head


def _activation(name: str | None) -> nn.Module:
    from transformers.activations import ACT2FN

    layer: nn.Module = ACT2FN[name]
    return layer
