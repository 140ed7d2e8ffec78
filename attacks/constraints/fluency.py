"""Keeps replacements that a language model finds likely enough."""

from collections.abc import Sequence
from typing import Any

from attacks.compat import Compat
from attacks.composition import Group
from attacks.constraints.words import group_by_word
from attacks.document import word_spans
from attacks.resources.word_scores import MaskedWordScorer


class Fluency:
    """Bounds the loss of a word's log-probability by a replacement, or keeps the best few.

    Sources: Alzantot et al., 2018 (the best 4 of a word's neighbours); Jia et al., 2019 (a loss of
    5 nats, with 6 words on each side); Kuleshov et al., 2018 (2 nats). Each of them has another
    language model, from left to right. Here a masked language model sees both sides and scores the
    word by the mean of its tokens.

    Args:
        model: model of `transformers` with a masked-language-model head.
        tokenizer: of the model.
        drop: nats per token that may be lost; any if None.
        top: words that are kept at a position, the likeliest first; all if None.
        window: words on each side that the model is shown; all if None.

    Raises:
        ValueError: a number out of its range.
    """

    cost = 500.0

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        drop: float | None = None,
        top: int | None = None,
        window: int | None = 6,
    ) -> None:
        if (drop is not None and drop < 0) or (top is not None and top < 1):
            msg = f"got {drop=}, {top=}, expected a loss of at least 0 and at least 1 word"
            raise ValueError(msg)
        self.scores = MaskedWordScorer(model, tokenizer)
        self.drop, self.top, self.window = drop, top, window

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        verdicts = [[True] * len(group.candidates) for group in groups]
        slots = [
            (flags, slot, self._around(group, slot.at))
            for group, flags in zip(groups, verdicts, strict=True)
            # No recipe has this constraint together with `compat`.
            for slot in group_by_word(group, compat=Compat.NONE, flags=flags)
        ]
        answers = self.scores([(around, [slot.old, *slot.new]) for _, slot, around in slots])
        for (flags, slot, _), (old, *new) in zip(slots, answers, strict=True):
            # Equal scores: the word that is first in the alphabet.
            order = sorted(zip((-score for score in new), slot.new, range(len(new)), strict=True))
            best = {i for _, _, i in order[: self.top]}
            for i, (row, score) in enumerate(zip(slot.rows, new, strict=True)):
                lost = self.drop is not None and old - score > self.drop
                flags[row] = flags[row] and i in best and not lost
        return verdicts

    def _around(self, group: Group, index: int) -> tuple[str, str]:
        """Return the text before and after a word."""
        document = group.current
        column, start, end = document.spans[index]
        text = document.columns[column]
        before, after = text[:start], text[end:]
        if self.window is not None:
            words_before, words_after = word_spans(before), word_spans(after)
            if len(words_before) > self.window:
                before = before[words_before[-self.window][0] :]
            if len(words_after) > self.window:
                after = after[: words_after[self.window - 1][1]]
        return before, after
