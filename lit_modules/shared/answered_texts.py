"""Unlabelled texts with the predictions of another model, the teacher."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor

from text import Batch, ClassLabels, Encoding, Tokenizer, collate, label_text
from text.bounded_files import json_lines, reading


class Answer(NamedTuple):
    """A line of the output of `predict`, counted from 1: a text, its class and the probability."""

    text: str
    prediction: str
    probability: float
    line: int


def read_answers(path: str) -> list[Answer]:
    """Read the output of `predict --file --output`.

    Raises:
        ValueError: an invalid line, or no lines.
        OSError: the file cannot be read.
    """
    answers = []
    expected = f"lines of `predict --file F --output {path}`"
    for line, row in json_lines(Path(path), expected):
        with reading(f"{path}, line {line}", expected):
            text, prediction = str(row["text"]), str(row["prediction"])
            answers.append(Answer(text, prediction, float(row["probability"]), line))
    if not answers:
        msg = f"got {path} without lines, expected answers of `predict --file F --output F2`"
        raise ValueError(msg)
    return answers


class AnsweredTexts:
    """Texts with the predictions of another model.

    Args:
        encodings: the texts.
        labels: `[n]` predicted classes.
        certain: `[n]` weights: 0 for equal probabilities, 1 for certainty.
        tokenizer: of the texts.
    """

    def __init__(
        self, encodings: Sequence[Encoding], labels: Tensor, certain: Tensor, tokenizer: Tokenizer
    ) -> None:
        self.encodings, self.labels, self.certain = encodings, labels, certain
        self.tokenizer = tokenizer
        # One fixed order: a resumed run continues in it, by the number of the step.
        drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        self.order = drawn.tolist()

    @classmethod
    def read(cls, path: str, tokenizer: Tokenizer, names: Sequence[str]) -> Self:
        """Read the output of `predict --file --output`, for a model with the classes `names`.

        Raises:
            ValueError: an invalid line, or a prediction of another class.
            OSError: the file cannot be read.
        """
        rows, classes = read_answers(path), ClassLabels(names)
        indices = [classes.find(label_text(row.prediction) or "") for row in rows]
        for row, index in zip(rows, indices, strict=True):
            if index is None:
                msg = (
                    f"got {path}, line {row.line}: {row.prediction!r}, expected an answer of a "
                    f"model of the classes {', '.join(names)}"
                )
                raise ValueError(msg)
        labels = torch.tensor(indices)
        probabilities = torch.tensor([row.probability for row in rows])
        # Linear in the probability: 0 at 1 / C, 1 at 1.
        certain = (len(names) * probabilities - 1) / (len(names) - 1)
        texts = [row.text for row in rows]
        return cls(tokenizer.encode(texts), labels, certain.clamp_min(0), tokenizer)

    def batch(
        self, step: int, steps: int, *, rank: int = 0, world: int = 1
    ) -> tuple[Batch, Tensor, Tensor] | None:
        """Return texts, labels and weights of a step, from 0; an epoch sees each text once.

        The processes share the texts of a step: None if there are none for this one. `steps` are
        those in an epoch.
        """
        number, steps = step % max(steps, 1), max(steps, 1)
        # Parts that differ by one text at most; some are empty where there are fewer texts.
        start, end = (i * len(self.order) // steps for i in (number, number + 1))
        rows = self.order[start:end][rank::world]
        if not rows:
            return None
        batch = collate([self.encodings[i] for i in rows], pad_id=self.tokenizer.pad_id)
        return batch, self.labels[rows], self.certain[rows]
