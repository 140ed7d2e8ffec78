"""Methods that learn the embedding of whole words."""

from collections.abc import Iterable
from typing import Any

from pytorch_lightning.trainer.states import TrainerFn

from attacks.resources.lemmas import find_lemmas
from lit_modules.shared.settings import within
from lit_modules.shared.task_module import TaskModule
from text import Text, Tokenizer, WordSettings, WordTokenizer, check_range


class WordLevel(TaskModule):
    """A method with a vocabulary of the words of its training split."""

    def __init__(
        self,
        *,
        min_count: int = 1,
        max_vocab_size: int | None = None,
        words: WordSettings = WordSettings(),
        **base: Any,
    ) -> None:
        """Keeps the settings.

        Args:
            min_count: words rarer than this in the training split become unknown.
            max_vocab_size: largest number of words, the most frequent ones.
            words: the words that a text is split into.
            base: settings of `TaskModule`.
        """
        super().__init__(**base)
        check_range({"min_count": min_count, "max_vocab_size": max_vocab_size}, least=1)
        self.min_count, self.max_vocab_size, self.words = min_count, max_vocab_size, words

    def unused(self) -> dict[str, str]:
        return super().unused() | within("words", self.words.unused)

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        """Builds the vocabulary of a corpus."""
        return self.word_tokenizer(texts, self.min_count, self.max_vocab_size)

    def word_tokenizer(
        self, texts: Iterable[Text], min_count: int = 1, max_size: int | None = None
    ) -> WordTokenizer:
        """Returns a tokenizer with the words of some texts, see `WordTokenizer.build`."""
        return WordTokenizer.build(
            texts,
            max_length=self.max_length,
            min_count=min_count,
            max_size=max_size,
            words=self.words,
            lemmatizer=None if self.words.lemmas == "none" else find_lemmas(self.words),
        )

    def progress(self) -> float:
        """Share of the run's optimiser steps that are done; 1 outside a fit, or without an end."""
        if self._trainer is None or self.trainer.state.fn != TrainerFn.FITTING:
            return 1.0
        total = self.total_steps()
        return self.trainer.global_step / total if total else 1.0
