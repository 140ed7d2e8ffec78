"""Models of `transformers` other than classifiers: scores, several classes, tags, choices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attacks.goals import Floats
from attacks.task_goals import TaggedWords, VictimTask, split_words
from attacks.victims.kinds import HuggingFaceVictim, VictimError, check_logits
from attacks.victims.saliency import padding_side
from text import Text

CHOICES = "\n"
"""Between the choices in the second text of a pair."""


class ScoreVictim(HuggingFaceVictim):
    """A model that gives a number, or several classes, to a text or pair.

    The arguments are those of `HuggingFaceVictim`. It answers with the number, or with logits.
    """

    @property
    def task(self) -> VictimTask:
        """Several classes by the configuration of the model; else a number."""
        several = self.model.config.problem_type == "multi_label_classification"
        return "multi-label" if several else "regression"

    @property
    def differentiable(self) -> bool:
        """Always False: gradients are those of classifiers."""
        return False

    def _check_task(self) -> None:
        pass  # see `load_task_model`


class TagVictim(ScoreVictim):
    """A tagger: it answers with the logits of each word, at the first of its tokens.

    Words are the text between spaces (`split_words`). Truncated words, and words without a token,
    have no logits.
    """

    @property
    def task(self) -> VictimTask:
        """Tagging."""
        return "tagging"

    def logits(self, texts: Sequence[Text]) -> Any:
        """Return `[n]` objects: `TaggedWords` of each text.

        Raises:
            InvalidAnswers: numbers that are not finite.
        """
        return self.fitting(lambda: self._tag(texts))

    @torch.no_grad()
    def _tag(self, texts: Sequence[Text]) -> Any:
        coded = self._encode(texts)
        # The first token of each word, before an empty text gets a token of padding.
        firsts = [_first_tokens(coded.word_ids(row)) for row in range(len(texts))]
        logits = self._classify(coded)
        numbers = check_logits(logits.flatten(1), texts, self.name).reshape(logits.shape)
        answers = np.empty(len(texts), dtype=object)
        for row, (text, first) in enumerate(zip(texts, firsts, strict=True)):
            tags: Floats = numbers[row, list(first.values())]
            answers[row] = TaggedWords(split_words(text), tuple(first), tags)
        return answers

    def _encode(self, texts: Sequence[Text]) -> Any:
        words = [list(split_words(text)) for text in texts]
        return self.tokenizer(
            words, is_split_into_words=True, truncation=True, max_length=self.max_length
        )

    def _forward(self, coded: Any, rows: Sequence[int]) -> Tensor:
        """Return `[rows, N, T]`, for the N tokens of the longest text; 0 behind shorter ones."""
        logits = super()._forward(coded, rows)
        longest = max(map(len, coded["input_ids"]))
        padded = logits.new_zeros(len(rows), longest, logits.shape[-1])
        left = padding_side(self.model) == "left"
        for row, number in enumerate(rows):
            length = len(coded["input_ids"][number])
            padded[row, :length] = logits[row, -length:] if left else logits[row, :length]
        return padded


class ChoiceVictim(ScoreVictim):
    """A model of multiple choice: it answers with a logit for each choice.

    A text is a pair: the context, and all choices, with `CHOICES` between them.
    """

    @property
    def task(self) -> VictimTask:
        """Multiple choice."""
        return "choice"

    def _answer(self, texts: Sequence[Text]) -> Tensor:
        rows = [(text[0], choice) for text in texts for choice in text[1].split(CHOICES)]
        counts = sorted({text[1].count(CHOICES) + 1 for text in texts})
        if len(counts) > 1:  # rows of one text would count as those of another
            msg = f"got {' and '.join(map(str, counts))} choices, expected as many for each text"
            raise VictimError(msg)
        logits = super()._answer(rows)
        return logits.reshape(len(texts), -1)

    def _run(self, batch: Any) -> Any:
        # Each row is a question with one choice, [rows, 1, N]: choices are scored one by one.
        return self.model(**{name: values.unsqueeze(1) for name, values in batch.items()})


def _first_tokens(word_ids: Sequence[int | None]) -> dict[int, int]:
    """Return the position of the first token of each word."""
    first: dict[int, int] = {}
    for position, word in enumerate(word_ids):
        if word is not None:
            first.setdefault(word, position)
    return first
