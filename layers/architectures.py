"""Encoders of `transformers` with random weights, from a description of their architecture."""

import inspect
import json
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from layers.quiet_transformers import quiet
from text.error_reasons import describe_error

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# Settings with which transformers would fetch more files from the hub, or code.
_LEADS_ELSEWHERE = re.compile(
    r"auto_map|trust_remote_code|attn_implementation|name_or_path|_config$"
)


def build_encoder(architecture: dict[str, Any], *, decoders: bool = False) -> "PreTrainedModel":
    """Return an encoder with random weights, in float32, of an architecture of `configuration`.

    Raises:
        ValueError: see `configuration` and `check_reads_text`.
    """
    from transformers import AutoModel

    return _build(AutoModel, architecture, decoders=decoders)


def build_masked_lm(architecture: dict[str, Any]) -> "PreTrainedModel":
    """Return an encoder under a head that proposes words, else as `build_encoder` does."""
    from transformers import AutoModelForMaskedLM

    check_guesses_words(configuration(architecture))
    return _build(AutoModelForMaskedLM, architecture)


def _build(kind: Any, architecture: dict[str, Any], *, decoders: bool = False) -> "PreTrainedModel":
    config = configuration(architecture)
    try:
        with quiet():
            model: PreTrainedModel = kind.from_config(
                config, dtype=torch.float32, trust_remote_code=False
            )
    # Settings that do not go together lead constructors to exceptions of any kind.
    except Exception as error:
        raise _cannot_be(config.model_type, error) from error
    check_reads_text(model, decoders=decoders)
    return model


def configuration(architecture: dict[str, Any]) -> "PretrainedConfig":
    """Return the configuration of `transformers` for an architecture.

    That is a `model_type` (bert, roberta, ...) and the settings that differ from the defaults.

    Raises:
        ValueError: no or an unknown `model_type`, a setting that would load more files, or an
            invalid value.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    if wrong := sorted(name for name in architecture if _LEADS_ELSEWHERE.search(name)):
        msg = (
            f"got a backbone's architecture with {', '.join(wrong)}, expected settings of its "
            "layers alone: nothing else is read or fetched for it"
        )
        raise ValueError(msg)
    kind = architecture.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        near = get_close_matches(str(kind), list(CONFIG_MAPPING)) or ["bert", "roberta", "albert"]
        msg = (
            f"got a backbone's architecture of model_type {kind!r}, expected one that transformers "
            f"knows, such as {', '.join(near)}"
        )
        raise ValueError(msg)
    settings = {key: value for key, value in architecture.items() if key != "model_type"}
    try:
        with quiet():  # ids of special tokens that the tokenizer does not have are of no use here
            config: PretrainedConfig = AutoConfig.for_model(kind, **settings)
    except Exception as error:  # as many kinds as there are configurations
        raise _cannot_be(kind, error) from error
    return config


def check_settings(architecture: dict[str, Any]) -> None:
    """Raise ValueError if an architecture has settings that its type does not know.

    `transformers` would ignore them. In a new description they are misspelt; old folders on the hub
    have some, and are not checked.
    """
    config = configuration({"model_type": architecture.get("model_type")})
    names = {*config.to_dict(), *config.attribute_map}
    for name in architecture:
        if name not in names and not _LEADS_ELSEWHERE.search(name):
            near = get_close_matches(name, sorted(names), n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(names))}"
            msg = (
                f"got {name!r} in the architecture of a {config.model_type}, which has no such "
                f"setting: {hint}"
            )
            raise ValueError(msg)


def check_guesses_words(config: "PretrainedConfig") -> None:
    """Raise ValueError unless `transformers` has a head that guesses masked words for a model."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        msg = (
            f"got a backbone of type {config.model_type}, which guesses no masked words, expected "
            "an encoder that was trained to, such as bert, roberta, deberta-v2 or modernbert"
        )
        raise ValueError(msg)


def check_reads_text(model: "PreTrainedModel", *, decoders: bool = False) -> None:
    """Check that a model of `transformers` encodes text, and begins with word embeddings.

    With `decoders` causal models will do, too: their last token reads the text.

    Raises:
        ValueError: it does not, or it is a decoder, or one that reads more than the embeddings.
    """
    try:
        words = model.get_input_embeddings()
    except NotImplementedError:
        words = None
    plain = isinstance(words, nn.Embedding) and hasattr(model.config, "hidden_size")
    kind = None
    if not plain or model.config.is_encoder_decoder:
        kind = "no text encoder"
    elif is_causal(model):
        if not decoders:
            kind = "a decoder, whose first token sees nothing of the text behind it"
        elif not _reads_embeddings(model):
            kind = "a decoder that reads more of a token than its embedding"
    if kind is not None:
        msg = (
            f"got a backbone of type {model.config.model_type}, which is {kind}, "
            "expected one such as bert, roberta, modernbert or deberta-v2, without is_decoder"
        )
        raise ValueError(msg)


def is_causal(model: "PreTrainedModel") -> bool:
    """Return True if tokens do not see later ones; tested on two tokens if the type is unclear."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    if any(getattr(model.config, name, False) for name in ("is_decoder", "causal")):
        return True
    words = cast("nn.Embedding", model.get_input_embeddings()).weight
    # Masked language models see both sides. On the meta device nothing can be computed.
    if type(model.config) in MODEL_FOR_MASKED_LM_MAPPING or words.is_meta:
        return False
    hidden = _try(model, input_ids=_three_texts(model))
    # The first token must not see a later one, while the second does see an earlier one: layers
    # that mix no tokens at all are not causal.
    return torch.equal(hidden[0, 0], hidden[1, 0]) and not torch.equal(hidden[0, 1], hidden[2, 1])


def _reads_embeddings(model: "PreTrainedModel") -> bool:
    """Return True if embedded tokens are all that a model reads; True on the meta device."""
    words = cast("nn.Embedding", model.get_input_embeddings())
    if words.weight.is_meta:
        return True
    # Gemma 3n and 4 also look tokens up in tables of each layer, by their vectors if need be.
    ids = _three_texts(model)
    vectors = words(ids) * (1 + 1e-5)
    by_id = _try(model, input_ids=ids)
    try:
        by_vector = _try(model, inputs_embeds=vectors)
    except ValueError:  # Gemma 4 finds no token with such a vector
        return False
    return torch.allclose(by_id, by_vector, atol=1e-3, rtol=1e-3)


def _three_texts(model: "PreTrainedModel") -> Tensor:
    """Return `[3, 2]` ids: aa, ab, ba."""
    padding = getattr(model.config, "pad_token_id", None)
    a, b = [token for token in range(3) if token != padding][:2]
    words = cast("nn.Embedding", model.get_input_embeddings()).weight
    return torch.tensor([[a, a], [a, b], [b, a]], device=words.device)


def caches(model: nn.Module) -> bool:
    """Return True if a model keeps keys and values for texts that continue, unless it is told."""
    return "use_cache" in inspect.signature(model.forward).parameters


@torch.no_grad()
def _try(model: "PreTrainedModel", **inputs: Tensor) -> Tensor:
    """Return the last hidden states `[B, N, d]` in evaluation mode."""
    encoder, training = model.base_model, model.training
    encoder.train(mode=False)
    (tokens,) = inputs.values()
    mask = torch.ones(tokens.shape[:2], dtype=torch.int64, device=tokens.device)
    options = {"use_cache": False} if caches(encoder) else {}
    try:
        hidden: Tensor = encoder(**inputs, attention_mask=mask, **options)[0]
    # Architectures that want more than tokens and mask raise exceptions of any kind.
    except Exception as error:
        raise _cannot_be(model.config.model_type, error) from error
    encoder.train(training)
    return hidden


def architecture_of(model: "PreTrainedModel") -> dict[str, Any]:
    """Return the architecture of a model as JSON values, for checkpoints."""
    described = {**model.config.to_diff_dict(), "model_type": model.config.model_type}
    # Class names have integer keys, which a checkpoint cannot store.
    described = {key: value for key, value in described.items() if key not in _OF_CLASSES}
    # Tuples become lists, as in a checkpoint that has been read.
    plain: dict[str, Any] = json.loads(json.dumps(described))
    return plain


# Keys of a configuration that describe a head that is not ours.
_OF_CLASSES = ("id2label", "label2id", "num_labels", "problem_type")


def _cannot_be(kind: str, error: Exception) -> ValueError:
    return ValueError(
        f"got a backbone's architecture of {kind} that cannot be ({describe_error(error)}), "
        "expected settings that go together"
    )
