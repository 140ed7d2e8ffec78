"""The texts of a corpus that have a class."""

from collections.abc import Iterable, Iterator

from datamodules.batching.examples import Example
from text import Choices, Text, Words


def labelled_texts(examples: Iterable[Example]) -> Iterator[tuple[int, Text, int]]:
    """Yield sample id, text and class of all texts and pairs with a class."""
    for example in examples:
        if isinstance(example.label, int) and not isinstance(example.text, Words | Choices):
            yield example.sample_id, example.text, example.label
