"""Reaches into a classifier: the input of its head, and the tokens between its layers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from layers.pretrained_encoders import checkpoints_gradients
from lit_modules.shared.task_module import TaskModule


def find_head(classifier: TaskModule) -> nn.Linear:
    """Return the layer that reads one vector for each text: a dense layer, or the last one.

    Raises:
        ValueError: the classifier has no such layer.
    """
    dense = getattr(classifier.network, "classifier", None)
    if getattr(getattr(classifier.network, "head", None), "pooling", None) == "late":
        dense = None  # it reads each token
    layers = (dense, classifier.output_layer) if classifier.applies_output_layer else ()
    for layer in layers:
        if isinstance(layer, nn.Linear):
            return layer
    msg = (
        f"got {classifier.method}, which has no linear head on one vector for each text, expected "
        "a classifier that has one: TextClassifier, OLSA, FineTuning, UniBERT"
    )
    raise ValueError(msg)


@contextmanager
def changed_sentences(classifier: TaskModule, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Replace the vectors `[B, d]` that the head reads; it reads as many as `change` returns."""

    def replace(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return change(inputs[0]), *inputs[1:]

    handle = find_head(classifier).register_forward_pre_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def find_layers(classifier: TaskModule) -> Sequence[nn.Module]:
    """Return the layers that map tokens to tokens under a mask, the first one first.

    Raises:
        ValueError: none, or layers whose tokens cannot be mixed, or that are computed twice.
    """
    network = classifier.network
    encoder = getattr(getattr(network, "backbone", None), "encoder", None)
    if checkpoints_gradients(classifier):
        msg = (
            "got backbone.gradient_checkpointing=true for a method that changes tokens between "
            "layers, expected false: the layers would be computed again without the change"
        )
        raise ValueError(msg)
    # BERT and its kind; DistilBERT; ModernBERT, EuroBERT, NomicBERT, GTE.
    inner = getattr(encoder, "encoder", getattr(encoder, "transformer", None))
    places = ((network, "blocks"), (inner, "layer"), (encoder, "layers"))
    for layers in (getattr(owner, name, None) for owner, name in places):
        if isinstance(layers, nn.ModuleList):
            return list(layers)
    msg = (
        f"got {classifier.method}, whose layers are not those of a Transformer, BERT, DeBERTa or "
        "ModernBERT, expected layers=[0], which mixes embedded words"
    )
    raise ValueError(msg)


@contextmanager
def mixed_tokens(
    layers: Sequence[nn.Module], number: int, masks: Tensor, mix: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Mix the tokens after a layer; the classifier is given the mask of the mixed texts.

    `layers` are those of `find_layers`, of which the first has the `number` 1. `mix` maps tokens
    `[B, N, d]` to mixed ones; `masks` `[B, N]` are those of the texts before.
    """

    def narrow(
        module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Until the texts are mixed, the tokens of one must not see the places of the other.
        x, *others = inputs
        if "attention_mask" in named:
            mask = _narrowed(named["attention_mask"], masks, x.dtype)
            return inputs, {**named, "attention_mask": mask}
        return (x, _narrowed(others[0], masks, x.dtype), *others[1:]), named

    def replace(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, tuple):
            return mix(output[0]), *output[1:]
        return mix(output)

    with ExitStack() as stack:
        for layer in layers[:number]:
            stack.callback(layer.register_forward_pre_hook(narrow, with_kwargs=True).remove)
        stack.callback(layers[number - 1].register_forward_hook(replace).remove)
        yield


def _narrowed(mask: Tensor | None, masks: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask of attention, in its own form, that also hides what `masks` `[B, N]` hide."""
    if mask is not None and mask.ndim == 2:
        return masks
    hidden = ~masks[:, None, None, :]
    if mask is None:  # an encoder without padding needs none
        mask = torch.zeros(hidden.shape, dtype=dtype, device=masks.device)
    # Added to the scores; else 0 and 1, as a bool or, of DeBERTa, as an integer.
    lowest = torch.finfo(mask.dtype).min if mask.is_floating_point() else 0
    return mask.masked_fill(hidden, lowest)
