"""Replaces words by those that a masked language model expects where they stand, unmasked.

Source: Li et al., "BERT-ATTACK: Adversarial Attack Against BERT Using BERT", 2020, section 3.2.
"""

import heapq
import json
from collections.abc import Iterable, Sequence
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor

from attacks.compat import Compat
from attacks.composition import Job
from attacks.document import Candidate, count_words, word_spans
from attacks.transformations.case import in_case_of
from attacks.victims.batches import Batches, pad_rows
from layers.positions import shortest_limit


class SubwordSwap:
    """Replaces a word by words that the model expects in its place while it sees the word itself.

    The pieces of a word that has several are replaced together: of all combinations of their
    likeliest pieces, those of the largest sum of log-probabilities that make one word. The paper
    and its code rank all K^n combinations by perplexity, which is the same order; the reference
    (TextAttack 0.3.11) sorts a copy and keeps the first ones that it has made, which differ in
    their last piece only.

    Args:
        model: model of `transformers` with a masked-language-model head; used in evaluation mode.
        tokenizer: fast tokenizer of the model.
        k: words proposed for a word.
        pieces: words of more pieces are left alone.
        stop_words: words that are not proposed; their code has the same list for the words that it
            replaces.
        batch_size: texts per forward pass at first; halved when memory runs out.
        compat: `textattack`: case as it comes, and of several pieces the first combinations.

    Raises:
        ValueError: a number below 1.
        TypeError: a slow tokenizer.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        k: int = 48,
        *,
        pieces: int = 4,
        stop_words: Iterable[str] = (),
        batch_size: int = 32,
        compat: str = "none",
    ) -> None:
        if k < 1 or pieces < 1:
            msg = f"got {k=}, {pieces=}, expected at least 1"
            raise ValueError(msg)
        if not getattr(tokenizer, "is_fast", False):
            msg = f"got {type(tokenizer).__name__}, expected a fast tokenizer"
            raise TypeError(msg)
        self.model, self.k, self.pieces = model.eval(), k, pieces
        self.stop_words = frozenset(map(str.lower, stop_words))
        self._tokenizer = tokenizer
        self.reference = Compat(compat).reference
        self.max_length = shortest_limit(model, tokenizer, 512)
        self._batches = Batches(batch_size, model.device.type)
        self._special = set(tokenizer.all_special_ids)
        # Only the state of a fast tokenizer has the mark of pieces that continue a word.
        pieces_of = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
        self._mark: str | None = pieces_of.get("continuing_subword_prefix") or None

    def about(self) -> dict[str, Any]:
        """See `attacks.fingerprint`."""
        settings = {
            "k": self.k,
            "pieces": self.pieces,
            "model": self.model,
            "max_length": self.max_length,
        }
        if self.stop_words:
            settings["stop_words"] = self.stop_words
        return {**settings, "compat": "textattack"} if self.reference else settings

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        texts = dict.fromkeys(
            job.current.columns[job.current.column_of(i)] for job in jobs for i in job.indices
        )
        expected = self._expected(list(texts))
        proposed = []
        for job in jobs:
            document, candidates = job.current, list[Candidate]()
            for index in job.indices:
                column, start, end = document.spans[index]
                tokens = expected[document.columns[column]]
                # All tokens that overlap the word.
                positions = [i for i, (a, b) in enumerate(tokens[0]) if a < end and b > start]
                old = document.words[index]
                if self.reference:
                    words = self._first(positions, tokens[1])
                else:
                    joined = self._words(positions, *tokens[1:])
                    words = list(
                        dict.fromkeys(
                            in_case_of(word, old)
                            for word in joined
                            if word.lower() not in self.stop_words
                        )
                    )
                candidates += document.replace_by(index, [word for word in words if word != old])
            proposed.append(candidates)
        return proposed

    def _words(self, positions: Sequence[int], ids: Tensor, scores: Tensor) -> list[str]:
        """Return the words that the likeliest pieces of some places make, the likeliest first."""
        if not 1 <= len(positions) <= self.pieces:
            return []
        options = [
            [
                (score, self._tokenizer.convert_ids_to_tokens(number))
                for number, score in zip(
                    ids[position].tolist(), scores[position].tolist(), strict=True
                )
                if number not in self._special
            ]
            for position in positions
        ]
        words = []
        # Most combinations of pieces are no words: eight times as many are tried.
        for tokens in combinations(options, limit=self.k * 8):
            word = self._joined(tokens)
            # One whole word with a letter: no marks, no numbers.
            if word_spans(word) == [(0, len(word))] and any(map(str.isalpha, word)):
                words.append(word)
            if len(words) == self.k:
                break
        return words

    def _first(self, positions: Sequence[int], ids: Tensor) -> list[str]:
        """Return the words that the reference proposes, in its order, equal ones again."""
        names = self._tokenizer.convert_ids_to_tokens
        options = [names(ids[position, : self.k].tolist()) for position in positions]
        if len(options) == 1:
            words = (name for name in options[0] if not self._mark or self._mark not in name)
        else:
            words = ("".join(pieces).replace(self._mark or "", "") for pieces in product(*options))
        # The reference takes the first k of these in its own order.
        return list(islice((word for word in words if count_words(word) == 1), self.k))

    def _joined(self, tokens: Sequence[str]) -> str:
        """Return the word that tokens make; nothing where they make none."""
        if self._mark is None:
            text: str = self._tokenizer.convert_tokens_to_string(list(tokens))
            return text.strip()
        # A word begins without the mark, and continues with it.
        inside = [token.startswith(self._mark) for token in tokens]
        if inside[0] or not all(inside[1:]):
            return ""
        return "".join(token.removeprefix(self._mark) for token in tokens)

    def _expected(
        self, texts: Sequence[str]
    ) -> dict[str, tuple[list[tuple[int, int]], Tensor, Tensor]]:
        """Return, of each text, its tokens' places and the ids and scores expected there.

        Texts that are too long for the model are shown in parts.
        """
        parts: list[tuple[int, list[int]]] = []
        offsets: list[list[tuple[int, int]]] = []
        head, tail = self._tokenizer.cls_token_id, self._tokenizer.sep_token_id
        room = self.max_length - (head is not None) - (tail is not None)
        for number, text in enumerate(texts):
            coded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            offsets.append([(a, b) for a, b in coded["offset_mapping"]])
            ids = list(coded["input_ids"])
            # A long text is shown in parts of at most `room` tokens.
            parts += [(number, ids[i : i + room]) for i in range(0, len(ids), room)]
        ids_of: list[list[Tensor]] = [[] for _ in texts]
        scores_of: list[list[Tensor]] = [[] for _ in texts]
        answers = self._batches.each(self._forward, parts, lambda part: len(part[1]))
        for (number, _), (best, scores) in zip(parts, answers, strict=True):
            ids_of[number].append(best)
            scores_of[number].append(scores)
        empty = torch.zeros(0, 1, dtype=torch.int64)
        return {
            text: (offsets[i], torch.cat(ids_of[i] or [empty]), torch.cat(scores_of[i] or [empty]))
            for i, text in enumerate(texts)
        }

    @torch.no_grad()
    def _forward(self, chunk: Sequence[tuple[int, list[int]]]) -> list[tuple[Tensor, Tensor]]:
        """Return `[tokens, k]` ids and log-probabilities of each part."""
        head, tail = self._tokenizer.cls_token_id, self._tokenizer.sep_token_id
        rows = [
            [*([] if head is None else [head]), *ids, *([] if tail is None else [tail])]
            for _, ids in chunk
        ]
        # Masked: any id pads, where the tokenizer has none for it.
        ids, mask = pad_rows(rows, self._tokenizer.pad_token_id or 0, self.model.device)
        logits = self.model(input_ids=ids, attention_mask=mask.long()).logits
        logits = logits.float().log_softmax(dim=-1)
        # [B, N, 2k]: some of the 2k are special tokens or no words.
        best = logits.topk(min(2 * self.k, logits.shape[-1]), dim=-1)
        begin = int(head is not None)
        return [
            (
                best.indices[row, begin : begin + len(part)].cpu(),
                best.values[row, begin : begin + len(part)].cpu(),
            )
            for row, (_, part) in enumerate(chunk)
        ]


def combinations(
    options: Sequence[Sequence[tuple[float, str]]], *, limit: int
) -> list[tuple[str, ...]]:
    """Return the combinations of the largest sums, one option of each place, the largest first.

    There are `limit` at most. The options of a place have their scores, the largest first.
    """
    if not options or not all(options):
        return []

    def total(choice: tuple[int, ...]) -> float:
        return sum(row[i][0] for row, i in zip(options, choice, strict=True))

    first = (0,) * len(options)
    # Best-first: the next best combination differs from a former one in one position.
    # The sums are negative: `heapq` pops the smallest entry.
    heap, visited = [(-total(first), first)], {first}
    results: list[tuple[str, ...]] = []
    while heap and len(results) < limit:
        _, choice = heapq.heappop(heap)
        results.append(tuple(row[i][1] for row, i in zip(options, choice, strict=True)))
        for where, row in enumerate(options):
            near = (*choice[:where], choice[where] + 1, *choice[where + 1 :])
            if near[where] < len(row) and near not in visited:
                visited.add(near)
                heapq.heappush(heap, (-total(near), near))
    return results
