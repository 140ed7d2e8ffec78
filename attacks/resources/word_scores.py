"""Log-probabilities of words in their surroundings, by a masked language model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attacks.resources.language_model import logits_at
from attacks.victims.batches import Batches, pad_rows
from layers.positions import shortest_limit

Surroundings = tuple[str, str]
"""The text before a word and the text behind it."""


class MaskedWordScorer:
    """Scores words by the mean log-probability of their tokens, with all of them masked.

    Args:
        model: model of `transformers` with a masked-language-model head; used in evaluation mode.
        tokenizer: of the model, with a mask.
        batch_size: texts per forward pass at first; halved when memory runs out.
    """

    described_as = "WordScores"

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int = 32) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.max_length = shortest_limit(model, tokenizer, 512)
        self._batches = Batches(batch_size, model.device.type)
        self._ids: dict[str, list[int]] = {}

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        return {"model": self.model, "max_length": self.max_length}

    def __call__(self, queries: Sequence[tuple[Surroundings, Sequence[str]]]) -> list[list[float]]:
        """Return the scores of the words of each query, in nats per token.

        A query has surroundings, and words to score between them.
        """
        forms = [[self._tokens(word) for word in words] for _, words in queries]
        # Words of equal length share the masked text, and its forward pass.
        needed = {
            (context, len(ids)): None
            for (context, _), rows in zip(queries, forms, strict=True)
            for ids in rows
        }
        masked = [self._masked(context, count) for context, count in needed]
        tables = self._batches.each(self._forward, masked, lambda row: len(row[0]))
        table_of = dict(zip(needed, tables, strict=True))
        scores = []
        for (context, _), rows in zip(queries, forms, strict=True):
            row = []
            for ids in rows:
                table = table_of[context, len(ids)]
                row.append(float(table[torch.arange(len(ids)), torch.tensor(ids)].mean()))
            scores.append(row)
        return scores

    def _tokens(self, word: str) -> list[int]:
        if word not in self._ids:
            spaced = self.tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
            self._ids[word] = list(spaced) or [self.tokenizer.unk_token_id]
        return self._ids[word]

    def _masked(self, context: Surroundings, count: int) -> tuple[list[int], range]:
        """Return token ids with masks in the place, and their positions."""
        coded = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in context]
        head, tail = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        room = self.max_length - count - (head is not None) - (tail is not None)
        # A side that is short leaves its room to the other.
        right = min(len(coded[1]), max(room // 2, room - len(coded[0])))
        before = list(coded[0])[max(len(coded[0]) - (room - right), 0) :]
        after = list(coded[1])[:right]
        ids = [*([head] if head is not None else []), *before]
        start = len(ids)
        ids += [self.tokenizer.mask_token_id] * count + after
        return [*ids, *([tail] if tail is not None else [])], range(start, start + count)

    @torch.no_grad()
    def _forward(self, masked: Sequence[tuple[list[int], range]]) -> list[Tensor]:
        """Return `[masks, V]` log-probabilities of each text."""
        device = self.model.device
        ids, mask = pad_rows([row for row, _ in masked], self.tokenizer.pad_token_id or 0, device)
        rows = torch.tensor([i for i, (_, positions) in enumerate(masked) for _ in positions])
        positions = torch.tensor([position for _, positions in masked for position in positions])
        logits = logits_at(self.model, ids, mask, rows.to(device), positions.to(device))
        scores = logits.log_softmax(dim=-1).cpu()
        # [masks, V] for each masked text.
        return list(torch.split(scores, [len(positions) for _, positions in masked]))
