"""A copy with unitary weights that imitates the encoder it was made from."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from layers import unitary_residual, unitary_weights
from layers.pretrained_encoders import load_encoder
from lit_modules import MaskedLM
from lit_modules.unitary_distillation import UnitaryDistillation
from tests.unit.layers.small_encoders import NEWER
from tests.unit.lit_modules.builders import SINGLE, make, trainer
from tests.unit.lit_modules.shared.unitary_models import ARCHITECTURE
from text import Batch, collate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder as pre-training writes it."""
    torch.manual_seed(0)
    where = tmp_path_factory.mktemp("backbone")
    module = make(MaskedLM, architecture=ARCHITECTURE, vocab_size=80, max_length=30)
    module.attach_tokenizer(module.build_tokenizer(SINGLE))
    module.configure_model()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    module.export(where)
    return where


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=3e-3)


def model(folder: Path, **settings: Any) -> UnitaryDistillation:
    module = make(
        UnitaryDistillation,
        **{"backbone": str(folder), "max_length": 30, "optimizer": adam, **settings},
    )
    module.attach_tokenizer(module.build_tokenizer(SINGLE))
    module.configure_model()
    return module


def batch_of(module: UnitaryDistillation, texts: list[str]) -> Batch:
    tokenizer = module.require_tokenizer()
    return collate(tokenizer.encode(texts), pad_id=tokenizer.pad_id)


def fit(module: UnitaryDistillation, steps: int) -> dict[str, Tensor]:
    texts = [text for text in SINGLE if isinstance(text, str)]
    batches: Any = DataLoader(
        [texts],  # type: ignore[arg-type] # a list is a dataset
        collate_fn=lambda rows: batch_of(module, rows[0]),
    )
    run = trainer(max_epochs=-1, max_steps=steps, log_every_n_steps=1, num_sanity_val_steps=0)
    run.fit(module, batches, batches)
    return dict(run.callback_metrics)


@pytest.mark.parametrize("kind", ["eurobert", "gte", "modernbert"])
def test_the_copy_has_no_dropout_unless_it_is_asked_for(kind: str, tmp_path: Path) -> None:
    """The rate of the attention is a number in these encoders, no layer."""
    architecture = {**NEWER[kind], "vocab_size": 80}
    rates = ["attention_dropout", "attention_probs_dropout_prob"]
    architecture[rates[kind == "gte"]] = 0.5
    teacher = make(MaskedLM, architecture=architecture, vocab_size=80, max_length=30)
    teacher.attach_tokenizer(teacher.build_tokenizer(SINGLE))
    teacher.configure_model()
    teacher.export(tmp_path)
    module = model(tmp_path, unitary="none").train()
    assert module.evaluate(batch_of(module, ["good", "a bad one"]))["loss"].max() < 1e-9
    module = model(tmp_path, unitary="none", dropout=0.3).train()
    assert module.evaluate(batch_of(module, ["good", "a bad one"]))["loss"].max() > 1e-6


@pytest.mark.parametrize("match", ["mse", "cosine"])
def test_a_copy_as_it_is_differs_in_nothing(folder: Path, match: str) -> None:
    module = model(folder, unitary="none", match=match).eval()
    values = module.evaluate(batch_of(module, ["good", "a bad one"]))
    assert torch.allclose(values["loss"], torch.zeros(()), atol=1e-6)
    assert torch.allclose(values["cosine"], torch.ones(()))
    assert torch.allclose(values["cosine_of_means"], torch.ones(()))
    assert module.configure_callbacks() == []


@pytest.mark.parametrize("match", ["mse", "cosine"])
@pytest.mark.parametrize("layers", ["all", "last"])
def test_loss_by_definition(folder: Path, match: str, layers: str) -> None:
    module = model(folder, match=match, match_layers=layers).eval()
    fit(module, 1)
    batch = batch_of(module, ["good", "not a good film, and it is long"])
    original = load_encoder(str(folder)).eval()  # type: ignore[no-untyped-call] # theirs
    inputs: dict[str, Any] = {
        "input_ids": batch.input_ids,
        "attention_mask": batch.mask.long(),
        "output_hidden_states": True,
    }
    with torch.no_grad():
        target = original(**inputs).hidden_states[1:]
        hidden = module.eval().model.base_model(**inputs).hidden_states[1:]
        values = module.evaluate(batch)
    expected, cosines, row = [], [], 0
    for text in range(2):
        for place in range(int(batch.mask[text].sum())):
            pairs = [(a[text, place], b[text, place]) for a, b in zip(hidden, target, strict=True)]
            near = [float(a @ b / (a.norm() * b.norm())) for a, b in pairs]
            far = [float((a - b).norm() ** 2 / b.norm() ** 2) for a, b in pairs]
            losses = far if match == "mse" else [1 - cosine for cosine in near]
            expected.append(losses[-1] if layers == "last" else sum(losses) / len(losses))
            cosines.append(near[-1])
            row += 1
    assert values["loss"].tolist() == pytest.approx(expected, abs=1e-5)
    assert values["cosine"].tolist() == pytest.approx(cosines, abs=1e-5)
    assert values["cosine_of_means"].shape == (2,)
    assert len(values["loss"]) == row


def test_padding_changes_nothing(folder: Path) -> None:
    module = model(folder, unitary="polar").eval()
    fit(module, 1)
    module.eval()
    short = module.evaluate(batch_of(module, ["good"]))
    padded = module.evaluate(batch_of(module, ["good", "not a good film, and it is long"]))
    for name, value in short.items():
        assert torch.allclose(value, padded[name][: len(value)], atol=1e-5), name


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {},
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in [{"unitary": "qr"}, {"gradual_steps": 20}]
        ),
    ],
)
def test_learns_to_imitate(folder: Path, settings: dict[str, Any]) -> None:
    begun, module = model(folder, **settings), model(folder, **settings)
    original = copy.deepcopy(module.original().state_dict())
    before, after = fit(begun, 1), fit(module, 60)
    assert float(unitary_residual(list(unitary_weights(module).values())).max()) < 1e-5
    assert float(after["val/loss"]) < 0.5 * float(before["train/loss"]) or settings.get(
        "gradual_steps"
    )
    assert float(after["val/cosine"]) > 0.9
    assert float(after["val/cosine_of_means"]) > 0.9
    for name, weight in module.original().state_dict().items():
        assert torch.equal(weight, original[name]), name


def test_the_original_is_no_part_of_it(folder: Path) -> None:
    module = model(folder)
    names = list(module.state_dict())
    count = len(list(module.parameters()))
    module.original()
    assert list(module.state_dict()) == names
    assert len(list(module.parameters())) == count


@pytest.mark.parametrize("layers", ["all", "last"])
def test_every_trainable_parameter_gets_a_gradient(folder: Path, layers: str) -> None:
    """Distributed training waits for ever for a parameter without one."""
    module = model(folder, match_layers=layers).train()
    loss = module.evaluate(batch_of(module, ["good", "a bad one"]))["loss"]
    torch.autograd.backward(loss.mean())
    trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
    assert all(parameter.grad is not None for parameter in trainable.values())
    assert any("word_embeddings" in name for name in trainable)
    assert not any("predictions" in name or "pooler" in name for name in trainable)


def test_its_folder_is_an_encoder(folder: Path, tmp_path: Path) -> None:
    module = model(folder)
    fit(module, 3)
    module.export(tmp_path)
    encoder = load_encoder(str(tmp_path)).eval()  # type: ignore[no-untyped-call] # theirs
    assert float(unitary_residual(list(unitary_weights(encoder).values())).max()) < 1e-5
    batch = batch_of(module, ["good", "a bad one"])
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.mask.long()}
    with torch.no_grad():
        expected = module.eval().model.base_model(**inputs).last_hidden_state
        assert torch.allclose(encoder(**inputs).last_hidden_state, expected, atol=1e-6)


@pytest.mark.long
def test_a_checkpoint_needs_no_original(folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "original"))
    module = model(copied)
    fit(module, 2)
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    shutil.rmtree(copied)
    restored = UnitaryDistillation.from_settings(module.hparams)
    restored.restore_text(checkpoint)
    restored.configure_model()
    restored.load_state_dict(checkpoint["state_dict"])
    with pytest.raises(ValueError, match="got backbone"):
        restored.original()


@pytest.mark.parametrize("wrong", [{"match": "l1"}, {"match_layers": "first"}, {"dropout": -0.1}])
def test_settings_out_of_range(folder: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
        model(folder, **wrong)
