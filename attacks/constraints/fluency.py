"""Keeps replacements that a language model finds likely enough."""

from collections.abc import Sequence
from typing import Any

from attacks.compat import Compat
from attacks.composition import Group
from attacks.constraints.words import replaced
from attacks.document import word_spans
from attacks.resources.word_scores import WordScores


class Fluency:
    """Bounds what the log-probability of a word loses by a replacement, or takes the best few.

    Sources: Alzantot et al., 2018 (the best 4 of a word's neighbours); Jia et al., 2019 (a loss of
    5 nats, with 6 words on each side); Kuleshov et al., 2018 (2 nats). Each of them has another
    language model, from left to right. Here a masked language model sees both sides and scores the
    word by the mean of its tokens.

    Args:
        model: model of `transformers` with a masked-language-model head.
        tokenizer: of the model.
        drop: nats per token that may be lost; any if None.
        top: words that are kept in a place, the likeliest first; all if None.
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
        self.scores = WordScores(model, tokenizer)
        self.drop, self.top, self.window = drop, top, window

    def keep(self, groups: Sequence[Group]) -> list[list[bool]]:
        """See `Constraint`."""
        every = [[True] * len(group.candidates) for group in groups]
        places = [
            (flags, place, self._around(group, place.at))
            for group, flags in zip(groups, every, strict=True)
            for place in replaced(group, compat=Compat.NONE, flags=flags)
        ]
        answers = self.scores([(around, [one.old, *one.new]) for _, one, around in places])
        for (flags, place, _), (old, *new) in zip(places, answers, strict=True):
            order = sorted(zip((-score for score in new), place.new, range(len(new)), strict=True))
            best = {i for _, _, i in order[: self.top]}
            for i, (row, score) in enumerate(zip(place.rows, new, strict=True)):
                lost = self.drop is not None and old - score > self.drop
                flags[row] = flags[row] and i in best and not lost
        return every

    def _around(self, group: Group, index: int) -> tuple[str, str]:
        """Returns the text before and behind a word."""
        document = group.current
        column, start, end = document.spans[index]
        text = document.columns[column]
        before, behind = text[:start], text[end:]
        if self.window is not None:
            left, right = word_spans(before), word_spans(behind)
            if len(left) > self.window:
                before = before[left[-self.window][0] :]
            if len(right) > self.window:
                behind = behind[: right[self.window - 1][1]]
        return before, behind
