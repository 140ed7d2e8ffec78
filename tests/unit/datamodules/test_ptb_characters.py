"""Sentences as characters: both forms of files, lengths, shares of processes, wrong files."""

import gzip
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from datamodules import DataError, PTBCharacters
from datamodules.ptb_characters import join_characters
from tests.unit.datamodules.characters import sentences, spaced, write
from text import CharacterTokenizer


def corpus(folder: Path, **settings: Any) -> PTBCharacters:
    module = PTBCharacters(
        **{"data_dir": str(folder), "batch_size": 8, "eval_batch_size": 4, "seed": 0, **settings}
    )
    module.setup("fit")
    module.tokenizer = CharacterTokenizer.build(module.train_texts(), max_length=290)
    return module


def place(module: PTBCharacters, rank: int, world: int, epoch: int = 0) -> PTBCharacters:
    module.trainer = SimpleNamespace(  # type: ignore[assignment] # stands for a trainer
        world_size=world, global_rank=rank, current_epoch=epoch, is_global_zero=rank == 0
    )
    return module


@pytest.mark.parametrize("plain", [True, False])
def test_both_forms_of_a_file_are_the_same_text(tmp_path: Path, plain: bool) -> None:
    write(tmp_path / "ptb_characters", plain=plain)
    module = corpus(tmp_path)
    assert [example.text for example in module.examples("train")] == sentences(70, 0)
    assert list(module.train_texts()) == sentences(70, 0)
    with pytest.raises(RuntimeError, match="got examples"):
        module.examples("test")
    module.setup("test")
    assert len(module.examples("test")) == 11
    decoded = {
        int(number): module.tokenizer.decode(ids.tolist())  # type: ignore[union-attr] # is set
        for batch in module.val_dataloader()
        for number, ids in zip(batch.sample_ids, batch.input_ids, strict=True)
    }
    assert [decoded[i] for i in range(11)] == sentences(11, 1)


def test_what_a_line_is() -> None:
    assert join_characters(["t h e _ c a t", "a", "n . v ."]) == ["the cat", "a", "n.v."]
    assert join_characters(["t h e _ c a t", "ab"]) == ["t h e _ c a t", "ab"]
    # The unknown word of the treebank is five characters.
    assert join_characters([spaced("<unk> N")]) == ["<unk> N"]


def test_files_may_be_packed_and_have_a_name_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "mine")
    for split in ("train", "validation", "test"):
        path = tmp_path / "mine" / f"{split}.txt"
        path.with_suffix(".txt.gz").write_bytes(gzip.compress(b"\n" + path.read_bytes() + b"\n\n"))
        path.unlink()
    module = corpus(tmp_path, name="mine")
    assert module.corpus == "mine"
    assert len(module.examples("train")) == 70  # empty lines are none


def test_longer_sentences_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "ptb_characters")
    lengths = [len(text) for text in sentences(70, 0)]
    longest = sorted(lengths)[50]
    gone = sum(length > longest for length in lengths)
    with caplog.at_level(logging.INFO):
        module = corpus(tmp_path, longest=longest)
    message = f"{gone} of 70 train sentences have more than {longest} characters, and are left out"
    assert message in caplog.text
    texts = [str(example.text) for example in module.examples("train")]
    assert len(texts) == 70 - gone
    assert max(map(len, texts)) == longest
    assert [example.sample_id for example in module.examples("train")] == list(range(70 - gone))


def test_batches_are_of_similar_length_and_every_sentence_comes_once(tmp_path: Path) -> None:
    write(tmp_path / "ptb_characters")
    module = corpus(tmp_path)
    batches = list(module.train_dataloader())
    assert sorted(i for batch in batches for i in batch.sample_ids.tolist()) == list(range(70))
    filled = sum(int(batch.mask.sum()) for batch in batches)
    assert filled > 0.85 * sum(batch.input_ids.numel() for batch in batches)


def test_two_processes_share_the_batches_of_one(tmp_path: Path) -> None:
    write(tmp_path / "ptb_characters")
    alone = place(corpus(tmp_path), 0, 1).train_dataloader()
    shares = [place(corpus(tmp_path, batch_size=4), rank, 2).train_dataloader() for rank in (0, 1)]
    for full, *parts in zip(alone, *shares, strict=True):
        numbers = [number for part in parts for number in part.sample_ids.tolist()]
        assert sorted(full.sample_ids.tolist()) == sorted(numbers)


def test_a_resumed_run_goes_on_with_the_next_batch(tmp_path: Path) -> None:
    write(tmp_path / "ptb_characters")
    module = place(corpus(tmp_path), 0, 1)
    batches = [batch.sample_ids.tolist() for batch in module.train_dataloader()]
    order = module._order()
    assert "train rows" in order
    again = place(corpus(tmp_path), 0, 1)
    again.load_state_dict({"epoch": 0, "consumed": 3, **order})
    assert [batch.sample_ids.tolist() for batch in again.train_dataloader()] == batches[3:]
    path = tmp_path / "ptb_characters" / "train.txt"
    path.write_text(path.read_text().replace("hare", "hound"))
    other = place(corpus(tmp_path), 0, 1)
    other.load_state_dict({"epoch": 0, "consumed": 3, **order})
    with pytest.raises(ValueError, match="got other training data or batches than the checkpoint"):
        other.train_dataloader()


def test_wrong_files(tmp_path: Path) -> None:
    folder = tmp_path / "ptb_characters"
    with pytest.raises(DataError, match=r"got no train split: .*train\.<txt>\[\.gz\] is absent"):
        corpus(tmp_path)
    write(folder)
    (folder / "validation.txt").unlink()
    with pytest.raises(DataError, match="got no validation split"):
        corpus(tmp_path)
    (folder / "validation.txt").write_text("x" * 300 + "\n")
    with pytest.raises(DataError, match=r"got 1 sentences, all of more than 288 characters"):
        corpus(tmp_path)
    (folder / "validation.txt").write_bytes(b"a b\n\xff\xfe c\n")
    with pytest.raises(DataError, match=r"validation.txt, line 2: .*not UTF-8"):
        corpus(tmp_path)
    assert len(corpus(tmp_path, on_bad_row="skip").examples("validation")) == 1
    (folder / "validation.txt").write_text("\n\n")
    with pytest.raises(DataError, match="got a file without any text"):
        corpus(tmp_path)
    with pytest.raises(DataError, match="which is no folder"):
        corpus(tmp_path / "absent")


@pytest.mark.parametrize("name", ["", "../up", "a/b", "."])
def test_the_name_is_that_of_a_folder(name: str) -> None:
    with pytest.raises(ValueError, match="expected the name of a folder in data_dir"):
        PTBCharacters(name=name)
