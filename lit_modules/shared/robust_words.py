"""Methods that are trained against replaced words."""

from collections.abc import Iterable
from typing import Any

from lit_modules.shared.settings import within
from lit_modules.shared.word_level import WordLevel
from lit_modules.shared.word_robustness import WordOptions, WordRobustness
from text import Text, WordTokenizer


class RobustWords(WordLevel):
    """A method whose vocabulary and training include the words that sets put into a text."""

    def __init__(self, *, robustness: WordRobustness, **base: Any) -> None:
        """Keep the settings.

        Args:
            robustness: the threat against which it is trained. A subclass declares it again, with
                a default and with the effect that it has there.
            base: settings of `WordLevel`.
        """
        super().__init__(**base)
        self.robustness = robustness
        self.perturbation_sets, self.resources = robustness.sets, robustness.resources

    def unused(self) -> dict[str, str]:
        return super().unused() | within("robustness", self.robustness.unused)

    def lasting(self) -> dict[str, str]:
        return super().lasting() | within("robustness", self.robustness.lasting)

    @property
    def ordered(self) -> str | None:
        """Its name in the refusal of sets that move words; None if their order does not matter."""
        return self.method

    def robust_tokenizer(self, texts: Iterable[Text]) -> WordTokenizer:
        """Return a tokenizer with the words of some texts, and with those of the sets.

        Raises:
            ValueError: see `WordRobustness.replacements`.
            OSError: a resource is missing.
        """
        tokenizer = self.word_tokenizer(texts, self.min_count, self.max_vocab_size)
        return self.robustness.add_words(tokenizer, ordered=self.ordered)

    def word_options(self) -> WordOptions:
        """Read the sets or lists, and return the replacements of each known word.

        Raises:
            ValueError: see `WordRobustness.replacements`.
            OSError: a file or resource cannot be read.
        """
        tokenizer = self.require_tokenizer()
        assert isinstance(tokenizer, WordTokenizer)  # see `robust_tokenizer`
        sets = self.robustness.replacements(tokenizer, ordered=self.ordered)
        return WordOptions.of(sets, tokenizer).to(self.device)
