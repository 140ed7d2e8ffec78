"""A small corpus of running text, and what its loaders give."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch.utils.data import DataLoader

from datamodules import RunningText
from text import Batch, PretrainedTokenizer, train_word_piece

WORDS = "the hare ran , and a tortoise walked on . it was asleep when she won".split()
TOKENIZER: PretrainedTokenizer = train_word_piece([" ".join(WORDS)], 300, max_length=64)


def write(folder: Path, lines: int = 120) -> None:
    """Two text files."""
    draw = random.Random(0)
    for name in ("a", "b"):
        text = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 30))) for _ in range(lines)]
        (folder / f"{name}.txt").write_text("\n".join(text) + "\n")


def corpus(folder: Path, **settings: Any) -> RunningText:
    """The corpus of the files, set up, with a tokenizer; packed beside them."""
    options: dict[str, Any] = {
        "files": ["*.txt"],
        "data_dir": str(folder),
        "cache_dir": str(folder / "packed"),
        "length": 16,
        "batch_size": 8,
        "eval_batch_size": 4,
        "seed": 0,
        **settings,
    }
    module = RunningText(**options)
    module.setup("fit")
    module.tokenizer = TOKENIZER
    return module


def place(module: RunningText, rank: int, world: int, epoch: int = 0) -> RunningText:
    """The same corpus in one of several processes."""
    module.trainer = SimpleNamespace(world_size=world, global_rank=rank, current_epoch=epoch)  # type: ignore[assignment] # stands for a trainer
    return module


def seen(loader: DataLoader[Batch] | list[DataLoader[Batch]]) -> list[list[int]]:
    """The blocks of each batch."""
    assert isinstance(loader, DataLoader)
    return [batch.sample_ids.tolist() for batch in loader]


def content(loader: DataLoader[Batch] | list[DataLoader[Batch]]) -> dict[int, list[int]]:
    """The tokens of each block."""
    assert isinstance(loader, DataLoader)
    return {
        int(number): ids[mask].tolist()
        for batch in loader
        for number, ids, mask in zip(batch.sample_ids, batch.input_ids, batch.mask, strict=True)
    }
