"""A pretrained encoder that is trained drops out as one with random weights does."""

import pytest
from torch import nn

from lit_modules import (
    ASA,
    ASAPretraining,
    FineTuning,
    MaskedLM,
    TaskModule,
    TextModule,
    UniBERT,
    UnitaryDistillation,
)
from tests.unit.lit_modules.builders import make

METHODS = [FineTuning, UniBERT, ASA, MaskedLM, ASAPretraining, UnitaryDistillation]


@pytest.mark.parametrize("method", METHODS)
def test_pretrained_encoders_are_in_training_mode(method: type[TextModule], minilm: str) -> None:
    module = make(method, backbone=minilm, max_length=20)
    tokenizer = module.build_tokenizer(["a text"])
    if isinstance(module, TaskModule):
        module.attach(tokenizer, ["a", "b"])
    else:
        module.attach_tokenizer(tokenizer)
    module.configure_model()
    assert all(part.training for part in module.modules())
    assert any(isinstance(part, nn.Dropout) for part in module.modules())


def test_the_best_weights_of_a_distillation_have_the_nearest_states() -> None:
    assert UnitaryDistillation.headline == "cosine"
