"""Adversaries in the hull of a word and its synonyms, among their embeddings."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attacks.resources.catalogue import ResourceError, Resources, resources_named
from attacks.set_names import check_names
from attacks.word_sets import find_sets
from certify.threats import Substitutions
from lit_modules.adversaries.adversary import Adversary, InnerProblem, TrainingLoop
from text import (
    FrontEndTokenizer,
    PretrainedTokenizer,
    Text,
    Tokenizer,
    WordSettings,
    WordTokenizer,
    check_range,
)


class Hull(NamedTuple):
    """Words and the words that may replace them, by their ids.

    Attributes:
        ids: `[V, S]` int64, the id itself first, and as padding.
        orders: `[V, S]` int8: 1 for the id itself and its synonyms, 2 for synonyms of synonyms, 0
            for padding.
        continues: `[V]` bool, True for tokens that continue a word: the token before is no word.
    """

    ids: Tensor
    orders: Tensor
    continues: Tensor

    def to(self, device: torch.device) -> "Hull":
        """Return a copy on another device."""
        return Hull(*(part.to(device) for part in self))


class Corners(NamedTuple):
    """The corners of the hulls of a batch: `x` are `[B, N, S, d]` embedded words.

    The word of the text is first; `orders` `[B, N, S]` are those of `Hull`.
    """

    x: Tensor
    orders: Tensor

    def weigh(self, logits: Tensor) -> Tensor:
        """`[B, N, S]` weights of the corners: softmax of logits, 0 for padding."""
        return logits.masked_fill(self.orders == 0, -torch.inf).softmax(dim=-1)

    def point(self, weights: Tensor) -> Tensor:
        """`[B, N, d]`: the points of the hulls with these weights."""
        return (weights.unsqueeze(-1).to(self.x.dtype) * self.x).sum(dim=2)


class HullAdversary(Adversary):
    """Perturbs each embedded word within the hull of the word and its synonyms."""

    tasks = ("classification",)
    second_order = False
    """True if synonyms of synonyms are corners too."""

    def __init__(
        self,
        *,
        sets: str = "wordnet",
        resources: str | None = None,
        candidates: int = 8,
        extend_vocabulary: bool = False,
    ) -> None:
        """Keep the settings.

        Args:
            sets: the synonyms: names of perturbation sets that list words, with commas between
                (wordnet, pwws, textfooler ...), or JSON files with a list of words for each word
                (docs/robust_words.md).
            resources: folder with the WordNet and the word vectors of the sets.
            candidates: synonyms of a word at most; the first ones of its list.
            extend_vocabulary: add the synonyms of the words of the training split to the
                vocabulary, if this run builds one of words; else unknown ones are left out.

        Raises:
            ValueError: an unknown set, or a number that is out of its range.
        """
        check_names(sets)
        check_range({"candidates": candidates}, least=1)
        self.sets, self.resources = sets, resources
        self.candidates, self.extend_vocabulary = candidates, extend_vocabulary
        self._hull: Hull | None = None

    def more_texts(self, texts: Sequence[Text]) -> list[str]:
        """See `Adversary`.

        Raises:
            ValueError: a resource is missing, or sets that list no words.
        """
        if not self.extend_vocabulary:
            return []
        sets = self._find(WordSettings())
        parts = (text for pair in texts for text in ((pair,) if isinstance(pair, str) else pair))
        words = sorted({word for part in parts for word in sets.split(part)})
        return sorted({other for word in words for other in self._listed(sets, word)})

    def start(self, loop: TrainingLoop) -> None:
        """See `Adversary`: finds the synonyms of the vocabulary.

        Raises:
            ValueError: a resource is missing, sets that list no word of the vocabulary, or a
                tokenizer of other units than words and their pieces.
        """
        tokenizer = loop.classifier.require_tokenizer()
        if isinstance(tokenizer, FrontEndTokenizer):
            # Its ids are those of the inner tokenizer, after the front end.
            tokenizer = tokenizer.inner
        settings, words, continues = WordSettings(), dict[str, int](), frozenset[int]()
        if isinstance(tokenizer, WordTokenizer):
            settings = tokenizer.splitter.settings
            tokens = tokenizer.vocabulary.get_itos()
            words = {tokens[i]: i for i in range(len(tokenizer.specials), len(tokens))}
        elif isinstance(tokenizer, PretrainedTokenizer):
            words, continues = tokenizer.whole_words(), tokenizer.continuations()
        else:
            msg = (
                f"got {type(self).__name__} for a tokenizer {type(tokenizer).__name__}, expected "
                "one of words or of a pretrained encoder, without --model.classifier.encoding"
            )
            raise ValueError(msg)
        rows = self._rows(self._find(settings), words)
        if not rows:
            msg = (
                f"got sets={self.sets}, which list no other word of the vocabulary for any of its "
                "words, expected sets that list words (wordnet, pwws, textfooler, JSON files), or "
                "--model.adversary.extend_vocabulary true"
            )
            raise ValueError(msg)
        self._hull = _build(tokenizer, rows, continues).to(loop.device)

    def _find(self, words: WordSettings) -> Substitutions:
        try:
            with resources_named("--model.adversary.resources"):
                return find_sets(self.sets, words, Resources(self.resources))
        except ResourceError as error:
            msg = f"training in hulls of {self.sets}: {error}"
            raise ValueError(msg) from error

    def _listed(self, sets: Substitutions, word: str) -> Iterable[str]:
        """Return the synonyms of a word that are one word, each once, without itself."""
        listed = dict.fromkeys(sets.listed(word))
        return [other for other in listed if other != word and sets.split(other) == (other,)]

    def _rows(self, sets: Substitutions, words: dict[str, int]) -> dict[int, list[tuple[int, int]]]:
        """Return ids and orders of the synonyms of the words that have any."""
        first = {
            word: [other for other in self._listed(sets, word) if other in words] for word in words
        }
        rows: dict[int, list[tuple[int, int]]] = {}
        for word, index in words.items():
            order = dict.fromkeys(first[word], 1)
            if self.second_order:
                # In the order of the lists: the first ones are kept where there are too many.
                further = (other for near in first[word] for other in first[near])
                order |= {other: 2 for other in further if other not in order and other != word}
            if order:
                rows[index] = [(words[o], n) for o, n in order.items()][: self.candidates]
        return rows

    def corners(self, problem: InnerProblem) -> Corners:
        """Return the corners of a batch: padding and parts of words have themselves only.

        Raises:
            RuntimeError: before `start`.
        """
        if self._hull is None:
            msg = "got an adversary without synonyms, expected start() before the first step"
            raise RuntimeError(msg)
        batch = problem.batch
        hull = self._hull = self._hull.to(batch.input_ids.device)
        ids, orders = hull.ids[batch.input_ids], hull.orders[batch.input_ids]
        # A word of several pieces has no single id: neither its first piece nor the others move.
        after = torch.zeros_like(batch.mask)
        after[:, :-1] = hull.continues[batch.input_ids[:, 1:]] & batch.mask[:, 1:]
        fixed = hull.continues[batch.input_ids] | after | ~batch.mask
        orders = torch.where(fixed.unsqueeze(-1), orders.new_tensor(0), orders)
        # The word itself stays a corner, also of padding: a softmax over no corner would be NaN.
        orders[..., 0] = 1
        # Only as many corners as some word of this batch has: all of them are embedded.
        size = int((orders > 0).sum(dim=-1).amax())
        ids, orders = ids[..., :size], orders[..., :size]
        count, length = batch.input_ids.shape
        segments = batch.segment_ids
        # Corners become rows of the batch, so that positions and segments are added as usual.
        wide = replace(
            batch,
            input_ids=ids.permute(2, 0, 1).reshape(size * count, length),
            mask=batch.mask.repeat(size, 1),
            sample_ids=batch.sample_ids.repeat(size),
            segment_ids=None if segments is None else segments.repeat(size, 1),
        )
        x = problem.classifier.embed(wide).view(size, count, length, -1)
        return Corners(x.permute(1, 2, 0, 3), orders)

    @property
    def width(self) -> int:
        """S, the corners of a word at most: draws of a text must not depend on its batch."""
        assert self._hull is not None  # checked by `corners`
        return self._hull.ids.shape[1]


def _build(
    tokenizer: Tokenizer, rows: dict[int, list[tuple[int, int]]], continues: frozenset[int]
) -> Hull:
    size = 1 + max(map(len, rows.values()))
    ids = torch.arange(tokenizer.vocab_size).unsqueeze(1).repeat(1, size)
    orders = torch.zeros(ids.shape, dtype=torch.int8)
    orders[:, 0] = 1
    for index, row in rows.items():
        ids[index, 1 : 1 + len(row)] = torch.tensor([other for other, _ in row])
        orders[index, 1 : 1 + len(row)] = torch.tensor([order for _, order in row]).to(torch.int8)
    flags = torch.zeros(tokenizer.vocab_size, dtype=torch.bool)
    flags[list(continues)] = True
    return Hull(ids, orders, flags)
