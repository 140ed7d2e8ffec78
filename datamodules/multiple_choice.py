"""Corpora of contexts, each with several continuations of which one is right."""

from collections.abc import Mapping
from typing import Any

from datamodules.batching.examples import Label, checked
from datamodules.labelled import TextDataModule
from text import Choices, Sample


class MultipleChoice(TextDataModule):
    """A corpus with the same number of choices for all samples; `classes` names them A, B, ...

    `text_columns` are the context, a text, and the choices, a list of texts.
    """

    task = "choice"

    def _parse(self, values: Mapping[str, Any]) -> tuple[Sample, Label | None]:
        first, second = self.text_columns
        choices, number = values[second], len(self.class_names)
        if not isinstance(choices, list):
            msg = f"column {second!r} holds {type(choices).__name__}, expected a list of texts"
            raise ValueError(msg)
        if len(choices) != number:
            msg = f"got {len(choices)} choices in column {second!r}, expected {number} in each row"
            raise ValueError(msg)
        sample = Choices(
            checked(values[first], first), tuple(checked(choice, second) for choice in choices)
        )
        return sample, self._labels(values.get(self.label_column))
