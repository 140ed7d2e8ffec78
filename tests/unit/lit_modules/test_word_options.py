"""The worst text of training over perturbation sets, against brute force."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from lit_modules import WordRobustness, WordScores, load
from lit_modules.shared.word_robustness import WordOptions, extend_vocabulary
from text import Batch, WordSettings, WordTokenizer, collate

TEXTS = ["a good film", "a bad film", "not so good", "not a bad bat", "god", "bad at it"] * 3
LABELS = [1, 0, 0, 1, 1, 0] * 3
FRONT = WordSettings(split="joined", front_end="spelling")


def made(classes: int = 2, **robustness: Any) -> WordScores:
    settings = WordRobustness(**{"against": "typos-splits", **robustness})
    module = WordScores(words=FRONT, robustness=settings)
    module.attach(module.build_tokenizer(TEXTS), [str(i) for i in range(classes)])
    module.configure_model()
    return module


def batch(module: WordScores) -> Batch:
    return collate(module.require_tokenizer().encode(TEXTS), pad_id=0, labels=LABELS)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("k", [1, 2, None])
@pytest.mark.parametrize("against", ["typos-splits", "delete,insert", "canonical,typos-inner"])
def test_the_worst_text_is_the_worst(classes: int, k: int | None, against: str) -> None:
    module = made(classes, k=k, against=against)
    tokenizer = module.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    assert module.scores is not None
    torch.manual_seed(classes)
    with torch.no_grad():
        module.scores.words.normal_()
    options = WordOptions.of(module.robustness.substitutions(FRONT), tokenizer)
    table = module.scores.word_table().detach()
    texts = ["good bad film", "a god zzzz", "at"]
    examples = collate(tokenizer.encode(texts), pad_id=0)
    labels = torch.tensor([1, 0, 1])
    ids = examples.input_ids * examples.mask
    worst = options.worst(module.scores, ids, labels, k)
    assert worst.shape == (3, classes - 1, 2 * ids.shape[1])
    for row in range(3):
        words = [i for i in ids[row].tolist() if i]
        choices = [options.ids[options.starts[i] : options.starts[i + 1]].tolist() for i in words]
        y = int(labels[row])
        for column, rival in enumerate(c for c in range(classes) if c != y):
            lead = table[:, y] - table[:, rival]
            lead[0] = 0
            least = min(
                sum(float(lead[i] + lead[j]) for i, j in text)
                for text in product(*choices)
                if k is None or sum(t != c[0] for t, c in zip(text, choices, strict=True)) <= k
            )
            chosen = float(lead[worst[row, column]].sum())
            assert chosen == pytest.approx(least, abs=1e-5)


@pytest.mark.long
def test_training_resists_and_its_checkpoint_reads_the_same(tmp_path: Path) -> None:
    module = made(kappa=0.9)
    data: Any = DataLoader(range(2), batch_size=1, collate_fn=lambda _: batch(module))  # type: ignore[arg-type] # has a length
    trainer = pl.Trainer(
        max_epochs=30,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, data, data)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    again = load(tmp_path / "a.ckpt")
    assert again.perturbation_sets == "typos-splits"
    typed = [*TEXTS[:6], "a goood flim", "so gooe", "b\u0430d \u0430t it", "GOOD", "f-ilm"]
    assert torch.equal(again.predict_texts(typed), module.eval().predict_texts(typed))
    # A typo that is corrected, look-alikes and capitals change nothing.
    logits = module.predict_texts(["a good film", "\u0430 GOOD fil\u200bm", "a good fillm"])
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_the_words_of_sets_are_known(tmp_path: Path) -> None:
    lists = tmp_path / "lists.json"
    lists.write_text('{"good": ["fine"], "bad": ["poor"]}')
    wide, narrow = made(against=str(lists)), made(against=str(lists), extend=False)
    assert wide.require_tokenizer().vocab_size == narrow.require_tokenizer().vocab_size + 2
    with pytest.raises(ValueError, match=r"words\.split=joined"):
        WordScores(robustness=WordRobustness(against="typos")).robustness.substitutions(
            WordSettings()
        )


def test_words_of_marks_alone_are_left_out() -> None:
    """The vectors of an attack have some; a model that knew one could list no typos."""
    front = WordSettings(split="joined", front_end="spelling")
    tokenizer = extend_vocabulary(
        WordTokenizer.build(["a good film"], words=front), ["--", "fine", "'"]
    )
    known = tokenizer.vocabulary.get_itos()[3:]
    assert set(known) == {"a", "good", "film", "fine"}
    assert len(tokenizer.corrector.reach(tokenizer.splitter.read(known)).starts) == 5
