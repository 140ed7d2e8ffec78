"""Sentences as characters: the Penn Treebank, or any text with a sentence on each line."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from datamodules.batching.examples import Example
from datamodules.packing.running_text_source import FileTexts
from datamodules.samples import NEEDED, Samples
from datamodules.sources.rows import Split
from text import Text, check_range
from text.bounded_files import DataError

log = logging.getLogger(__name__)

SPACE = "_"
"""The space between words, in files whose characters are separated by spaces."""


class PTBCharacters(Samples):
    """Sentences without labels, one on each line, for language models over characters.

    A line is either plain text, or its characters are separated by spaces and `_` is the space
    between words, as in the usual files of the Penn Treebank. A file is read in the second way if
    all its lines allow it. Empty lines are skipped. A batch has sentences of similar length.

    Args:
        data_dir: folder DIR with `NAME/<split>.txt[.gz]`, for train, validation and test.
        name: NAME, the folder, and the name of the corpus in results.
        longest: characters of the longest sentence; longer ones are left out, and counted (Kim et
            al., 2021, appendix I: 288).
        batch_size: training sentences per batch and process.
        base: settings of `Corpus`.
    """

    corpus = "ptb_characters"
    endings: ClassVar[tuple[str, ...]] = (".txt",)
    origin: ClassVar[str | None] = "docs/data.md says where the Penn Treebank comes from"

    def __init__(
        self, *, name: str = "ptb_characters", longest: int = 288, batch_size: int = 64, **base: Any
    ) -> None:
        super().__init__(batch_size=batch_size, **base)
        check_range({"longest": longest}, least=1)
        if not name or name != Path(name).name:
            msg = f"got name={name!r}, expected the name of a folder in data_dir"
            raise ValueError(msg)
        self.corpus, self.longest = name, longest

    def setup(self, stage: str | None = None) -> None:
        # Without a stage, the trainer's run decides; without a trainer, all splits are read.
        fn = None if self.trainer is None else self.trainer.state.fn
        stage = fn.value if stage is None and fn is not None else stage
        splits = ("train", "validation", "test") if stage is None else NEEDED[stage]
        for split in splits:
            if split not in self._examples:
                self._examples[split] = self._load(split)

    def _load(self, split: Split) -> list[Example]:
        path = self._file(split)
        if path is None:
            self._from_hub(split, cached=True)  # raises an error that names the missing file
        assert path is not None  # the corpus is not on the hub
        texts = join_characters(list(FileTexts([path], "text", on_bad_row=self.on_bad_row).texts()))
        sentences = [text for text in texts if len(text) <= self.longest]
        if not sentences:
            msg = (
                f"{path}: got {len(texts)} sentences, all of more than {self.longest} characters, "
                "expected shorter ones on lines of their own: cut them, or raise --data.longest"
            )
            raise DataError(msg)
        first = self.trainer is None or self.trainer.is_global_zero
        if first and len(sentences) < len(texts):
            log.info(
                "%s: %d of %d %s sentences have more than %d characters, and are left out",
                self.corpus,
                len(texts) - len(sentences),
                len(texts),
                split,
                self.longest,
            )
        return [Example(text, None, number) for number, text in enumerate(sentences)]

    def train_texts(self) -> Iterator[Text]:
        """Yield the sentences whose characters make the vocabulary."""
        for example in self.examples("train"):
            assert isinstance(example.text, str)  # see `_load`
            yield example.text


def join_characters(lines: list[str]) -> list[str]:
    """Join the characters of each line if all lines are characters separated by spaces."""
    parts = [line.split() for line in lines]
    # One part of several characters makes the file plain text.
    if any(len(part) > 1 for line in parts for part in line):
        return lines
    return ["".join(line).replace(SPACE, " ") for line in parts]
