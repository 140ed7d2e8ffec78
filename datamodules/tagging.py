"""Corpora of sentences with a tag for each word."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from datamodules.batching.examples import Label
from datamodules.labelled import TextDataModule
from datamodules.sources.readers import Row
from datamodules.sources.structured import read_conll
from text import Sample, Words


def bio_tags(types: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of the BIO scheme: O, then B-X and I-X for each type of entity X."""
    return ("O", *(f"{letter}-{kind}" for kind in types for letter in "BI"))


class TaggedSentences(TextDataModule):
    """A corpus of CoNLL files; the classes are its tags, O first."""

    task = "tagging"
    text_columns = ("words",)
    label_column = "tags"
    endings: ClassVar[tuple[str, ...]] = (".conll",)

    def _rows(self, path: Path) -> Iterator[Row]:
        return read_conll(path, self.class_names)

    def _parse(self, values: Mapping[str, Any]) -> tuple[Sample, Label | None]:
        words, tags = values["words"], values["tags"]
        label = None if tags is None else tuple(self.class_names.index(tag) for tag in tags)
        return Words(tuple(words)), label
