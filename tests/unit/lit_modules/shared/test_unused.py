"""Settings without effect are not ignored in silence."""

from typing import Any

import pytest
import torch

from lit_modules import ASA, OLSA, AdversarialTraining, TextClassifier, TextModule, UniBERT
from lit_modules import unused_settings as unused
from lit_modules.adversaries import FreeLB

BERT: dict[str, Any] = {"architecture": {"model_type": "bert"}}


def step(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1)


CASES: list[tuple[TextModule, list[str]]] = [
    (ASA(**BERT), []),
    (ASA(**BERT, share=0.3), ["share=0.3 has no effect with masking=adversarial"]),
    (ASA(**BERT, masking="bernoulli", share=0.3), []),
    (ASA(**BERT, masking="magnitude", tau=9.0), ["tau=9.0 has no effect with masking=magnitude"]),
    (ASA(**BERT, masking="none", alpha=2.0), ["alpha=2.0 has no effect with masking=none"]),
    (OLSA(loss="hinge", gamma=1.0), ["gamma=1.0 has no effect with loss=hinge"]),
    (OLSA(loss="cross_entropy", gamma=1.0), []),
    (OLSA(cache_backbone=True), ["cache_backbone=True has no effect with backbone=null"]),
    (TextClassifier(encoder="mean", depth=5), ["depth=5 has no effect with encoder=mean"]),
    (
        TextClassifier(target_radius=1.0),
        ["target_radius=1.0 has no effect with a network without certificate"],
    ),
    (UniBERT(**BERT, loss="cross_entropy", margin=9.0), ["margin=9.0 has no effect with loss=cro"]),
    (UniBERT(**BERT, unitary="none", unitary_every=3), ["unitary_every=3 has no effect with unit"]),
    (UniBERT(backbone="folder", vocab_size=9), ["vocab_size=9 has no effect with a backbone"]),
    (TextClassifier(lr_scheduler=step, warmup=0.5), ["warmup=0.5 has no effect with lr_scheduler"]),
    (
        AdversarialTraining(classifier=TextClassifier(encoder="mean", heads=2), adversary=FreeLB()),
        ["heads=2 has no effect with encoder=mean"],
    ),
]


@pytest.mark.parametrize(("module", "said"), CASES, ids=range(len(CASES)))
def test_what_has_no_effect_is_said(module: TextModule, said: list[str]) -> None:
    found = list(unused(module))
    assert len(found) == len(said)
    assert all(one.startswith(beginning) for one, beginning in zip(found, said, strict=True))


def test_every_setting_that_is_named_is_one() -> None:
    """A name that is none would never be said."""
    for module, _ in CASES:
        inner = module.classifier if isinstance(module, AdversarialTraining) else module
        known = {*type(inner).__init__.__annotations__}
        assert set(inner.unused()) <= known | {"adversary_lr_factor"}
