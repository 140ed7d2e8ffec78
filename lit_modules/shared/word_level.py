"""Methods that learn the embedding of whole words."""

from collections.abc import Iterable
from typing import Any

from attacks.resources.lemmas import find_lemmas
from certify.smoothing.random_texts import RandomTexts
from lit_modules.shared.settings import within
from lit_modules.shared.smoothing_noise import SmoothingNoise, random_batch
from lit_modules.shared.task_module import TaskModule
from text import Batch, Text, Tokenizer, WordSettings, WordTokenizer, check_range
from text.run_seed import run_seed


class WordLevel(TaskModule):
    """A method with a vocabulary of the words of its training split."""

    random_texts: RandomTexts | None = None
    """The random texts around those of training; read when a fit begins."""

    def __init__(
        self,
        *,
        min_count: int = 1,
        max_vocab_size: int | None = None,
        words: WordSettings = WordSettings(),
        smoothing: SmoothingNoise = SmoothingNoise(),
        **base: Any,
    ) -> None:
        """Keeps the settings.

        Args:
            min_count: words rarer than this in the training split become unknown.
            max_vocab_size: largest number of words, the most frequent ones.
            words: the words that a text is split into.
            smoothing: the noise of a smoothed classifier, which training texts get.
            base: settings of `TaskModule`.
        """
        super().__init__(**base)
        check_range({"min_count": min_count, "max_vocab_size": max_vocab_size}, least=1)
        self.min_count, self.max_vocab_size, self.words = min_count, max_vocab_size, words
        self.smoothing = smoothing

    def unused(self) -> dict[str, str]:
        found = super().unused() | within("words", self.words.unused)
        return found | within("smoothing", self.smoothing.unused)

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

    def on_fit_start(self) -> None:
        """Reads the lists of the noise, which only training needs.

        Raises:
            ValueError: noise for a model that reads other texts than single ones of known words.
        """
        if self.smoothing.noise == "none":
            return
        if self.pairs or not isinstance(self.tokenizer, WordTokenizer):
            kind = "pairs of texts" if self.pairs else "the words of a pretrained backbone"
            msg = (
                f"got smoothing.noise={self.smoothing.noise} for {kind}, expected single texts and "
                "a vocabulary of whole words"
            )
            raise ValueError(msg)
        self.random_texts = self.smoothing.texts(self.tokenizer)

    def trained_on(self, batch: Batch) -> Batch:
        """Replaces the texts of a batch by random ones, where there is noise."""
        texts, tokenizer = self.random_texts, self.tokenizer
        if texts is None:
            return batch
        assert isinstance(tokenizer, WordTokenizer)  # on_fit_start looked
        return random_batch(batch, texts, tokenizer, seed=run_seed(), epoch=self.current_epoch)
