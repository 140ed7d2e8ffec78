"""Unitary after every step, in what is saved, and after a restart."""

import copy
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint, EMAWeightAveraging, ModelCheckpoint
from pytorch_lightning.strategies import FSDPStrategy

from layers import unitary_residual, unitary_weights
from lit_modules import TaskModule
from lit_modules.shared.unitary import Unitary
from lit_modules.shared.unitary_projection import UnitaryProjection
from run_files.run_directory import RunDirectory
from tests.unit.lit_modules.builders import SINGLE, attached, loader, trainer
from tests.unit.lit_modules.shared.unitary_models import residual, unibert
from text import Text
from training.checkpoint_callbacks import BestCheckpoint, LastCheckpoint

TINY = 1e-5


def model(**settings: Any) -> TaskModule:
    """With weights that are not unitary yet."""
    settings = {"optimizer": adamw, "warmup": 0.0, "decay": "none", **settings}
    return attached(unibert(**settings), classes=2).train()


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def fit(
    module: TaskModule,
    texts: list[Text] = SINGLE,
    *,
    ckpt_path: Path | None = None,
    **settings: Any,
) -> pl.Trainer:
    run = trainer(**{"max_epochs": -1, "log_every_n_steps": 1, "limit_val_batches": 0, **settings})
    batches = loader(module, texts, 2, classes=2)
    run.fit(module, batches, batches, ckpt_path=ckpt_path, weights_only=True)
    return run


def same(one: TaskModule, other: TaskModule) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


class Watch(pl.Callback):
    """Notes the residual after each batch, and before each forward pass.

    A callback of the trainer runs before those of the module: it sees the weights of the last step.
    """

    def __init__(self) -> None:
        self.before: list[float] = []
        self.steps: list[int] = []

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, *rest: Any) -> None:
        self.before.append(residual(pl_module.state_dict()))
        self.steps.append(trainer.global_step)


@pytest.mark.long
@pytest.mark.parametrize("unitary", ["qr", "polar"])
def test_unitary_after_forty_steps(unitary: str) -> None:
    module = model(unitary=unitary)
    assert residual(module.state_dict()) > 0.1
    watch = Watch()
    run = fit(module, max_steps=40, callbacks=[watch])
    assert run.global_step == 40
    assert max(watch.before) < TINY  # the very first step, too
    assert residual(module.state_dict()) < TINY
    assert float(run.callback_metrics["unitary/residual"]) < TINY
    assert 1e-4 < float(run.callback_metrics["unitary/drift"]) < 1e-2


@pytest.mark.long
def test_other_weights_are_trained_freely() -> None:
    module, plain = model(), model(unitary="none")
    fit(module, max_steps=5)
    fit(plain, max_steps=5)
    assert residual(plain.state_dict()) > 0.1
    free = set(dict(module.named_parameters())) - unitary_weights(module).keys()
    assert any("classifier.weight" in name for name in free)
    assert "unitary/drift" not in fit(plain, max_steps=1).callback_metrics


@pytest.mark.long
def test_the_step_is_that_of_the_optimiser_and_then_the_factor() -> None:
    """By hand: loss, gradient, AdamW, factor of the definition."""
    module = model(dropout=0.0, backbone_dropout=0.0)
    fit(module, max_steps=1)
    expected = copy.deepcopy(module)
    batch = next(iter(loader(expected, SINGLE, 2, classes=2)))
    optimizer = adamw(expected.parameters())
    assert batch.labels is not None
    torch.autograd.backward(expected.loss(expected(batch), batch.labels))
    optimizer.step()
    with torch.no_grad():
        for weight in unitary_weights(expected).values():
            q, r = torch.linalg.qr(weight)
            weight.copy_(q * r.diagonal().sign())
    fit(module, max_steps=1)
    for (name, found), true in zip(
        module.state_dict().items(), expected.state_dict().values(), strict=True
    ):
        assert torch.allclose(found, true, atol=1e-6), name


def test_accumulated_batches_project_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = model()
    calls: list[int] = []
    monkeypatch.setattr(
        "lit_modules.shared.unitary_projection.project_",
        lambda weights, *_args, **_settings: calls.append(len(weights)),
    )
    fit(module, max_steps=5, accumulate_grad_batches=3)
    assert calls == [8] * 6  # at the start, and after each step


@pytest.mark.long
def test_accumulation_is_unitary() -> None:
    module, watch = model(), Watch()
    fit(module, max_steps=5, accumulate_grad_batches=3, callbacks=[watch])
    assert len(watch.steps) > 10
    assert max(watch.before) < TINY


def test_every_third_step() -> None:
    module, watch = model(every_n_steps=3), Watch()
    fit(module, max_epochs=2, callbacks=[watch])  # of 4 steps each
    assert watch.steps == list(range(8))
    # After steps 3 and 6, and after the epochs' ends at 4 and 8.
    assert [step for step, r in zip(watch.steps, watch.before, strict=True) if r < TINY] == [
        *(0, 3, 4, 6)
    ]
    assert residual(module.state_dict()) < TINY


@pytest.mark.long
def test_every_third_step_is_measured_unitary(tmp_path: Path) -> None:
    module = model(every_n_steps=3)
    seen: list[float] = []

    class Validation(pl.Callback):
        def on_validation_batch_start(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
            seen.append(residual(pl_module.state_dict()))

    run = trainer(max_epochs=2, val_check_interval=2, callbacks=[Validation()])
    batches = loader(module, SINGLE, 2, classes=2)
    run.fit(module, batches, loader(module, SINGLE, 8, classes=2))
    assert len(seen) == 4 + 1  # and before the first step
    assert max(seen) < TINY


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:got unitary.gradual_steps")
def test_gradual() -> None:
    """Without training, the distance shrinks by equal parts."""

    def still(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.0)

    module = model(unitary="polar", gradual_steps=4, optimizer=still)
    weights = unitary_weights(module)
    start = {name: weight.detach().clone() for name, weight in weights.items()}
    for steps in range(1, 6):
        copied = copy.deepcopy(module)
        fit(copied, max_steps=steps)
        for name, weight in unitary_weights(copied).items():
            left, _, right = torch.linalg.svd(start[name])
            expected = torch.lerp(start[name], left @ right, min(steps / 4, 1))
            assert torch.allclose(weight, expected, atol=1e-5), (name, steps)
            assert steps < 4 or float(unitary_residual([weight])) < TINY


def test_gradual_ends_unitary() -> None:
    module, watch = model(gradual_steps=6), Watch()
    fit(module, max_steps=10, callbacks=[watch])  # a warning would be an error
    assert min(watch.before[:6]) > 0.01
    assert max(watch.before[6:]) < TINY


def test_a_training_that_ends_before_its_weights_are_unitary_warns() -> None:
    module = model(gradual_steps=6)
    with pytest.warns(UserWarning, match="gradual_steps=6 for a training of 5 steps"):
        fit(module, max_steps=5)
    assert float(unitary_residual([*unitary_weights(module).values()]).max()) > TINY


@pytest.mark.long
def test_saved_weights_are_projected(tmp_path: Path) -> None:
    """Whatever the order in which callbacks are given."""
    module = model()
    every = ModelCheckpoint(tmp_path / "every", every_n_train_steps=1, save_top_k=-1)
    ours = [
        BestCheckpoint(RunDirectory(tmp_path), monitor=None, mode="max"),
        LastCheckpoint(RunDirectory(tmp_path), every_n_minutes=0),
    ]
    fit(module, max_steps=6, callbacks=[every, *ours], enable_checkpointing=True)
    paths = [*tmp_path.glob("every/*.ckpt"), *tmp_path.glob("checkpoints/*.ckpt")]
    assert {path.name for path in paths} >= {"best.ckpt", "last.ckpt", "previous.ckpt"}
    assert len(paths) == 6 + 3
    for path in paths:
        assert residual(torch.load(path, weights_only=True)["state_dict"]) < TINY, path


@pytest.mark.long
@pytest.mark.parametrize("step", [5, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"unitary": "polar"}, marks=pytest.mark.slow),
        pytest.param({"every_n_steps": 3}, marks=pytest.mark.slow),
        {"gradual_steps": 9},
        pytest.param(
            {"optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=0.05)},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["qr", "polar", "every third", "gradual", "large steps"],
)
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch")
@pytest.mark.filterwarnings("ignore:got unitary.gradual_steps")
@pytest.mark.usefixtures("one_thread")
def test_a_resumed_fit_is_the_uninterrupted_one(
    tmp_path: Path, settings: dict[str, Any], step: int
) -> None:
    path = tmp_path / "kept.ckpt"

    class Keep(Checkpoint):
        """Has no state of its own, which another fit would miss."""

        def on_train_batch_end(self, trainer: pl.Trainer, *rest: Any) -> None:
            if trainer.global_step == step and not path.exists():
                trainer.save_checkpoint(path)

    def run(module: TaskModule, steps: int, ckpt_path: Path | None = None) -> None:
        # Lightning begins the epoch's batches anew; here they are all the same.
        texts = SINGLE[1:2] * 24
        settings: dict[str, Any] = {"callbacks": [Keep()], "enable_checkpointing": True}
        fit(module, texts, max_steps=steps, ckpt_path=ckpt_path, **settings)

    full = model(dropout=0.0, backbone_dropout=0.0, **settings)
    first, second = copy.deepcopy(full), copy.deepcopy(full)
    run(first, step)
    run(full, 12)
    run(second, 12, path)
    assert same(full, second)
    assert not same(full, first)


def test_unitary_weights_are_begun_with_as_they_are() -> None:
    """Another fit from them, as fine-tuning from pre-training."""
    module = model()
    fit(module, max_steps=3)
    start = copy.deepcopy(module)
    fit(module, max_steps=1, limit_train_batches=0)
    assert same(module, start)


def test_weights_that_were_loaded_in_between_are_looked_at_anew() -> None:
    module = model()
    fit(module, max_steps=3)
    with torch.no_grad():
        for weight in unitary_weights(module).values():
            weight.mul_(2)
    watch = Watch()
    fit(module, max_steps=2, callbacks=[watch])
    assert max(watch.before) < TINY


def test_double_precision() -> None:
    module = model()
    fit(module, max_steps=4, precision="64-true")
    assert residual(module.state_dict()) < 1e-13


def test_mixed_precision_keeps_float32_weights() -> None:
    module, watch = model(), Watch()
    fit(module, max_steps=10, precision="bf16-mixed", callbacks=[watch])
    assert max(watch.before) < TINY
    assert all(weight.dtype == torch.float32 for weight in unitary_weights(module).values())


@pytest.mark.parametrize("precision", ["bf16-true", "16-true"])
def test_reduced_precision_is_refused(precision: Any) -> None:
    with pytest.raises(ValueError, match=r"float16, expected float32 or float64.*bf16-mixed"):
        fit(model(), max_steps=1, precision=precision)


@pytest.mark.filterwarnings("ignore:You're using the WeightAveraging callback")
def test_averages_are_refused() -> None:
    with pytest.raises(ValueError, match="EMAWeightAveraging beside UnitaryProjection"):
        fit(model(), max_steps=1, callbacks=[EMAWeightAveraging()])


def test_parts_of_matrices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer()
    monkeypatch.setattr(type(run), "strategy", FSDPStrategy(accelerator=run.accelerator))
    with pytest.raises(ValueError, match=r"FSDPStrategy.*--trainer\.strategy ddp"):
        UnitaryProjection().on_fit_start(run, model())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "lu"}, "unitary.method='lu'"),
        ({"every_n_steps": 0}, "every_n_steps=0"),
        ({"gradual_steps": -1}, "gradual_steps=-1"),
        ({"gradual_steps": 5, "every_n_steps": 2}, "every_n_steps=2"),
        ({"method": "none"}, "expected a method of qr, polar"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UnitaryProjection(Unitary(**settings))


def test_other_weights() -> None:
    module = model(weights=["layer.1.*query.weight", "classifier.weight"])
    fit(module, max_steps=3)
    weights = dict(module.named_parameters())
    chosen = ["network.classifier.weight"]
    chosen += [name for name in weights if "layer.1.attention.self.query.weight" in name]
    assert float(unitary_residual([weights[name] for name in chosen]).max()) < TINY
    assert residual(module.state_dict()) > 0.1
    with pytest.raises(ValueError, match="'querry', which fits no trainable weight"):
        fit(model(weights=["querry"]), max_steps=1)


def test_the_callback_is_copied_with_its_module() -> None:
    module = model()
    fit(module, max_steps=2)
    copied = copy.deepcopy(module)
    fit(copied, max_steps=2)
    assert residual(copied.state_dict()) < TINY
    assert not same(module, copied)
