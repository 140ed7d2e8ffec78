"""Heads of sequence classifiers of `transformers`: ours from theirs, and theirs from ours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from layers.backbones import BackboneClassifier


@dataclass(frozen=True)
class SequenceHead:
    """A head: pooling, a dense layer, an activation, perhaps a layer norm, a projection.

    Attributes:
        pooling: the first or last token of the last layer, or the mean over all; `late`: the mean
            after dense layer, activation and norm.
        activation: its name in `transformers`; None for a head that is a projection without bias.
        bias: if the dense layer has one.
        norm: epsilon of the layer norm after the activation; None without one.
        norm_bias: if that has a bias.
    """

    pooling: Literal["first", "mean", "last", "late"] = "first"
    activation: str | None = "tanh"
    bias: bool = True
    norm: float | None = None
    norm_bias: bool = True

    def __str__(self) -> str:
        if self.pooling == "late":
            return f"the mean of {self.activation} on each token"
        token = "the mean of all tokens" if self.pooling == "mean" else f"the {self.pooling} token"
        layers = self.activation or "a projection without bias"
        return f"{layers}{'' if self.norm is None else ' and a layer norm'} on {token}"


LAST_TOKEN = SequenceHead(pooling="last", activation=None)
"""The head of decoders."""

PATHS = {
    "albert": ("albert.pooler", "classifier"),
    "bert": ("bert.pooler.dense", "classifier"),
    "camembert": ("classifier.dense", "classifier.out_proj"),
    "deberta": ("pooler.dense", "classifier"),
    "deberta-v2": ("pooler.dense", "classifier"),
    "distilbert": ("pre_classifier", "classifier"),
    "electra": ("classifier.dense", "classifier.out_proj"),
    "eurobert": ("dense", "classifier"),
    "gte": ("gte.pooler.dense", "classifier"),
    "modernbert": ("head.dense", "classifier"),
    "mpnet": ("classifier.dense", "classifier.out_proj"),
    "nomic_bert": ("nomic_bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "xlm-roberta": ("classifier.dense", "classifier.out_proj"),
}
"""Where `transformers` has the dense layer and the projection, by the type of the model."""
SCORE = "score"
"""Path of the projection of a decoder's head."""
NORM = "head.norm"
"""Path of the layer norm of ModernBERT's head."""


def find_head(config: "PretrainedConfig") -> SequenceHead | None:
    """Return the head that `transformers` puts on an encoder; None if it is not of this form."""
    if _scores_last_token(config):
        return LAST_TOKEN
    values: dict[str, Any] = config.to_dict()
    kind = config.model_type
    if kind not in PATHS or values.get("pooler_hidden_size") not in (None, config.hidden_size):
        return None
    if kind in ("distilbert", "electra", "deberta", "deberta-v2"):
        own = {"distilbert": "relu", "electra": "gelu"}
        return SequenceHead(activation=own.get(kind) or values["pooler_hidden_act"])
    if kind == "eurobert":
        poolings: dict[str, Literal["first", "mean", "late"]]
        poolings = {"bos": "first", "mean": "mean", "late": "late"}
        return SequenceHead(pooling=poolings[values["classifier_pooling"]], activation="gelu")
    if kind == "modernbert":
        return SequenceHead(
            pooling="first" if values["classifier_pooling"] == "cls" else "mean",
            activation=values["classifier_activation"],
            bias=values["classifier_bias"],
            norm=values["norm_eps"],
            norm_bias=values["norm_bias"],
        )
    return SequenceHead()


def _scores_last_token(config: "PretrainedConfig") -> bool:
    """Return True if the classifier of `transformers` projects the last token but padding."""
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    from transformers.modeling_layers import GenericForSequenceClassification

    kind: Any = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING.get(type(config), None)
    generic = isinstance(kind, type) and issubclass(kind, GenericForSequenceClassification)
    return generic or config.model_type == "gpt2"


def difference(network: "BackboneClassifier") -> str | None:
    """Return why `transformers` has no classifier with this head; None if it has one."""
    config = network.backbone.encoder.config
    head = find_head(config)
    if network.reading != "text":
        return "it predicts tokens or choices, no class of a text"
    if head is None:
        layer = "such a head" if network.backbone.causal else "a dense layer as ours"
        return f"no classifier of transformers on {config.model_type} has {layer}"
    if head != network.head:
        advice = "; --model.pooling architecture trains a head that transformers has"
        return (
            f"its head on {config.model_type} has {head}, this one {network.head}"
            f"{'' if network.backbone.causal and head != LAST_TOKEN else advice}"
        )
    return None


def sequence_classifier(
    network: "BackboneClassifier", class_names: Sequence[str], *, pad_id: int
) -> "PreTrainedModel":
    """Return a classifier of `transformers` with the same weights, for a `difference` of None.

    Class names come in the order of the logits; there are none for a regression.
    """
    from transformers import AutoModelForSequenceClassification

    encoder = network.backbone.encoder
    config = type(encoder.config).from_dict(encoder.config.to_dict())
    config.num_labels = network.num_classes
    config.pad_token_id = pad_id
    # Else pipelines apply a sigmoid to the only logit of a regression.
    config.problem_type = "single_label_classification" if class_names else "regression"
    if class_names:
        config.id2label = dict(enumerate(class_names))
        config.label2id = {name: number for number, name in enumerate(class_names)}
    build: Any = AutoModelForSequenceClassification.from_config
    model: PreTrainedModel = build(config, dtype=torch.float32)
    base = getattr(model, model.base_model_prefix)
    base.load_state_dict(encoder.state_dict(), strict=False)
    for theirs, ours in _pairs(model, network):
        theirs.load_state_dict(ours.state_dict())
    model.train(False)
    return model


def take_weights(network: "BackboneClassifier", model: "PreTrainedModel") -> None:
    """Give a network the weights of a classifier of `transformers`, for a `difference` of None."""
    base = getattr(model, model.base_model_prefix)
    # The pooler of theirs is the dense layer of ours.
    missing = network.backbone.encoder.load_state_dict(base.state_dict(), strict=False).missing_keys
    assert not missing  # one architecture
    for theirs, ours in _pairs(model, network):
        ours.load_state_dict(theirs.state_dict())


def _pairs(
    model: "PreTrainedModel", network: "BackboneClassifier"
) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Yield the layers of both heads that have the same weights."""
    if network.head == LAST_TOKEN:
        yield model.get_submodule(SCORE), network.projection
        return
    dense, projection = PATHS[model.config.model_type]
    yield model.get_submodule(dense), network.classifier
    yield model.get_submodule(projection), network.projection
    if network.head.norm is not None:
        yield model.get_submodule(NORM), network.norm
