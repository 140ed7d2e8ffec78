"""The loop around a classifier: what is its own, and what the classifier's."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import lit_modules
from certify.threats import Characters, Synonyms
from lit_modules import OLSA, AdversarialTraining, Adversary, TaskModule, TextClassifier, UniBERT
from lit_modules.adversaries import SMART, FreeLB, PGDAdversary
from lit_modules.checkpoints.reading import CheckpointError
from lit_modules.shared.averaged import AveragedWeights
from lit_modules.shared.optimisation import Optimisation, OptimisationChanges
from tests.unit.lit_modules.builders import (
    METHODS,
    SINGLE,
    attached,
    batch_of,
    loader,
    make,
    olsa,
    plain,
    trainer,
)

SAME: dict[str, Any] = {"dropout": 0.0, "warmup": 0.0, "decay": "none"}


def fitted(module: TaskModule, *, epochs: int = 3) -> dict[str, torch.Tensor]:
    """The weights after some steps on the same batches."""
    torch.manual_seed(5)
    run = trainer(max_epochs=epochs, log_every_n_steps=1)
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 7))
    return dict(module.plain.state_dict())


def wrapped(module: TaskModule, adversary: Adversary, **settings: Any) -> AdversarialTraining:
    """Around a copy of a classifier that has its weights."""
    around = AdversarialTraining(classifier=copy.deepcopy(module), adversary=adversary, **settings)
    tokenizer, class_names = module.require_text()
    around.attach(tokenizer, class_names, pairs=module.pairs)
    around.configure_model()
    return around


def saved(module: TaskModule, path: Path) -> str:
    """A checkpoint as a fit leaves it."""
    run = trainer(max_epochs=1)
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 7))
    run.save_checkpoint(path)
    return str(path)


@pytest.mark.long
def test_without_a_perturbation_it_is_plain_training() -> None:
    """Step for step, with the optimiser, the dropout and the schedule of the classifier."""
    module = attached(plain(dropout=0.3, warmup=0.2, decay="linear"))
    nothing = FreeLB(steps=1, initial_size=0, step_size=0)
    inside = fitted(wrapped(module, nothing))
    alone = fitted(module)
    assert inside.keys() == alone.keys()
    for name, weight in alone.items():
        torch.testing.assert_close(inside[name], weight, rtol=1e-5, atol=1e-6)


def test_it_answers_as_the_classifier_does() -> None:
    for name in ("olsa", "transformer", "mean"):
        module = attached(METHODS[name])
        outer = wrapped(module, PGDAdversary()).eval()
        batch = batch_of(module, SINGLE)
        assert torch.equal(outer(batch), module(batch))
        assert torch.equal(outer.predict_texts(SINGLE), module.predict_texts(SINGLE))
        assert outer.metric_names == module.metric_names
        assert type(outer.network) is type(module.network)
        assert type(outer.plain) is type(module)


def test_own_optimiser_and_schedule_take_the_place_of_the_classifiers() -> None:
    module = attached(plain())
    module.optimisation = Optimisation(warmup=0.5, decay="linear")
    unchanged = wrapped(module, PGDAdversary())
    assert unchanged.classifier.optimisation == module.optimisation
    changes = OptimisationChanges(optimizer=torch.optim.SGD, warmup=0.0, decay="none")
    own = wrapped(module, PGDAdversary(), optimisation=changes)
    assert own.classifier.optimisation == Optimisation(optimizer=torch.optim.SGD)
    optimizer = own.configure_optimizers()
    assert isinstance(optimizer, torch.optim.SGD)
    # The average and the like are not trained.
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in own.classifier.parameters()}


def test_checkpoints_are_read_without_anything_else(tmp_path: Path) -> None:
    module = wrapped(attached(METHODS["olsa"]), FreeLB(steps=2, norm="linf"))
    path = saved(module, tmp_path / "a.ckpt")
    loaded = lit_modules.load(path)
    assert isinstance(loaded, AdversarialTraining)
    assert isinstance(loaded.plain, OLSA)
    assert loaded.adversary.settings() == module.adversary.settings()
    torch.testing.assert_close(loaded.predict_texts(SINGLE), module.predict_texts(SINGLE))
    assert dict(loaded.hparams) == dict(module.hparams)


@pytest.mark.long
def test_begins_with_a_checkpoint(tmp_path: Path) -> None:
    module = attached(plain(**SAME))
    path = saved(module, tmp_path / "a.ckpt")
    for classifier in (None, TextClassifier(width=16, heads=4, depth=2, dropout=0.4)):
        around = AdversarialTraining(init_from=path, classifier=classifier, adversary=FreeLB())
        tokenizer = around.build_tokenizer(["not asked"])
        assert tokenizer.state() == module.require_tokenizer().state()
        around.attach(tokenizer, ["class 0", "class 1", "class 2"])
        around.configure_model()
        torch.testing.assert_close(around.predict_texts(SINGLE), module.predict_texts(SINGLE))
        assert around.hparams["classifier"]["name"] == "TextClassifier"
        # A checkpoint of the whole serves as well.
        again = AdversarialTraining(
            init_from=saved(around, tmp_path / "b.ckpt"), adversary=PGDAdversary()
        )
        assert isinstance(again.plain, TextClassifier)
        assert again.plain.dropout == (0.0 if classifier is None else 0.4)


def test_checkpoints_that_do_not_fit(tmp_path: Path) -> None:
    path = saved(attached(plain()), tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match="TextClassifier, for a classifier OLSA: leave"):
        AdversarialTraining(init_from=path, classifier=OLSA(), adversary=FreeLB())
    other = AdversarialTraining(
        init_from=path, classifier=TextClassifier(width=24, heads=4), adversary=FreeLB()
    )
    tokenizer = other.build_tokenizer(SINGLE)
    with pytest.raises(ValueError, match="expected the model's"):
        other.attach(tokenizer, ["yes", "no"])
    other = AdversarialTraining(
        init_from=path, classifier=TextClassifier(width=24, heads=4), adversary=FreeLB()
    )
    other.attach(tokenizer, ["class 0", "class 1", "class 2"])
    with pytest.raises(CheckpointError, match=r"do not fit the model .* leave it out"):
        other.configure_model()


def test_a_missing_checkpoint_matters_when_training_begins_only(tmp_path: Path) -> None:
    module = wrapped(attached(plain()), FreeLB())
    path = saved(module, tmp_path / "a.ckpt")
    gone = AdversarialTraining(init_from=str(tmp_path / "gone.ckpt"), adversary=FreeLB())
    with pytest.raises(CheckpointError, match="not found"):
        gone.build_tokenizer(SINGLE)
    with pytest.raises(CheckpointError, match="not found"):
        gone.configure_callbacks()
    gone.restore_text(lit_modules.read_checkpoint(path))
    assert isinstance(gone.plain, TextClassifier)
    assert gone.configure_callbacks() == []


def test_callbacks_of_the_classifier_are_kept() -> None:
    inner = make(UniBERT, architecture={"model_type": "bert"}, unitary="qr")
    outer = AdversarialTraining(classifier=inner, adversary=FreeLB())
    assert outer.configure_callbacks() == [inner.projection]


class Bare(TaskModule):
    """Classifies texts in a way of its own."""


def test_what_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match=r"got no adversary, expected one: .* FreeLB"):
        AdversarialTraining(classifier=TextClassifier())
    with pytest.raises(ValueError, match="neither classifier nor init_from"):
        AdversarialTraining(adversary=FreeLB())
    with pytest.raises(ValueError, match=r"Bare, which has no embed\(\), with FreeLB"):
        AdversarialTraining(classifier=Bare(), adversary=FreeLB())
    inner = AdversarialTraining(classifier=TextClassifier(), adversary=FreeLB())
    with pytest.raises(ValueError, match="AdversarialTraining in AdversarialTraining"):
        AdversarialTraining(classifier=inner, adversary=FreeLB())


def test_averaged_weights() -> None:
    module = attached(plain(dropout=0.0))
    batch = batch_of(module, SINGLE)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    average = AveragedWeights(module)
    torch.testing.assert_close(average.logits(module, batch), module(batch))
    with torch.no_grad():
        for p in module.parameters():
            p.add_(1.0)
    average.update(module, 0.75)
    for name, weight in zip(average.names, average.weights, strict=True):
        torch.testing.assert_close(weight, before[name] + 0.25)
        assert not weight.requires_grad
    moved = copy.deepcopy(module)
    with torch.no_grad():
        for name, p in moved.named_parameters():
            p.copy_(before[name] + 0.25)
    torch.testing.assert_close(average.logits(module, batch), moved(batch))


@pytest.mark.long
def test_smart_averages_after_each_step_and_goes_on_with_the_average(tmp_path: Path) -> None:
    adversary = SMART(epsilon=0.1, step_size=0.1, average_decay=[0.5, 0.9])
    module = wrapped(attached(plain(**SAME)), adversary)
    first = [p.clone() for p in module.average.weights]
    seen: list[list[torch.Tensor]] = []
    step = module.training_step

    def watched(batch: Any, batch_idx: int) -> torch.Tensor:
        seen.append([p.detach().clone() for p in module.classifier.parameters()])
        return step(batch, batch_idx)

    module.training_step = watched  # type: ignore[method-assign] # to look on
    run = trainer(max_epochs=2, accumulate_grad_batches=2)
    run.fit(module, loader(module, SINGLE, 2), loader(module, SINGLE, 7))
    # Four batches make two steps of the optimiser, and the run's first tenth is over at once.
    # What the last step has made is taken up before the next one, which does not come.
    wanted = first
    for weights in (seen[2], seen[4], seen[6]):
        wanted = [0.9 * old + 0.1 * new for old, new in zip(wanted, weights, strict=True)]
    for one, expected in zip(module.average.weights, wanted, strict=True):
        torch.testing.assert_close(one, expected)
    run.save_checkpoint(tmp_path / "a.ckpt")
    loaded = lit_modules.load(tmp_path / "a.ckpt")
    assert isinstance(loaded, AdversarialTraining)
    for one, expected in zip(loaded.average.weights, wanted, strict=True):
        torch.testing.assert_close(one, expected)


@pytest.mark.parametrize(
    "adversary", [FreeLB(), SMART(epsilon=0.1), PGDAdversary(clean_weight=0.5)]
)
def test_what_is_logged(adversary: Adversary) -> None:
    module = wrapped(attached(METHODS["olsa"]), adversary)
    run = trainer(log_every_n_steps=1)
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 7))
    shown = run.callback_metrics
    names = {"loss", "clean_loss", "adversarial_loss", "accuracy", "attack_share", "target_radius"}
    assert {f"train/{name}" for name in names} <= shown.keys()
    assert "alpha_1/layer_1" in shown
    assert 0 <= shown["train/attack_share"] <= 1
    assert 0 <= shown.get("train/attack_success", torch.tensor(0)) <= 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"init_from": "other.ckpt"}, "would have a file read"),
        ({"classifier": {"name": "MaskedLM", "settings": {}}}, "can be built"),
        ({"classifier": {"name": "os", "settings": {}}}, "can be built"),
        ({"classifier": {"name": "AdversarialTraining", "settings": {}}}, "can be built"),
        ({"adversary": {"name": "PGDAdversary", "settings": {"steps": 0}}}, "steps=0"),
        ({"adversary": {"name": "Adversary", "settings": {}}}, "can be built"),
        ({"adversary": "FreeLB"}, "can be built"),
        ({"classifier": None}, "can be built"),
    ],
)
def test_checkpoints_that_were_made_to_harm(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    """Nothing but our own classes is made of what they say, and no file is opened for them."""
    module = wrapped(attached(plain()), FreeLB())
    run = trainer(max_epochs=1)
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 7))
    module.hparams.update(change)
    run.save_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(CheckpointError, match=says):
        lit_modules.load(tmp_path / "a.ckpt")


@pytest.mark.long
def test_certificates_in_words_are_those_of_the_classifier() -> None:
    module = attached(olsa(depth=1))
    around, texts = wrapped(module, PGDAdversary(epsilon=0.1)), ["a good film", "bad"]
    threat = Synonyms.of({"good": ["bad", "film"]})
    certificates = around.text_certifier(threat)(texts, [1, None])
    assert certificates == module.text_certifier(threat)(texts, [1, None])
    with pytest.raises(ValueError, match="got OLSA, a model without a certificate for characters"):
        around.text_certifier(Characters(k=1))
    around.register_forward_hook(lambda part, given, out: 2 * out)
    with pytest.raises(ValueError, match="hook"):
        around.text_certifier(threat)
