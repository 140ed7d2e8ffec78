"""The worst text within some edits of characters, from spans between kept separators.

A text with some edits keeps some of its separators. They cut it: the model reads the parts
before and after one separately, and each has its own edits. So the least score of a text is a least
sum over all ways to choose the kept separators, and to share the edits among the spans between
them. In a span no separator is kept, so it has at most k of them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from certify.words.spelling import BETWEEN, SPELT, Edits, codes_of

AT_ONCE = 1 << 10
"""Spans whose worst texts are found together for one edit; a quarter of it for each further one."""


class EditedTexts:
    """Finds the worst texts within some edits, from those of spans."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits

    def least(self, texts: Sequence[str], direction: Tensor, k: int) -> Tensor:
        """Return the least scores `[B, J, k + 1]` of all texts within 0, 1, ..., k edits.

        The J scores of a text are products of direction `[B, J, C]` with that of the classes.
        """
        return _paths(self._of_spans(texts, direction, k))[-1]

    def witness(self, text: str, direction: Tensor, k: int) -> str:
        """Return a text within k edits with the least score in a direction `[C]`."""
        values = self._of_spans([text], direction.view(1, 1, -1), k)
        best = _paths(values)
        starts = [0, *(at + 1 for at, code in enumerate(codes_of(text)) if code == BETWEEN)]
        ends = [*(start - 1 for start in starts[1:]), len(text)]
        written: list[str] = []
        last, remaining = len(starts) - 1, k
        while last >= 0:
            ways = [
                (float(best[last - more][0, 0, remaining - used] + values[0, last, more, 0, used]))
                for more in range(min(last, k) + 1)
                for used in range(remaining + 1)
            ]
            # `ways` runs over `more`, and for each over `used`.
            more, used = divmod(ways.index(min(ways)), remaining + 1)
            span = text[starts[last - more] : ends[last]]
            written.append(self.edits.witness(span, direction, used) if used else span)
            last, remaining = last - more - 1, remaining - used
            if last >= 0:
                written.append(text[ends[last]])
        return "".join(reversed(written))

    def _of_spans(self, texts: Sequence[str], direction: Tensor, k: int) -> Tensor:
        """Return `[B, P, k + 1, J, k + 1]` by the last word of a span and its number of separators.

        Words after a text cost nothing; spans that do not exist have inf.
        """
        words = ["".join(SPELT[code] for code in codes_of(text)).split(" ") for text in texts]
        _, sense = torch.unique(direction.flatten(1), dim=0, return_inverse=True)
        number: dict[tuple[int, str], int] = {}
        owner: list[int] = []
        where = torch.zeros(len(texts), max(map(len, words)), k + 1, dtype=torch.int64)
        for row, (words_of_text, way) in enumerate(zip(words, sense.tolist(), strict=True)):
            for last in range(len(words_of_text)):
                for more in range(min(last, k) + 1):
                    key = way, " ".join(words_of_text[last - more : last + 1])
                    if key not in number:
                        number[key] = len(number)
                        owner.append(row)
                    # The rows of spans begin at 2: 0 is a span that does not exist, 1 is free.
                    where[row, last, more] = number[key] + 2
            where[row, len(words_of_text) :, 0] = 1
        spans = [span for _, span in number]
        # Spans of like length together, as they are padded.
        order = sorted(range(len(spans)), key=lambda at: len(spans[at]))
        table = torch.full((len(spans) + 2, direction.shape[1], k + 1), torch.inf)
        table = table.to(torch.float64)
        table[1, :, 0] = 0.0
        size = max(1, AT_ONCE >> 2 * max(k - 1, 0))
        for start in range(0, len(order), size):
            some = order[start : start + size]
            ways = direction[[owner[at] for at in some]]
            table[torch.tensor(some) + 2] = self.edits.least([spans[at] for at in some], ways, k)
        return table[where]


def _paths(values: Tensor) -> list[Tensor]:
    """Return `[B, J, k + 1]` least scores of the first 0, 1, ..., P words of texts."""
    none = torch.full_like(values[:, 0, 0], torch.inf)
    none[..., 0] = 0.0
    best = [none]
    for last in range(values.shape[1]):
        least = torch.full_like(none, torch.inf)
        for more in range(min(last + 1, values.shape[2])):
            before, span = best[last - more], values[:, last, more]
            for most in range(more, values.shape[2]):
                # A span with some separators takes as many edits at least.
                shared = before[..., : most - more + 1].flip(-1) + span[..., more : most + 1]
                least[..., most] = torch.minimum(least[..., most], shared.amin(dim=-1))
        best.append(least)
    return best
