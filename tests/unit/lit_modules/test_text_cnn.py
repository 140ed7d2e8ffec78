"""Certified training by intervals: what it minimises, and what it refuses."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from certify.threats import Characters, Synonyms
from lit_modules import LipsLev, TextCNN, WordRobustness
from lit_modules.shared.weight_schedule import CONSTANT
from tests.unit.lit_modules.builders import SINGLE, attached, batch_of, loader, trainer

LISTS = {"good": ["fine", "bad"], "bad": ["good"], "film": ["one"], "long": ["far"]}


def lists(folder: Path) -> str:
    path = folder / "lists.json"
    path.write_text(json.dumps(LISTS))
    return str(path)


def build(folder: Path, *, together: float = 0.0, kappa: float = 0.5) -> TextCNN:
    robustness = WordRobustness(
        against="synonyms", lists=lists(folder), kappa=kappa, schedule=CONSTANT, together=together
    )
    module = attached(lambda: TextCNN(width=6, vector_width=4, robustness=robustness))
    assert isinstance(module, TextCNN)
    return module


def test_the_worst_loss_is_above_that_of_every_text(tmp_path: Path) -> None:
    module = build(tmp_path, kappa=1.0)
    module.on_fit_start()
    batch = batch_of(module, SINGLE)
    assert batch.labels is not None
    plain = nn.functional.cross_entropy(module(batch), batch.labels, reduction="none")
    worst = module._robust(batch, batch.labels, plain)
    assert bool((worst >= plain - 1e-6).all())
    changed = module.encode_texts([text.replace("good", "bad") for text in map(str, SINGLE)])
    moved = nn.functional.cross_entropy(module(changed), batch.labels, reduction="none")
    assert bool((worst >= moved - 1e-6).all())
    assert bool((worst > plain + 1e-6).any())


def test_words_are_drawn_together(tmp_path: Path) -> None:
    with_term, without = build(tmp_path, together=1.0), build(tmp_path)
    losses = []
    for module in (with_term, without):
        module.on_fit_start()
        batch = batch_of(module, SINGLE)
        assert batch.labels is not None
        losses.append(module._robust(batch, batch.labels, torch.zeros(len(SINGLE))))
    assert bool((losses[0] > losses[1]).all())


def test_words_without_candidates_have_finite_gradients(tmp_path: Path) -> None:
    module = build(tmp_path, together=1.0)
    module.on_fit_start()
    batch = batch_of(module, SINGLE)
    assert batch.labels is not None
    loss = module._robust(batch, batch.labels, torch.zeros(len(SINGLE))).mean()
    loss.backward()  # type: ignore[no-untyped-call] # torch leaves it untyped
    gradients = [tensor.grad for tensor in module.parameters() if tensor.grad is not None]
    assert gradients
    assert all(bool(tensor.isfinite().all()) for tensor in gradients)


def test_fits_and_certifies(tmp_path: Path) -> None:
    module = build(tmp_path, together=0.1)
    trainer().fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 3))
    module.eval()
    threat = Synonyms.read(lists(tmp_path))
    certificate = module.text_certifier(threat)(["a good film"], [0, None])[0]
    assert certificate.prediction == int(module.predict_texts("a good film").argmax())
    with pytest.raises(ValueError, match="without a certificate for characters"):
        module.text_certifier(Characters(k=1))
    module.network.register_forward_hook(lambda part, given, out: 2 * out)
    with pytest.raises(ValueError, match="hook"):
        module.text_certifier(threat)


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="expected none, synonyms or perturbation sets"):
        TextCNN(robustness=WordRobustness(against="characters"))
    with pytest.raises(ValueError, match="pooling"):
        TextCNN(pooling="last")  # type: ignore[arg-type] # what is refused
    for method in (TextCNN, LipsLev):
        with pytest.raises(ValueError, match="expected single texts"):
            attached(method, pairs=True)


def test_lips_lev_answers_with_its_certificates() -> None:
    module = attached(lambda: LipsLev(width=4, kernel=3, norm="2", max_length=90))
    (found,) = module.text_certifier(Characters(k=1))(["good"], [0, 1])
    assert found.prediction == int(module.predict_texts("good").argmax())
    # Padding adds no windows.
    alone = module.predict_texts(["good"])
    both = module(module.encode_texts(["good", "a film that is far too long"]))
    torch.testing.assert_close(alone[0], both[0])
