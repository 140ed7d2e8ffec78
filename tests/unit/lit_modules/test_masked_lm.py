"""Pre-training: the right places, the right mean, a loss that falls, a folder others can read."""

import logging
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import AutoModelForMaskedLM, AutoTokenizer

from attacks.resources.language_model import MaskFiller, load_masked_lm
from datamodules import RunningText
from layers import unitary_residual, unitary_weights
from layers.pretrained_encoders import load_encoder
from lit_modules import CheckpointError, MaskedLM, UniBERT, load, load_module
from tests.unit.datamodules.running_text import TOKENIZER as LONG
from tests.unit.datamodules.running_text import corpus, write
from tests.unit.layers.small_encoders import ARCHITECTURES
from tests.unit.lit_modules.builders import make, trainer
from text import Batch, PretrainedTokenizer, WordTokenizer, collate, train_word_piece

every = pytest.mark.parametrize("kind", ARCHITECTURES)
TOKENIZER = PretrainedTokenizer.from_state({**LONG.state(), "max_length": 16})


def model(
    kind: str = "bert", *, tokenizer: PretrainedTokenizer = TOKENIZER, **settings: Any
) -> MaskedLM:
    module = make(
        MaskedLM,
        **{
            "architecture": ARCHITECTURES[kind],
            "max_length": 16,
            "optimizer": adamw,
            "warmup": 0.0,
            "decay": "none",
            **settings,
        },
    )
    torch.manual_seed(2)
    module.attach_tokenizer(tokenizer)
    module.configure_model()
    return module


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-3)


@pytest.fixture
def text(tmp_path: Path) -> RunningText:
    write(tmp_path, lines=40)
    data = corpus(tmp_path)
    data.tokenizer = TOKENIZER
    return data


def batch() -> Batch:
    ids = torch.randint(
        5, TOKENIZER.vocab_size, (3, 12), generator=torch.Generator().manual_seed(0)
    )
    mask = torch.arange(12) < torch.tensor([12, 7, 9])[:, None]
    return Batch(ids.masked_fill(~mask, 0), mask, torch.tensor([4, 8, 1]))


@every
def test_logits_of_chosen_places_are_those_of_the_whole_model(kind: str) -> None:
    module = model(kind).eval()
    examples = batch()
    chosen = examples.mask & (torch.rand(3, 12, generator=torch.Generator().manual_seed(1)) < 0.4)
    full = module.model(input_ids=examples.input_ids, attention_mask=examples.mask.long()).logits
    logits = module(examples, chosen)
    assert logits.shape == (int(chosen.sum()), TOKENIZER.vocab_size)
    torch.testing.assert_close(logits, full[chosen], rtol=0, atol=1e-5)
    # The model is as it was: asked again without us, it answers for every place.
    again = module.model(input_ids=examples.input_ids, attention_mask=examples.mask.long()).logits
    assert torch.equal(again, full)
    assert module(examples, torch.zeros_like(chosen)).shape == (0, TOKENIZER.vocab_size)


def test_losses_are_of_the_hidden_words() -> None:
    module = model(share=0.5).eval()
    examples = batch()
    seen: list[tuple[Batch, Tensor, Tensor]] = []
    forward = module.forward

    def watched(hidden: Batch, chosen: Tensor) -> Tensor:
        logits = forward(hidden, chosen)
        seen.append((hidden, chosen, logits))
        return logits

    module.forward = watched  # type: ignore[method-assign, assignment] # watched in this test
    losses, right = module.guess(examples, epoch=1)
    hidden, chosen, logits = seen[0]
    words = examples.input_ids[chosen]
    assert torch.equal(losses, functional.cross_entropy(logits, words, reduction="none"))
    assert torch.equal(right.bool(), logits.argmax(dim=1) == words)
    assert (hidden.input_ids[chosen] != words).any()
    assert torch.equal(hidden.input_ids[~chosen], examples.input_ids[~chosen])
    special = torch.isin(examples.input_ids, torch.tensor(sorted(TOKENIZER.special_ids)))
    assert not (chosen & (special | ~examples.mask)).any()


def fit(module: MaskedLM, data: RunningText, **settings: Any) -> pl.Trainer:
    # Lightning's own, without a logger: values are looked up in the callback metrics.
    run = trainer(**{"max_epochs": 1, "log_every_n_steps": 1, **settings})
    run.fit(module, datamodule=data)
    return run


@pytest.mark.long
@pytest.mark.parametrize("unitary", ["none", pytest.param("qr", marks=pytest.mark.slow)])
def test_the_loss_falls(text: RunningText, unitary: str) -> None:
    module = model(unitary=unitary)
    before = trainer().validate(module, datamodule=text, verbose=False)[0]["val/loss"]
    run = fit(module, text, max_epochs=4)
    after = float(run.callback_metrics["val/loss"])
    assert before > 3.5  # ln 40: of nearly as many words, none is preferred
    assert after < before - 0.5
    assert 0 <= float(run.callback_metrics["train/accuracy"]) <= 1
    assert float(run.callback_metrics["train/tokens_per_second"]) > 0
    residual = unitary_residual(list(unitary_weights(module).values())).max()
    assert (float(residual) < 1e-5) == (unitary == "qr")


def test_validation_hides_the_same_in_every_epoch(text: RunningText) -> None:
    module = model()
    first, second = (
        trainer().validate(module, datamodule=text, verbose=False)[0] for _ in range(2)
    )
    assert first == second


@pytest.mark.long
@pytest.mark.parametrize("masking", ["dynamic", "fixed"])
def test_training_hides_others_in_each_epoch(text: RunningText, masking: str) -> None:
    module = model(token_masking=masking)
    seen: list[dict[int, list[int]]] = [{}, {}]
    forward = module.forward

    def watched(hidden: Batch, chosen: Tensor) -> Tensor:
        if module.trainer.training:
            rows = zip(hidden.sample_ids.tolist(), hidden.input_ids.tolist(), strict=True)
            seen[module.current_epoch].update(rows)
        return forward(hidden, chosen)

    module.forward = watched  # type: ignore[method-assign, assignment] # watched in this test
    fit(module, text, max_epochs=2, limit_val_batches=0)
    assert seen[0].keys() == seen[1].keys()
    assert len(seen[0]) > 50
    same = sum(seen[0][sample] == seen[1][sample] for sample in seen[0])
    assert same == (len(seen[0]) if masking == "fixed" else 0) or (
        masking == "dynamic" and same < 5
    )


# Nothing to guess

UNKNOWN = "12 34 56 78"
NOTHING = "got no token to guess in {}: its words are unknown to the tokenizer"


def blocks(folder: Path, *, known: int, unknown: int, **settings: Any) -> RunningText:
    """Blocks of known words, and behind them blocks that are unknown from end to end."""
    lines = ["the hare ran on when a tortoise won"] * known + [UNKNOWN] * unknown
    (folder / "a.txt").write_text("\n".join(lines))
    data = corpus(folder, batch_size=2, **settings)
    data.tokenizer = TOKENIZER
    return data


@pytest.mark.long
def test_unknown_words_alone_are_refused(tmp_path: Path) -> None:
    data = blocks(tmp_path, known=0, unknown=40)
    with pytest.raises(ValueError, match=NOTHING.format("the val split")):
        fit(model(), data)
    for evaluate, split in ((trainer().validate, "val"), (trainer().test, "test")):
        with pytest.raises(ValueError, match=NOTHING.format(f"the {split} split")):
            evaluate(model(), datamodule=data, verbose=False)
    with pytest.raises(ValueError, match=NOTHING.format("this epoch of training")):
        fit(model(), data, limit_val_batches=0)


@pytest.mark.long
def test_a_first_look_at_unknown_words_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(model(), blocks(tmp_path, known=40, unknown=0), num_sanity_val_steps=1)
    assert NOTHING.format("the val split") not in caplog.text
    with pytest.raises(ValueError, match="this epoch"):
        fit(
            model(),
            blocks(tmp_path, known=0, unknown=40),
            num_sanity_val_steps=1,
            check_val_every_n_epoch=2,
        )
    assert NOTHING.format("the val split") in caplog.text


@pytest.mark.long
def test_a_batch_of_unknown_words_teaches_nothing(tmp_path: Path) -> None:
    """It has no loss, and the others' metrics are as without it."""
    module = model(optimizer=sgd, share=0.5)
    seen: list[tuple[int, float, bool]] = []

    class Watch(pl.Callback):
        def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
            self.before = [weight.detach().clone() for weight in module.parameters()]

        def on_train_batch_end(
            self, trainer: pl.Trainer, _: Any, outputs: Any, batch: Any, *rest: Any
        ) -> None:
            words = ~torch.isin(batch.input_ids, torch.tensor(sorted(TOKENIZER.special_ids)))
            same = all(map(torch.equal, self.before, module.parameters()))
            seen.append((int(words.sum()), float(outputs["loss"]), same))
            logged = trainer.callback_metrics["train/loss"]
            assert bool(logged.isnan()) == (not words.any())

    data = blocks(tmp_path, known=12, unknown=60, validation_share=0)
    fit(module, data, callbacks=[Watch()], limit_val_batches=0)
    empty = [(loss, same) for words, loss, same in seen if words == 0]
    full = [(loss, same) for words, loss, same in seen if words > 5]
    assert set(empty) == {(0.0, True)}
    assert full
    assert all(loss > 0 and not same for loss, same in full)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


# Which batches there are, does not matter here.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch")
def test_the_rest_of_an_epoch_is_not_judged(tmp_path: Path) -> None:
    """A resumed run may find unknown words only, where those before were not."""

    def batches(text: str) -> Any:
        single = collate(TOKENIZER.encode([text] * 2), pad_id=TOKENIZER.pad_id)
        return DataLoader([single] * 4, batch_size=None)  # type: ignore[arg-type] # a list is a dataset

    class Save(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
            if trainer.global_step == 2:
                trainer.save_checkpoint(tmp_path / "a.ckpt")

    def run(text: str, ckpt_path: Path | None = None, *callbacks: pl.Callback) -> pl.Trainer:
        made = trainer(max_epochs=1, limit_val_batches=0, callbacks=list(callbacks))
        module = model(share=0.9)
        made.fit(module, batches(text), batches(text), ckpt_path=ckpt_path)
        return made

    run("the hare ran on", None, Save())
    assert run(UNKNOWN, tmp_path / "a.ckpt").global_step == 4
    with pytest.raises(ValueError, match=NOTHING.format("this epoch of training")):
        run(UNKNOWN)


# Folders


@every
def test_the_folder_is_read_by_its_library(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    module = model(kind).eval()
    module.export(tmp_path)
    assert capfd.readouterr() == ("", "")
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    words = "the hare ran , and a tortoise"
    inputs = tokenizer(words, return_tensors="pt")
    assert inputs["input_ids"][0].tolist() == TOKENIZER.encode([words])[0].input_ids
    ids, mask = inputs["input_ids"], inputs["attention_mask"].bool()
    ours = module(Batch(ids, mask, torch.zeros(1, dtype=torch.long)), mask)
    logits = theirs(input_ids=ids, attention_mask=mask.long()).logits[0]
    torch.testing.assert_close(ours, logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_the_folder_proposes_words_to_attacks(kind: str, tmp_path: Path) -> None:
    module = model(kind)
    module.export(tmp_path)
    proposals = MaskFiller(*load_masked_lm(tmp_path, device="cpu"), 5)
    query = ("the [MASK] ran", 4)
    answers = proposals.fill([query])[query]
    assert len(answers) == 5
    assert all(word.isalpha() for word in answers)


def test_training_goes_on_from_a_folder(tmp_path: Path, text: RunningText) -> None:
    first = model().eval()
    first.export(tmp_path)
    again = make(MaskedLM, backbone=str(tmp_path), max_length=16)
    tokenizer = again.build_tokenizer([])
    again.attach_tokenizer(tokenizer)
    again.configure_model()
    before, after = first.model.state_dict(), again.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    text.tokenizer = tokenizer
    fit(again, text, limit_train_batches=2, limit_val_batches=1)


def test_a_head_that_is_missing_begins_at_random(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = model()
    first.export(tmp_path)
    load_encoder(str(tmp_path)).save_pretrained(tmp_path)
    again = make(MaskedLM, backbone=str(tmp_path), max_length=16)
    again.attach_tokenizer(TOKENIZER)
    with caplog.at_level(logging.INFO):
        again.configure_model()
    assert "has no head for masked words: it begins at random" in caplog.text


@pytest.mark.long
def test_a_checkpoint_is_enough(tmp_path: Path, text: RunningText) -> None:
    module = model("roberta")
    run = fit(module, text, limit_train_batches=2, limit_val_batches=1)
    run.save_checkpoint(tmp_path / "a.ckpt")
    again = load_module(tmp_path / "a.ckpt")
    assert isinstance(again, MaskedLM)
    examples = batch()
    assert torch.equal(again(examples, examples.mask), module.eval()(examples, examples.mask))
    assert not again.training
    again.export(tmp_path)  # as pieces, it knows its tokenizer
    with pytest.raises(CheckpointError, match="of MaskedLM, which classifies nothing"):
        load(tmp_path / "a.ckpt")


def test_classifiers_begin_with_its_encoder(tmp_path: Path) -> None:
    module = model()
    module.export(tmp_path)
    classifier = make(UniBERT, backbone=str(tmp_path), max_length=16)
    classifier.attach(classifier.build_tokenizer([]), ["a", "b"])
    classifier.configure_model()
    encoder = classifier.network.backbone.encoder.state_dict()
    trained = module.model.base_model.state_dict()
    assert encoder.keys() == trained.keys()
    assert all(torch.equal(encoder[name], trained[name]) for name in encoder)


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {},
            "got backbone.pretrained=None, backbone.architecture=None and backbone.tokenizer=None",
        ),
        ({"backbone": "a", "architecture": {}}, "expected either a pretrained encoder"),
        ({"backbone": "a", "tokenizer": "b"}, "which has its tokenizer"),
        ({"share": 0.0}, "share=0.0"),
        ({"share": 1.0}, "token_masking.share=1.0"),
        ({"token_masking": "whole"}, "token_masking.kind='whole'"),
        ({"seed": -1}, "seed=-1"),
        ({"unitary": "lu"}, "unitary.method='lu'"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    apart = not settings or "backbone" in settings
    arguments = settings if apart else {"architecture": ARCHITECTURES["bert"], **settings}
    with pytest.raises(ValueError, match=message):
        make(MaskedLM, **arguments)


def test_tokenizers_without_mask(tmp_path: Path) -> None:
    module = make(MaskedLM, architecture=ARCHITECTURES["bert"])
    with pytest.raises(ValueError, match="got a WordTokenizer without mask token, expected the"):
        module.attach_tokenizer(WordTokenizer.build(["a b"], max_length=9))
    state = TOKENIZER.state()
    state["definition"] = state["definition"].replace("[MASK]", "[NONE]")
    with pytest.raises(ValueError, match="got a PretrainedTokenizer without mask token"):
        module.attach_tokenizer(PretrainedTokenizer.from_state(state))


def test_the_encoder_fits_its_tokenizer_and_length() -> None:
    with pytest.raises(ValueError, match=r"got a tokenizer of \d+ ids .* at most 20 ids"):
        model(architecture={**ARCHITECTURES["bert"], "vocab_size": 20})
    with pytest.raises(ValueError, match=r"max_length=64, expected at most .* 40 tokens"):
        model(tokenizer=LONG)


def test_wrong_patterns_are_found_with_the_layers() -> None:
    with pytest.raises(ValueError, match=r"'querry', which fits no .*attention\.self\.query"):
        model(unitary="qr", weights=["querry"])
    with pytest.raises(ValueError, match=r"intermediate.* of shape \(24, 16\) .* choose among"):
        model(unitary="qr", weights=["intermediate.dense.weight"])
    model(unitary="none", weights=["querry"])


def test_vocabulary_of_its_own() -> None:
    module = make(MaskedLM, architecture=ARCHITECTURES["bert"], vocab_size=60, max_length=20)
    tokenizer = module.build_tokenizer(["the hare ran", "a tortoise walked"])
    expected = train_word_piece(["the hare ran", "a tortoise walked"], 60, max_length=20)
    assert tokenizer.state() == expected.state()


def test_the_projection_comes_with_it() -> None:
    assert model().configure_callbacks() == []
    (projection,) = model(unitary="polar").configure_callbacks()
    assert getattr(projection, "method", None) == "polar"
