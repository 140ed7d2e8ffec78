"""Methods that are trained against replaced words."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from lit_modules.shared.settings import within
from lit_modules.shared.word_level import WordLevel
from lit_modules.shared.word_robustness import WordOptions, WordRobustness
from text import Batch, Text, WordTokenizer


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

    def training_values(self, batch: Batch) -> dict[str, Tensor]:
        values = super().training_values(batch)
        if self.robustness.against != "none":
            kappa = self.robustness.weight(self.progress())
            values["train/kappa"] = torch.tensor(kappa, device=self.device)
        return values

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
