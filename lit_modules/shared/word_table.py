"""A file of word vectors as the vocabulary of a model, and as the begin of its embedding."""

import logging

import torch
from torch import Tensor

from attacks.resources.vector_files import VectorFile, cache_folder, read_vectors
from text import Tokenizer, Vocabulary, WordTokenizer

log = logging.getLogger(__name__)

_ROWS = 1 << 16
"""Vectors that are copied at once."""


class WordTable:
    """The words and vectors of a file, read when they are first needed.

    All words of the file are in the vocabulary, not only those of the training texts: an attack
    puts in words that no training text has, and they have vectors, too (thesis, section 4.3.2). A
    word that the file lacks is unknown.

    Args:
        path: the file, see `read_vectors`.
        width: numbers of a vector.
    """

    def __init__(self, path: str, width: int) -> None:
        self.path, self.width = path, width
        self._content: VectorFile | None = None

    def content(self) -> VectorFile:
        """Reads the file.

        Raises:
            ValueError: it cannot be read, is broken, or has vectors of another width.
        """
        if self._content is None:
            found = read_vectors(self.path, cache=cache_folder())
            if found.matrix.shape[1] != self.width:
                msg = (
                    f"got vectors of {found.matrix.shape[1]} numbers in {self.path} and "
                    f"width={self.width}, expected the same; give --model.width "
                    f"{found.matrix.shape[1]}, or another file"
                )
                raise ValueError(msg)
            if found.repeated:
                log.warning(
                    "%d lines of %s repeat a word: its first vector counts",
                    found.repeated,
                    self.path,
                )
            self._content = found
        return self._content

    def tokenizer(self, seen: WordTokenizer, max_size: int | None = None) -> WordTokenizer:
        """Returns the tokenizer with the words of the file.

        First come those of the training texts, by falling count, then the others in the order of
        the file, which in most files is that of their frequency.

        Args:
            seen: with the words of the training texts.
            max_size: ids at most; None for no limit.

        Raises:
            ValueError: see `content`; or no word of the texts is in the file.
        """
        before = seen.vocabulary
        specials, words = before.specials, before.get_itos()[len(before.specials) :]
        known = set(self.content().words).difference(specials)
        found = [word for word in words if word in known]
        if not found:
            msg = (
                f"got {self.path} without any of the {len(words)} words of the training texts "
                f"({', '.join(words[:5])} ...), expected vectors of words in lower case"
            )
            raise ValueError(msg)
        share = sum(map(before.count, found)) / sum(map(before.count, words))
        log.info(
            "%d of %d words of the training texts are in %s, %.1f%% of all their occurrences",
            *(len(found), len(words), self.path, 100 * share),
        )
        others = known.difference(found)
        tokens = [*specials, *found, *(word for word in self.content().words if word in others)]
        tokens = tokens[:max_size]
        counts = list(map(before.count, tokens))
        state = {"specials": specials, "unk": before.unk, "tokens": tokens, "counts": counts}
        return WordTokenizer(
            Vocabulary.from_state(state),
            seen.max_length,
            words=seen.splitter.settings,
            lemmatizer=seen.splitter.lemmatizer,
        )

    @torch.no_grad()
    def fill(self, weight: Tensor, tokenizer: Tokenizer, *, frozen: bool) -> None:
        """Puts the vectors into the table of an embedding.

        The file lacks `<pad>`, `<sep>` and mostly `<unk>`. If they are to stay as they are they get
        zeros, as unknown words in torchtext, whose vectors the thesis takes; else they keep what
        they have.

        Args:
            weight: `[V, d]`.
            tokenizer: of V words.
            frozen: True if the table is not trained.

        Raises:
            ValueError: see `content`; or a tokenizer without words.
        """
        if not isinstance(tokenizer, WordTokenizer):
            msg = f"got {type(tokenizer).__name__} with {self.path}, expected a WordTokenizer"
            raise ValueError(msg)
        content = self.content()
        place = {word: row for row, word in enumerate(content.words)}
        tokens = tokenizer.vocabulary.get_itos()
        if frozen:
            weight.zero_()
        pairs = [(index, place[token]) for index, token in enumerate(tokens) if token in place]
        for start in range(0, len(pairs), _ROWS):
            indices, rows = zip(*pairs[start : start + _ROWS], strict=True)
            vectors = torch.from_numpy(content.matrix[list(rows)])
            weight[list(indices)] = vectors.to(weight)
