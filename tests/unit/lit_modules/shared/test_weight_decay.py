"""Weights that decay, in every method, and the check that a resumed run has the same bits."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.loggers import CSVLogger
from torch import nn

from lit_modules import ASA, AdversarialTraining, FineTuning, UniBERT
from lit_modules.shared.optimisation import Optimisation
from lit_modules.shared.weight_decay import exempt_vectors
from tests.unit.lit_modules import encoders
from tests.unit.lit_modules.builders import METHODS, SINGLE, Build, attached, loader, trainer
from tests.unit.lit_modules.test_asa_pretraining import made as pretraining
from training.learning_rates import LearningRates

MODULES: dict[str, Build] = {
    **{name: partial(attached, build) for name, build in METHODS.items()},
    "FineTuning": lambda: encoders.made(FineTuning),
    "FineTuning, DeBERTa": lambda: encoders.made(FineTuning, architecture=encoders.DEBERTA),
    "UniBERT": lambda: encoders.made(UniBERT),
    "ASA": lambda: encoders.made(ASA),
    "ASAPretraining": pretraining,
    "MaskedLM": lambda: pretraining(masking="none"),
}


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1)


def optimizer_of(module: Any) -> torch.optim.Optimizer:
    inner = getattr(module, "classifier", module)
    inner.optimisation = Optimisation(optimizer=adamw)
    optimizer = module.configure_optimizers()
    assert isinstance(optimizer, torch.optim.Optimizer)
    return optimizer


@pytest.mark.parametrize("name", MODULES)
def test_biases_norms_and_offsets_do_not_decay(name: str) -> None:
    module = MODULES[name]()
    optimizer = optimizer_of(module)
    decay = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    norms = {
        id(p)
        for child in module.modules()
        if isinstance(child, nn.LayerNorm)
        for p in child.parameters()
    }
    words = ("bias", "offset", "alpha_1")
    named = {n: p for n, p in module.named_parameters() if p.requires_grad}
    assert decay.keys() == {id(p) for p in named.values()}
    for parameter_name, parameter in named.items():
        last = parameter_name.rsplit(".", 1)[-1]
        exempt = id(parameter) in norms or any(word in last for word in words)
        assert decay[id(parameter)] == (0.0 if exempt else 0.1), parameter_name


def test_an_optimiser_without_decay_keeps_its_groups() -> None:
    layer = nn.Linear(2, 3)
    optimizer = torch.optim.Adam(layer.parameters())
    exempt_vectors(optimizer)
    assert [len(group["params"]) for group in optimizer.param_groups] == [2]


def test_a_group_of_vectors_alone_stays_one() -> None:
    norm = nn.LayerNorm(3)
    optimizer = adamw(norm.parameters())
    exempt_vectors(optimizer)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.0]


def run(path: Path, *, epochs: int, begin: Path | None = None) -> dict[str, Any]:
    """Train against FreeLB, from the beginning or from a checkpoint; what the run saves."""
    module = attached(METHODS["olsa, freelb"])
    assert isinstance(module, AdversarialTraining)
    inner = module.classifier
    inner.optimisation = Optimisation(optimizer=adamw)
    data = loader(module, [*SINGLE, "fine"], 4)
    fitting = trainer(max_epochs=epochs)
    fitting.fit(module.train(), data, data, ckpt_path=begin)
    fitting.save_checkpoint(path)
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


@pytest.mark.long
def test_a_run_ends_as_it_was_begun(tmp_path: Path) -> None:
    half = tmp_path / "half.ckpt"
    full = run(tmp_path / "whole.ckpt", epochs=2)
    run(half, epochs=1)
    assert len(full["optimizer_states"][0]["param_groups"]) == 2
    resumed = run(tmp_path / "resumed.ckpt", epochs=2, begin=half)
    for key, tensor in full["state_dict"].items():
        assert torch.equal(tensor, resumed["state_dict"][key]), key


@pytest.mark.parametrize(
    ("method", "names"), [(FineTuning, {"lr-AdamW"}), (ASA, {"lr-AdamW/pg1", "lr-AdamW/pg2"})]
)
def test_groups_that_differ_in_decay_alone_share_a_curve(
    method: type[FineTuning], names: set[str], tmp_path: Path
) -> None:
    module = encoders.made(method, optimizer=adamw)
    data = encoders.loader(module, 4)
    rates = LearningRates()
    logger = CSVLogger(tmp_path)
    trainer(logger=logger, callbacks=[rates], log_every_n_steps=1).fit(module.train(), data, data)
    assert rates.lrs.keys() == names
    assert len(module.optimizers().param_groups) == 2 * len(names)
