"""Encoders from a folder, from an architecture and from a checkpoint; which of them counts."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.architectures import architecture_of, build_masked_lm
from layers.pretrained_encoders import load_encoder, save_model
from lit_modules.shared.encoder_source import EncoderSettings, EncoderSource
from tests.unit.layers.small_encoders import ARCHITECTURES
from text import PretrainedTokenizer, save_tokenizer, train_word_piece
from text.torch_archive import CHECKPOINT_KEY

TEXTS = ["the hare ran", "a tortoise walked on"]
TOKENIZER: PretrainedTokenizer = train_word_piece(TEXTS, 60, max_length=20)
BERT = ARCHITECTURES["bert"]


def source(
    backbone: str | Path | None = None,
    architecture: dict[str, Any] | None = None,
    *,
    tokenizer: str | Path | None = None,
) -> EncoderSource:
    return EncoderSource(
        EncoderSettings(
            pretrained=None if backbone is None else str(backbone),
            architecture=architecture,
            vocab_size=50,
            tokenizer=None if tokenizer is None else str(tokenizer),
        )
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A masked language model with its tokenizer, narrower than `BERT`."""
    where = tmp_path / "backbone"
    where.mkdir()
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "vocab_size": TOKENIZER.vocab_size}
    save_model(build_masked_lm({**BERT, **sizes}), where)
    save_tokenizer(TOKENIZER, where)
    return where


def test_random_weights_fit_the_tokenizer() -> None:
    for model in (source(None, BERT).encoder(TOKENIZER), source(None, BERT).masked_lm(TOKENIZER)):
        assert model.config.vocab_size == TOKENIZER.vocab_size
        assert model.config.pad_token_id == TOKENIZER.pad_id
    # Who says otherwise is believed.
    large = source(None, {**BERT, "vocab_size": 99}).encoder(TOKENIZER)
    assert large.config.vocab_size == 99


def test_weights_are_those_of_the_folder(folder: Path) -> None:
    expected = load_encoder(str(folder)).state_dict()
    of_masked_lm: torch.nn.Module = source(folder).masked_lm(TOKENIZER).base_model
    for state in (source(folder).encoder(TOKENIZER).state_dict(), of_masked_lm.state_dict()):
        # A masked language model comes without a pooler.
        names = [name for name in state if "pooler" not in name]
        assert len(names) > 20
        assert all(torch.equal(state[name], expected[name]) for name in names)


def test_a_checkpoint_needs_neither_folder_nor_hub(folder: Path) -> None:
    first = source(folder)
    checkpoint: dict[str, Any] = {CHECKPOINT_KEY: {}}
    first.save(checkpoint, architecture_of(first.masked_lm(TOKENIZER)))
    shutil.rmtree(folder)
    for again in (source(folder), source(None, BERT)):
        again.restore(checkpoint)
        for model in (again.encoder(TOKENIZER), again.masked_lm(TOKENIZER)):
            assert model.config.hidden_size == 8


def test_tokenizers(folder: Path) -> None:
    tokenizers = [
        source(folder).build_tokenizer([], max_length=12),
        source(None, BERT, tokenizer=folder).build_tokenizer([], max_length=12),
    ]
    assert [tokenizer.state() for tokenizer in tokenizers] == [
        {**TOKENIZER.state(), "max_length": 12}
    ] * 2
    learnt = source(None, BERT).build_tokenizer(TEXTS, max_length=12)
    assert learnt.state() == train_word_piece(TEXTS, 50, max_length=12).state()


def test_a_head_that_is_missing_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    message = "has no head for masked words: it begins at random"
    with caplog.at_level(logging.INFO):
        source(folder).masked_lm(TOKENIZER)
        assert message not in caplog.text
        load_encoder(str(folder)).save_pretrained(folder)
        source(folder).masked_lm(TOKENIZER)
    assert message in caplog.text


def test_what_is_refused(folder: Path) -> None:
    for backbone, architecture in ((None, None), (folder, BERT)):
        with pytest.raises(ValueError, match="expected either a pretrained encoder"):
            source(backbone, architecture)
    with pytest.raises(ValueError, match="without the architecture of its encoder"):
        source(folder).restore({CHECKPOINT_KEY: {}})
    wide = train_word_piece(TEXTS, 60, max_length=41)
    for origin in (source(folder), source(None, BERT)):
        for build in (origin.encoder, origin.masked_lm):
            with pytest.raises(ValueError, match=r"max_length=41, expected at most .* 40 tokens"):
                build(wide)
    with pytest.raises(ValueError, match=r"'hiden_size' .* did you mean hidden_size\?"):
        source(None, {"model_type": "bert", "hiden_size": 16}).encoder(TOKENIZER)
