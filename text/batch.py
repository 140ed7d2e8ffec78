"""The batch that a corpus passes to a module, and its construction from encoded texts."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor


TaskName = Literal["classification", "regression", "tagging", "choice"]
"""The prediction for a sample: its class, a number, a tag for each word, or the right one of
several continuations."""

IGNORED = -100
"""Label of the tokens that carry no tag: torch's default `ignore_index`."""

Text = str | tuple[str, str]
"""One input: a string, or a pair of strings (premise and hypothesis, two questions, ...)."""


class Words(NamedTuple):
    """One sentence as separate words, for tagging.

    Attributes:
        words: words, at least one; a tag belongs to each.
    """

    words: tuple[str, ...]


class Choices(NamedTuple):
    """A context and several continuations, for multiple choice.

    Attributes:
        context: the first text of each pair (context, choice) that is read.
        choices: second texts, at least two.
    """

    context: str
    choices: tuple[str, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs (context, choice), in the order of the choices."""
        return [(self.context, choice) for choice in self.choices]


Sample = Text | Words | Choices
"""One input of any task. `Words` and `Choices` are tuples too: test for them before `Text`."""


class Encoding(NamedTuple):
    """One text as token ids, before padding.

    Attributes:
        input_ids: token ids of the real tokens.
        segment_ids: 0 for tokens of the first text, 1 for tokens of the second; same length.
        truncated: True if tokens had to be dropped to stay within the tokenizer's `max_length`.
    """

    input_ids: list[int]
    segment_ids: list[int]
    truncated: bool = False


class WordEncoding(NamedTuple):
    """One sentence of separate words as token ids.

    Attributes:
        encoding: tokens of the words.
        starts: position of the first token of each word, in order; words that were cut off at the
            end have none.
    """

    encoding: Encoding
    starts: tuple[int, ...]


class Span(NamedTuple):
    """The position of a token in its input.

    Attributes:
        text: 0, or 1 for the second text of a pair.
        start: index of its first character.
        end: index after its last character; `start` for tokens without characters ([CLS], <sep>).
    """

    text: int
    start: int
    end: int


@dataclass(slots=True)
class Batch:
    """A padded batch of B samples in R = B * `choices` rows of at most N tokens.

    Attributes:
        input_ids: `[R, N]` int64 token ids; the padding id where `mask` is False.
        mask: `[R, N]` bool, True at real tokens. Every row has at least one real token.
        sample_ids: `[B]` int64, the position of each sample in its split: unique within the split,
            the same for any batch size, order and number of processes.
        labels: None where the data carries no labels; else, by task,
            classification: `[B]` int64 class indices,
            choice: `[B]` int64, the index of the right choice,
            regression: `[B]` float32 targets,
            tagging: `[B, N]` int64 tags at the first token of each word, `IGNORED` elsewhere.
        segment_ids: `[R, N]` int64 (0 first text, 1 second), or None for single texts.
        choices: successive rows of each sample; 1 except in multiple choice.
        cut_tags: `[B, K]` int64, in tagging, tags of the words that were cut off, then `IGNORED`;
            None if no word was cut off. They count as unanswered words.
    """

    input_ids: "Tensor"
    mask: "Tensor"
    sample_ids: "Tensor"
    labels: "Tensor | None" = None
    segment_ids: "Tensor | None" = None
    choices: int = 1
    cut_tags: "Tensor | None" = None

    def __len__(self) -> int:
        """B, the number of samples."""
        return self.sample_ids.shape[0]

    @property
    def lengths(self) -> "Tensor":
        """`[R]` int64, the number of real tokens of each row."""
        return self.mask.sum(dim=1)

    def to(self, device: "torch.device | str", non_blocking: bool = False) -> "Batch":
        """Return a copy on `device` (the same tensors where they are there already)."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """Return a copy in page-locked memory; called by `DataLoader(pin_memory=True)`."""
        from torch import Tensor

        return self._each(Tensor.pin_memory)

    def _each(self, change: "Callable[[Tensor], Tensor]") -> "Batch":
        """Return a copy whose tensors are changed."""
        from torch import Tensor

        parts: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        # `choices` is an integer, and absent tensors are None.
        parts |= {name: change(part) for name, part in parts.items() if isinstance(part, Tensor)}
        return Batch(**parts)


PASS_OVERHEAD = {"cpu": 64}
"""Fixed cost of a forward pass, in tokens that take the same time, by type of device."""
_ELSEWHERE = 1024


def length_batches(
    lengths: Sequence[int], batch_size: int, *, device: str = "cpu"
) -> list[list[int]]:
    """Return batches of positions of texts of similar length, each once, the shortest first.

    A batch has at most `batch_size` texts. `lengths` are in tokens; `device` is the type of the
    device that the passes run on.
    """
    overhead = PASS_OVERHEAD.get(device, _ELSEWHERE)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    count = len(order)
    ends = [i for i in range(1, count) if lengths[order[i - 1]] < lengths[order[i]]] + [count]
    costs, starts = [0.0] + [inf] * count, [0] * (count + 1)
    # A batch costs its tokens, padding included, and the overhead of a pass. Dynamic programming
    # finds the cheapest batches that keep the order of lengths; costs[i] is the least cost of the i
    # shortest texts. It suffices to consider batches that are full, or end at the last text of a
    # length: one more text of the same length adds no padding.
    for start in range(count):
        if costs[start] == inf:  # no batch ends here
            continue
        full = min(start + batch_size, count)
        for end in (*ends[bisect_right(ends, start) : bisect_left(ends, full)], full):
            cost = costs[start] + (end - start) * lengths[order[end - 1]] + overhead
            if cost < costs[end]:
                costs[end], starts[end] = cost, start
    batches = []
    while count:
        batches.append(order[starts[count] : count])
        count = starts[count]
    return batches[::-1]


Labels = Sequence[int] | Sequence[float] | Sequence[Sequence[int]]


def collate(
    encodings: Sequence[Encoding],
    *,
    pad_id: int,
    sample_ids: Sequence[int] | None = None,
    labels: Labels | None = None,
    pairs: bool = False,
    choices: int = 1,
    cut_tags: Sequence[Sequence[int]] | None = None,
) -> Batch:
    """Pad encoded texts to the longest of them.

    Args:
        encodings: B * `choices` >= 1 encoded texts, each with at least one token; the choices of a
            sample one after the other.
        pad_id: id of the padding.
        sample_ids: B ids; 0 ... B-1 if not given.
        labels: B class indices (int), B targets (float), for each of B texts one tag per token, or
            None for unlabelled texts.
        pairs: whether to carry `segment_ids`.
        choices: rows of each sample.
        cut_tags: for each of B texts the tags of the words that were cut off.

    Raises:
        ValueError: no texts, a text without a single token, a number of texts that `choices` does
            not divide, or more or fewer tags than tokens.
    """
    import torch

    lengths = [len(encoding.input_ids) for encoding in encodings]
    if not lengths or min(lengths) == 0:
        empty = "no texts" if not lengths else f"no tokens in text {lengths.index(0)}"
        msg = f"got {empty}, expected at least one text with at least one token each"
        raise ValueError(msg)
    if choices < 1 or len(lengths) % choices:
        msg = f"got {len(lengths)} texts for {choices=}, expected as many texts for each sample"
        raise ValueError(msg)
    shape = (len(lengths), max(lengths))
    mask = torch.arange(shape[1]) < torch.tensor(lengths).unsqueeze(1)

    def padded(rows: Iterable[Sequence[int]], fill: int) -> "Tensor":
        # `masked_scatter_` fills the True positions of the mask row by row.
        flat = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.int64)
        return torch.full(shape, fill, dtype=torch.int64).masked_scatter_(mask, flat)

    segments = padded((encoding.segment_ids for encoding in encodings), 0) if pairs else None
    ids = range(shape[0] // choices) if sample_ids is None else sample_ids
    return Batch(
        input_ids=padded((encoding.input_ids for encoding in encodings), pad_id),
        mask=mask,
        sample_ids=torch.tensor(list(ids), dtype=torch.int64),
        labels=None if labels is None else _targets(labels, lengths, padded),
        segment_ids=segments,
        choices=choices,
        cut_tags=_cut(cut_tags or ()),
    )


def _targets(
    labels: Labels, lengths: list[int], padded: "Callable[[Iterable[Sequence[int]], int], Tensor]"
) -> "Tensor":
    import torch

    # Only in tagging, a label is a sequence.
    tags = [label for label in labels if not isinstance(label, int | float)]
    if not tags:
        indices = all(isinstance(label, int) for label in labels)
        return torch.tensor(list(labels), dtype=torch.int64 if indices else torch.float32)
    if [len(row) for row in tags] != lengths:
        msg = f"got tags of {[len(row) for row in tags]} tokens, expected {lengths}"
        raise ValueError(msg)
    return padded(tags, IGNORED)


def _cut(tags: Sequence[Sequence[int]]) -> "Tensor | None":
    import torch

    width = max(map(len, tags), default=0)
    if not width:
        return None
    return torch.tensor([[*row, *[IGNORED] * (width - len(row))] for row in tags])
