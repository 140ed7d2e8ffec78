"""Converts our classifiers to equivalent sequence classifiers of `transformers`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from layers.backbones import BackboneClassifier

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def sequence_classifier(
    network: BackboneClassifier, class_names: Sequence[str], *, pad_id: int
) -> "PreTrainedModel | None":
    """Return a classifier of `transformers` with the same weights; None where it has no such head.

    BERT, RoBERTa and ALBERT have the head of ours: the first token, a dense layer, tanh, dropout, a
    projection. DistilBERT and DeBERTa have another activation. Class names come in the order of the
    logits; there are none for a regression.
    """
    from transformers import AutoModelForSequenceClassification

    encoder = network.backbone.encoder
    kind = encoder.config.model_type
    if network.pooling != "first" or network.reading != "text" or kind not in _HEADS:
        return None
    config = type(encoder.config).from_dict(encoder.config.to_dict())
    config.num_labels = network.num_classes
    config.pad_token_id = pad_id
    if class_names:
        config.id2label = dict(enumerate(class_names))
        config.label2id = {name: number for number, name in enumerate(class_names)}
    build: Any = AutoModelForSequenceClassification.from_config
    model: PreTrainedModel = build(config, dtype=torch.float32)
    base = getattr(model, model.base_model_prefix)
    base.load_state_dict(encoder.state_dict(), strict=False)
    dense, projection = _HEADS[kind]
    for path, layer in ((dense, network.classifier), (projection, network.projection)):
        target = model.get_submodule(path)
        assert isinstance(target, nn.Linear)
        target.load_state_dict(layer.state_dict())
    model.train(False)
    return model


# Names of the dense layer and of the projection, by the type of the model.
_HEADS = {
    "bert": ("bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "albert": ("albert.pooler", "classifier"),
}
