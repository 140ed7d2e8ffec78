"""Settings without effect are not ignored in silence."""

from typing import Any

import pytest
import torch

from lit_modules import ASA, OLSA, AdversarialTraining, TextClassifier, TextModule, UniBERT
from lit_modules import unused_settings as unused
from lit_modules.adversaries import FreeLB
from lit_modules.shared.settings import parameters, plain
from tests.unit.lit_modules.builders import make

BERT: dict[str, Any] = {"architecture": {"model_type": "bert"}}


def step(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1)


CASES: list[tuple[TextModule, list[str]]] = [
    (make(ASA, **BERT), []),
    (
        make(ASA, **BERT, share=0.3),
        ["masking.share=0.3 has no effect with masking.kind=adversarial"],
    ),
    (make(ASA, **BERT, masking="bernoulli", share=0.3), []),
    (
        make(ASA, **BERT, masking="magnitude", tau=9.0),
        ["masking.tau=9.0 has no effect with masking.kind=magnitude"],
    ),
    (
        make(ASA, **BERT, masking="none", alpha=2.0),
        ["alpha=2.0 has no effect with masking.kind=none"],
    ),
    (
        make(OLSA, loss="hinge", gamma=1.0),
        ["objective.gamma=1.0 has no effect with objective.loss=hinge"],
    ),
    (make(OLSA, loss="cross_entropy", gamma=1.0), []),
    (
        make(OLSA, loss="cross_entropy", gamma=0.0, margin="paper"),
        ["objective.margin=paper has no effect with objective.gamma=0"],
    ),
    (make(OLSA, cache=True), ["backbone.cache=True has no effect with"]),
    (TextClassifier(encoder="mean", depth=5), ["depth=5 has no effect with encoder=mean"]),
    (
        make(TextClassifier, target_radius=1.0),
        ["objective.target_radius=1.0 has no effect with a network without certificate"],
    ),
    (
        make(UniBERT, **BERT, loss="cross_entropy", margin=9.0),
        ["objective.margin=9.0 has no effect with"],
    ),
    (make(UniBERT, **BERT, unitary="none", every_n_steps=3), ["unitary.every_n_steps=3 has no"]),
    (
        make(UniBERT, backbone="folder", vocab_size=9),
        ["backbone.vocab_size=9 has no effect with a backbone"],
    ),
    (
        make(TextClassifier, lr_scheduler=step, warmup=0.5),
        ["optimisation.warmup=0.5 has no effect with lr_scheduler"],
    ),
    (
        AdversarialTraining(classifier=TextClassifier(encoder="mean", heads=2), adversary=FreeLB()),
        ["heads=2 has no effect with encoder=mean"],
    ),
]


@pytest.mark.parametrize(("module", "said"), CASES, ids=range(len(CASES)))
def test_what_has_no_effect_is_said(module: TextModule, said: list[str]) -> None:
    names = list(unused(module))
    assert len(names) == len(said)
    assert all(one.startswith(beginning) for one, beginning in zip(names, said, strict=True))


def test_every_setting_that_is_named_is_one() -> None:
    """A name that is none would never be said."""
    for module, _ in CASES:
        inner = module.classifier if isinstance(module, AdversarialTraining) else module
        defaults = plain({name: one.default for name, one in parameters(type(inner)).items()})
        for name in inner.unused():
            settings = defaults
            for part in name.split("."):
                assert part in settings
                settings = settings[part]
