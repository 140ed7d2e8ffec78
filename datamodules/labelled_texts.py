"""The texts of a corpus that have a class, or a number."""

from collections.abc import Iterable, Iterator

from datamodules.batching.examples import Example
from text import Choices, Text, Words


def labelled_texts(examples: Iterable[Example]) -> Iterator[tuple[int, Text, int]]:
    """Yield sample id, text and class of all texts and pairs with a class."""
    for example in examples:
        if isinstance(example.label, int) and not isinstance(example.text, Words | Choices):
            yield example.sample_id, example.text, example.label


def labelled_numbers(examples: Iterable[Example]) -> Iterator[tuple[int, Text, float]]:
    """Yield sample id, text and number of all texts and pairs of a regression with a number."""
    for example in examples:
        if isinstance(example.label, float) and not isinstance(example.text, Words | Choices):
            yield example.sample_id, example.text, example.label
