"""The language model over characters: loss, schedule, generated texts, checkpoints."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from layers.decoder import KINDS, Kind
from lit_modules import CharacterLM, Generation, load_module
from lit_modules.shared.generation import write
from tests.unit.datamodules.characters import WORDS, sentences
from tests.unit.lit_modules.builders import make, trainer
from text import Batch, CharacterTokenizer, collate

TOKENIZER = CharacterTokenizer.build([" ".join(WORDS)], max_length=90)
every = pytest.mark.parametrize("kind", KINDS)


def model(kind: Kind = "dot_product", **settings: Any) -> CharacterLM:
    module = make(
        CharacterLM,
        **{
            "attention": kind,
            "width": 16,
            "heads": 4,
            "depth": 2,
            "hidden": 24,
            "dropout": 0.0,
            "max_length": 90,
            "initial_scale": 2.0,
            **settings,
        },
    )
    torch.manual_seed(0)
    module.attach_tokenizer(TOKENIZER)
    module.configure_model()
    return module


def batch(texts: list[str]) -> Batch:
    return collate(TOKENIZER.encode(texts), pad_id=TOKENIZER.pad_id)


@every
def test_the_loss_is_of_each_character_and_of_the_end(kind: Kind) -> None:
    module = model(kind).eval()
    texts = ["the hare", "a", "she won on it"]
    losses = module.losses(batch(texts))
    wanted: list[Tensor] = []
    for text in texts:
        ids = torch.tensor(TOKENIZER.encode([text])[0].input_ids)
        logits = module.network(ids[None, :-1])[0]
        wanted += functional.log_softmax(logits, dim=1)[range(len(text) + 1), ids[1:]].neg()
    torch.testing.assert_close(losses, torch.stack(wanted), rtol=1e-4, atol=1e-5)


def test_padding_changes_no_loss() -> None:
    module = model("l2_contractive").eval()
    alone, together = (module.losses(batch(texts)) for texts in (["hare"], ["hare", "the " * 9]))
    torch.testing.assert_close(together[:5], alone)


@pytest.mark.parametrize(("rate", "warmup"), [(0.4, 4000), (2.0, 10)])
def test_the_schedule_is_the_printed_one(
    monkeypatch: pytest.MonkeyPatch, rate: float, warmup: int
) -> None:
    monkeypatch.setattr(CharacterLM, "total_steps", lambda self: 50)
    module = model(base_rate=rate, warmup=warmup)
    found: Any = module.configure_optimizers()
    optimizer, scheduler = found["optimizer"], found["lr_scheduler"]["scheduler"]
    for step in range(1, 40):
        expected = rate / math.sqrt(16) * min(step**-0.5, step * warmup**-1.5)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected, rel=1e-9)
        optimizer.step()
        scheduler.step()


def test_a_fixed_rate_is_that_of_the_optimiser() -> None:
    module = model(base_rate=None, warmup=0.0, decay="none", optimizer=adam)
    found: Any = module.configure_optimizers()
    assert found.param_groups[0]["lr"] == 3e-3


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=3e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decay": "cosine"}, "expected inverse_sqrt and a number of steps"),
        ({"warmup": 0.1}, "expected inverse_sqrt and a number of steps"),
        ({"warmup": 1}, "expected inverse_sqrt and a number of steps above 1"),  # a share
        ({"width": 18}, "got width=18 and heads=4"),
        ({"attention": "linear"}, "expected one of dot_product, l2, l2_tied, l2_tied_wide, "),
        ({"base_rate": 0.0}, "got base_rate=0"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(**settings)


def test_settings_without_effect() -> None:
    assert set(model("lstm").unused()) == {"heads", "hidden", "initial_scale"}
    assert set(model("dot_product").unused()) == {"initial_scale"}
    assert model("l2_tied").unused() == {}


def trained(kind: Kind) -> CharacterLM:
    """After some steps, so that its texts are not noise."""
    module = model(kind)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    data = batch(sentences(40))
    for _ in range(30):
        optimizer.zero_grad()
        torch.autograd.backward(module.losses(data).mean())
        optimizer.step()
    return module


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS[1:])]
)
def test_texts_with_a_cache_are_those_without(kind: Kind) -> None:
    module = trained(kind).eval()
    for temperature in (0.0, 0.7, 1.5):
        settings = Generation(prompt="the ", length=40, temperature=temperature, seed=5)
        cached, anew = (
            write(module.network, TOKENIZER, [0, 1, 2, 3], settings, cache=cache)
            for cache in (True, False)
        )
        assert cached == anew
        assert all(text.text.startswith("the ") for text in cached)
        assert len({text.text for text in cached}) == (1 if temperature == 0 else 4)


@pytest.mark.slow
def test_a_text_depends_on_seed_and_number_alone() -> None:
    module = trained("l2_tied")
    settings = Generation(number=5, length=30, seed=1)
    texts = module.generate(settings)
    assert module.training  # as it was
    assert texts == module.generate(settings)
    assert module.write_records([3, 1], settings)[0]["text"] == texts[3]
    assert module.generate(Generation(number=2, length=30, seed=2)) != texts[:2]
    assert module.generate(Generation(number=3, length=30, seed=1)) == texts[:3]


@pytest.mark.slow
def test_characters_are_drawn_as_often_as_they_are_probable() -> None:
    module = trained("dot_product").eval()
    settings = Generation(prompt="th", length=1, temperature=2.0)
    count = 4000
    drawn = write(module.network, TOKENIZER, list(range(count)), settings)
    prompt = torch.tensor([[TOKENIZER.end_id, *TOKENIZER.find_ids("th")]])
    logits = module.network(prompt)[0, -1].detach().double()
    logits[[TOKENIZER.pad_id, TOKENIZER.unk_id]] = -math.inf
    odds = (logits / 2).softmax(dim=0)
    counts = Counter("" if text.ended else text.text[2:] for text in drawn)
    assert set(counts) <= {"", *TOKENIZER.vocabulary.get_itos()[3:]}
    for token, index in TOKENIZER.vocabulary._index.items():
        expected, name = float(odds[index]) * count, "" if token == "<end>" else token
        assert abs(counts[name] - expected) < 5 * math.sqrt(expected) + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt": "Ä"}, r"got a text with \['Ä'\]"),
        ({"prompt": "the " * 10, "length": 80}, "got a prompt of 40 characters and generation"),
    ],
)
def test_texts_that_cannot_be_written(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model().generate(Generation(**settings))


@pytest.mark.parametrize(
    "settings", [{"number": 0}, {"length": 0}, {"temperature": -1.0}, {"seed": -1}]
)
def test_wrong_settings_of_texts(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"got generation\."):
        Generation(**settings)


@every
def test_a_checkpoint_alone_is_enough(kind: Kind, tmp_path: Path) -> None:
    from training.checkpoint_callbacks import AtomicCheckpointIO

    module = model(kind)
    runner = trainer(plugins=[AtomicCheckpointIO()])
    runner.strategy.connect(module)
    runner.save_checkpoint(tmp_path / "a.ckpt", weights_only=True)
    again = load_module(tmp_path / "a.ckpt")
    assert isinstance(again, CharacterLM)
    assert again.attention == kind
    examples = batch(["the hare"])
    assert torch.equal(again.losses(examples), module.eval().losses(examples))
    assert again.generate(Generation(length=9)) == module.generate(Generation(length=9))
