"""Methods that learn the embedding of whole words."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

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
    """Distribution of the random texts of training; set when a fit begins."""

    def __init__(
        self,
        *,
        min_count: int = 1,
        max_vocab_size: int | None = None,
        words: WordSettings = WordSettings(),
        smoothing: SmoothingNoise = SmoothingNoise(),
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            min_count: words rarer than this in the training split become unknown.
            max_vocab_size: largest number of words, the most frequent ones.
            words: the words that a text is split into.
            smoothing: the noise of a smoothed classifier, applied to training texts.
            base: settings of `TaskModule`.
        """
        super().__init__(**base)
        check_range({"min_count": min_count, "max_vocab_size": max_vocab_size}, least=1)
        self.min_count, self.max_vocab_size, self.words = min_count, max_vocab_size, words
        self.smoothing = smoothing

    def unused(self) -> dict[str, str]:
        own = within("words", self.words.unused) | within("smoothing", self.smoothing.unused)
        return super().unused() | own

    @property
    def output_layer(self) -> nn.Module | None:
        # A smoothed classifier predicts by votes, to which a bias adds nothing.
        return super().output_layer if self.smoothing.noise == "none" else None

    def build_tokenizer(self, texts: Iterable[Text]) -> Tokenizer:
        """Build the vocabulary of a corpus."""
        return self.word_tokenizer(texts, self.min_count, self.max_vocab_size)

    def word_tokenizer(
        self, texts: Iterable[Text], min_count: int = 1, max_size: int | None = None
    ) -> WordTokenizer:
        """Return a tokenizer with the words of some texts, see `WordTokenizer.build`."""
        return WordTokenizer.build(
            texts,
            max_length=self.max_length,
            min_count=min_count,
            max_size=max_size,
            words=self.words,
            # Only lemmas need WordNet.
            lemmatizer=None if self.words.lemmas == "none" else find_lemmas(self.words),
        )

    def add_by_word(self, text: str, values: Tensor) -> list[tuple[str, float]]:
        """Return each word of a text, as it is written, with the sum of its values `[N]`."""
        words: dict[str, float] = {}
        spans = self.require_tokenizer().spans([text])[0]
        for span, value in zip(spans, values.tolist(), strict=False):
            word = text[span.start : span.end]
            words[word] = words.get(word, 0.0) + value
        return [(word, value) for word, value in words.items() if word]

    def on_fit_start(self) -> None:
        """Read the lists of the noise, which only training needs.

        Raises:
            ValueError: noise for pairs of texts, or for a pretrained tokenizer.
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
        """Replace the texts of a batch by random ones, if the settings have noise."""
        texts, tokenizer = self.random_texts, self.tokenizer
        if texts is None:
            return batch
        assert isinstance(tokenizer, WordTokenizer)  # checked by `on_fit_start`
        return random_batch(batch, texts, tokenizer, seed=run_seed(), epoch=self.current_epoch)
