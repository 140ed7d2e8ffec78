"""A file of word vectors as the vocabulary of a model and its initial embedding."""

import logging

import torch
from torch import Tensor

from attacks.resources.vector_files import VectorFile, cache_folder, read_vectors
from text import Tokenizer, Vocabulary, WordTokenizer

log = logging.getLogger(__name__)

# Vectors that are copied at once.
_ROWS = 1 << 16


class WordTable:
    """The words and vectors of a file, read when they are first needed.

    All words of the file are in the vocabulary, not only those of the training texts: an attack
    inserts words that no training text has, and they have vectors as well (thesis, section 4.3.2).
    A word that is not in the file is unknown.

    Args:
        path: the file, see `read_vectors`.
        width: numbers of a vector.
    """

    def __init__(self, path: str, width: int) -> None:
        self.path, self.width = path, width
        self._content: VectorFile | None = None

    def content(self) -> VectorFile:
        """Read the file.

        Raises:
            ValueError: it cannot be read, is broken, or has vectors of another width.
        """
        if self._content is None:
            vectors = read_vectors(self.path, cache=cache_folder())
            if vectors.matrix.shape[1] != self.width:
                msg = (
                    f"got vectors of {vectors.matrix.shape[1]} numbers in {self.path} and "
                    f"width={self.width}, expected the same; give --model.width "
                    f"{vectors.matrix.shape[1]}, or another file"
                )
                raise ValueError(msg)
            if vectors.repeated:
                log.warning(
                    "%d lines of %s repeat a word: its first vector counts",
                    vectors.repeated,
                    self.path,
                )
            self._content = vectors
        return self._content

    def tokenizer(self, corpus: WordTokenizer, max_size: int | None = None) -> WordTokenizer:
        """Return the tokenizer with the words of the file, of at most `max_size` ids.

        `corpus` has the words of the training texts.

        Raises:
            ValueError: see `content`; or no word of the texts is in the file.
        """
        before = corpus.vocabulary
        specials, words = before.specials, before.words()
        available = set(self.content().words).difference(specials)
        common = [word for word in words if word in available]
        if not common:
            msg = (
                f"got {self.path} without any of the {len(words)} words of the training texts "
                f"({', '.join(words[:5])} ...), expected vectors of words in lower case"
            )
            raise ValueError(msg)
        share = sum(map(before.count, common)) / sum(map(before.count, words))
        log.info(
            "%d of %d words of the training texts are in %s, %.1f%% of all their occurrences",
            *(len(common), len(words), self.path, 100 * share),
        )
        # First the words of the training texts, by falling count, then the others in the order of
        # the file, which usually is that of their frequency.
        rest = available.difference(common)
        tokens = [*specials, *common, *(word for word in self.content().words if word in rest)]
        tokens = tokens[:max_size]
        counts = list(map(before.count, tokens))
        state = {"specials": specials, "unk": before.unk, "tokens": tokens, "counts": counts}
        return WordTokenizer(
            Vocabulary.from_state(state),
            corpus.max_length,
            words=corpus.splitter.settings,
            lemmatizer=corpus.splitter.lemmatizer,
        )

    @torch.no_grad()
    def fill(self, weight: Tensor, tokenizer: Tokenizer, *, frozen: bool) -> None:
        """Put the vectors into the table `[V, d]` of an embedding, trained unless `frozen`.

        Raises:
            ValueError: see `content`; or a tokenizer without words.
        """
        if not isinstance(tokenizer, WordTokenizer):
            msg = f"got {type(tokenizer).__name__} with {self.path}, expected a WordTokenizer"
            raise ValueError(msg)
        content = self.content()
        row_of = {word: row for row, word in enumerate(content.words)}
        tokens = tokenizer.vocabulary.get_itos()
        # The file has no `<pad>`, `<sep>` and usually no `<unk>`. In a frozen table they get zeros,
        # like unknown words in torchtext, whose vectors the thesis uses.
        if frozen:
            weight.zero_()
        pairs = [(index, row_of[token]) for index, token in enumerate(tokens) if token in row_of]
        for start in range(0, len(pairs), _ROWS):
            indices, rows = zip(*pairs[start : start + _ROWS], strict=True)
            vectors = torch.from_numpy(content.matrix[list(rows)])
            weight[list(indices)] = vectors.to(weight)
