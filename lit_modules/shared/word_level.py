"""Methods that learn the embedding of whole words."""

from collections.abc import Iterable
from typing import Any

from lit_modules.shared.task_module import TaskModule
from text import Text, Tokenizer, WordTokenizer, check_range


class WordLevel(TaskModule):
    """A method with a vocabulary of the words of its training split."""

    def __init__(
        self, *, min_count: int = 1, max_vocab_size: int | None = None, **base: Any
    ) -> None:
        """Keeps the settings.

        Args:
            min_count: words rarer than this in the training split become unknown.
            max_vocab_size: largest number of words, the most frequent ones.
            base: settings of `TaskModule`.
        """
        super().__init__(**base)
        check_range({"min_count": min_count, "max_vocab_size": max_vocab_size}, least=1)
        self.min_count, self.max_vocab_size = min_count, max_vocab_size

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        """Builds the vocabulary of a corpus."""
        return WordTokenizer.build(
            texts,
            max_length=self.max_length,
            min_count=self.min_count,
            max_size=self.max_vocab_size,
        )
