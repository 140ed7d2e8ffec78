"""Training on the random texts of a smoothed classifier: their distribution, and when they come."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import product
from math import comb
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from certify.smoothing import SmoothedCertifier, Smoothing
from certify.smoothing.random_texts import SubstitutedWords
from certify.threats import Synonyms
from lit_modules import AdversarialTraining, TextClassifier, TextCNN, WordScores, unused_settings
from lit_modules.adversaries import FreeLB
from lit_modules.shared.smoothing_noise import SmoothingNoise, TrainedNoise, random_batch
from tests.unit.lit_modules.builders import PAIRS, SINGLE, attached, batch_of, loader, trainer
from text import Batch, Text, WordTokenizer, collate

LISTS = {"good": ["fine", "bad"], "bad": ["good"], "fine": ["good"], "film": ["one"]}
TEXT = "good bad film"
TOKENIZER = WordTokenizer.build(SINGLE)


@pytest.fixture
def lists(tmp_path: Path) -> str:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(LISTS))
    return str(path)


def given(noise: TrainedNoise, lists: str, **more: Any) -> SmoothingNoise:
    return SmoothingNoise(noise=noise, lists=lists if noise == "substitute" else None, **more)


def expected(noise: TrainedNoise) -> dict[tuple[str, ...], float]:
    """Probability of each random text of `TEXT`, in words of the vocabulary, by enumeration."""
    words, odds = TEXT.split(), defaultdict[tuple[str, ...], float](float)
    if noise == "substitute":
        around = SubstitutedWords(Synonyms.of(LISTS), 2).around
        texts = list(product(*map(around, words)))
        return {text: 1 / len(texts) for text in texts}
    for kept in product((True, False), repeat=len(words)):
        pairs = list(zip(words, kept, strict=True))
        if noise == "delete":
            text = tuple(word for word, keep in pairs if keep) or ("<unk>",)
            odds[text] += 0.5 ** len(words)
        elif sum(kept) == 2:
            text = tuple(word if keep else "<unk>" for word, keep in pairs)
            odds[text] += 1 / comb(len(words), 2)
    return dict(odds)


def words_of(batch: Batch) -> list[tuple[str, ...]]:
    tokens = TOKENIZER.vocabulary.get_itos()
    return [
        tuple(tokens[i] for i in ids[:length])
        for ids, length in zip(batch.input_ids.tolist(), batch.lengths.tolist(), strict=True)
    ]


@pytest.mark.long
@pytest.mark.parametrize("noise", ["mask", "delete", "substitute"])
def test_the_distribution_is_that_of_the_certificate(noise: TrainedNoise, lists: str) -> None:
    rate, count = {"mask": 0.4}.get(noise, 0.5), 4000
    texts = given(noise, lists, rate=rate).texts(TOKENIZER)
    assert texts is not None
    batch = collate(TOKENIZER.encode([TEXT] * count), pad_id=TOKENIZER.pad_id)
    drawn = Counter(words_of(random_batch(batch, texts, TOKENIZER, seed=3, epoch=1)))
    odds = expected(noise)
    assert drawn.keys() == odds.keys()
    for text, share in odds.items():
        assert abs(drawn[text] / count - share) < 4.5 * (share * (1 - share) / count) ** 0.5
    # One number after the other, it is what the certifier draws, and what the model then reads.
    settings = Smoothing(noise=noise, rate=rate)  # type: ignore[arg-type] # it is not none
    certifier = SmoothedCertifier(lambda t: torch.zeros(len(t)), Synonyms.of(LISTS), settings)
    for sample in range(50):
        theirs = " ".join(certifier.noise.draw(TEXT.split(), Random(f"3 1 {sample}")))
        single = Batch(batch.input_ids[:1], batch.mask[:1], torch.tensor([sample]))
        ours = random_batch(single, texts, TOKENIZER, seed=3, epoch=1)
        assert ours.input_ids[0].tolist() == TOKENIZER.encode([theirs])[0].input_ids


def test_a_draw_depends_on_seed_epoch_and_sample_alone() -> None:
    texts = SmoothingNoise(noise="delete", rate=0.5).texts(TOKENIZER)
    assert texts is not None
    rows = TOKENIZER.encode(SINGLE)

    def drawn(ids: Sequence[int], *, seed: int = 0, epoch: int = 0) -> list[tuple[str, ...]]:
        batch = collate([rows[i] for i in ids], pad_id=TOKENIZER.pad_id, sample_ids=ids)
        return words_of(random_batch(batch, texts, TOKENIZER, seed=seed, epoch=epoch))

    full = drawn(range(len(SINGLE)))
    assert drawn([4, 1]) == [full[4], full[1]]
    assert drawn(range(len(SINGLE)), seed=1) != full
    assert drawn(range(len(SINGLE)), epoch=1) != full


class Seen(pl.Callback):
    """Keeps what the embedding reads; saves a checkpoint after the first epoch."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.texts, self.evaluated = path, list[Any](), list[Any]()

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        def keep(part: nn.Module, args: tuple[Any, ...]) -> None:
            (self.texts if part.training else self.evaluated).append(args[0].tolist())

        assert isinstance(pl_module.embedding, nn.Module)
        pl_module.embedding.register_forward_pre_hook(keep)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.path is not None and trainer.current_epoch == 0:
            trainer.save_checkpoint(self.path)


def fit(noise: SmoothingNoise, seen: Seen, ckpt_path: Path | None = None) -> TextClassifier:
    module = attached(lambda: TextClassifier(encoder="mean", width=8, smoothing=noise))
    assert isinstance(module, TextClassifier)
    module.train()
    made = trainer(max_epochs=2, callbacks=[seen])
    made.fit(module, loader(module, SINGLE, 2), loader(module, SINGLE, 7), ckpt_path=ckpt_path)
    return module


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("noise", ["mask", "delete", "substitute"])
def test_training_alone_is_noisy_and_a_resumed_run_goes_on(
    noise: TrainedNoise, lists: str, tmp_path: Path
) -> None:
    settings, whole, plain = given(noise, lists), Seen(tmp_path / "a.ckpt"), Seen()
    module = fit(settings, whole)
    fit(SmoothingNoise(), plain)
    assert len(whole.texts) == 8
    assert whole.texts[:4] != whole.texts[4:]  # other texts in the next epoch
    assert whole.texts != plain.texts
    assert plain.texts[:4] == plain.texts[4:]
    # Evaluation reads the texts as they are.
    assert whole.evaluated == plain.evaluated
    rest = Seen()
    again = fit(settings, rest, tmp_path / "a.ckpt")
    assert rest.texts == whole.texts[4:]
    for name, value in again.state_dict().items():
        assert torch.equal(value, module.state_dict()[name])


def test_labels_and_ids_stay(lists: str) -> None:
    smoothing = given("mask", lists)
    module = attached(lambda: TextClassifier(width=8, heads=2, smoothing=smoothing))
    batch = batch_of(module, SINGLE)
    texts = smoothing.texts(TOKENIZER)
    assert texts is not None
    noisy = random_batch(batch, texts, TOKENIZER, seed=0, epoch=0)
    assert noisy.sample_ids is batch.sample_ids
    assert noisy.labels is batch.labels
    assert bool((noisy.lengths == batch.lengths).all())  # a mask keeps its place


@pytest.mark.parametrize("method", [TextCNN, WordScores])
def test_methods_with_steps_of_their_own_have_it(method: type[TextCNN | WordScores]) -> None:
    module = attached(lambda: method(smoothing=SmoothingNoise(noise="delete")))
    seen: list[int] = []
    run = trainer(max_epochs=2, limit_val_batches=0)
    module.register_forward_pre_hook(lambda part, args: seen.extend(args[0].lengths.tolist()))
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 3))
    lengths = batch_of(module, SINGLE).lengths.tolist()
    assert len(seen) == 2 * len(lengths)
    assert all(found <= length for found, length in zip(seen, [*lengths, *lengths], strict=True))
    assert sum(seen) < sum(lengths)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "mix"}, "got smoothing.noise='mix', expected one of none, mask, delete, subst"),
        ({"noise": "mask", "rate": 1.0}, r"got smoothing.rate=1.0, expected between 0 and 1"),
        ({"rate": 0.0}, r"got smoothing.rate=0.0, expected between 0 and 1"),
        ({"hops": 0}, "got smoothing.hops=0, expected at least 1"),
        ({"noise": "substitute"}, "got smoothing.noise=substitute and lists=None, expected a file"),
        ({"noise": "mask", "lists": "F"}, "got smoothing.noise=mask and lists=F, expected a file"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SmoothingNoise(**settings)


def test_what_cannot_have_noise(lists: str, tmp_path: Path) -> None:
    noise = SmoothingNoise(noise="mask")

    def refused(texts: list[Text], smoothing: SmoothingNoise, message: str) -> None:
        pairs = texts is PAIRS
        module = attached(
            lambda: TextClassifier(encoder="mean", width=8, smoothing=smoothing), pairs=pairs
        )
        with pytest.raises(ValueError, match=message):
            module.on_fit_start()

    refused(PAIRS, noise, "got smoothing.noise=mask for pairs of texts, expected single texts")
    refused(SINGLE, SmoothingNoise(noise="mask", mask="[MASK]"), r"got smoothing.mask='\[MASK\]'")
    by_text = tmp_path / "texts.json"
    by_text.write_text(json.dumps({"good": {"0": ["fine"]}}))
    refused(SINGLE, given("substitute", str(by_text)), "expected lists for words")
    with pytest.raises(ValueError, match="noise=mask in AdversarialTraining, expected none"):
        AdversarialTraining(classifier=TextClassifier(smoothing=noise), adversary=FreeLB())
    with pytest.raises(ValueError, match="noise=mask with unlabelled texts, expected one of"):
        WordScores(unlabelled="answers.jsonl", smoothing=noise)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, []),
        ({"rate": 0.5}, ["smoothing.rate=0.5 has no effect with smoothing.noise=none"]),
        ({"noise": "mask", "rate": 0.5, "mask": "m"}, []),
        (
            {"noise": "mask", "hops": 3},
            ["smoothing.hops=3 has no effect with smoothing.noise=mask"],
        ),
        (
            {"noise": "delete", "mask": "m"},
            ["smoothing.mask=m has no effect with smoothing.noise="],
        ),
        (
            {"noise": "substitute", "lists": "F", "rate": 0.5},
            ["smoothing.rate=0.5 has no effect with smoothing.noise=substitute"],
        ),
    ],
)
def test_what_has_no_effect_is_said(settings: dict[str, Any], said: list[str]) -> None:
    names = list(unused_settings(TextCNN(smoothing=SmoothingNoise(**settings))))
    assert len(names) == len(said)
    assert all(one.startswith(beginning) for one, beginning in zip(names, said, strict=True))
