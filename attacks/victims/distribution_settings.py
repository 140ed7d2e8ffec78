"""Settings of the optimisation of a distribution over tokens, without torch.

Recipes name them, and a report, which reads recipes, does not load torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from text import check_range
from text.token_pieces import TokenPiece


@dataclass(frozen=True)
class CausalLM:
    """A causal language model.

    Attributes:
        model: of `transformers`.
        pieces: the text of each of its ids.
    """

    model: Any
    pieces: Sequence[TokenPiece | None]


@dataclass(frozen=True, kw_only=True)
class DistributionSettings:
    """The optimisation of a distribution.

    Attributes:
        iterations: steps of Adam.
        draws: texts that are drawn in each step, by the Gumbel-softmax at temperature 1.
        rate: learning rate.
        initial: log-coefficient of the tokens of the text at first; that of all others is 0.
        margin: margin of the logits that the loss asks for.
        similarity: weight of the similarity to the text.
        fluency: weight of the log-perplexity; without a language model there is none.
        language_model: has the vocabulary of the victim; None for none.
    """

    iterations: int = 100
    draws: int = 10
    rate: float = 0.3
    initial: float = 15.0
    margin: float = 5.0
    similarity: float = 20.0
    fluency: float = 1.0
    language_model: CausalLM | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        check_range({"iterations": self.iterations, "draws": self.draws}, least=1)
        check_range({"rate": self.rate}, above=0)
        weights = {"similarity": self.similarity, "fluency": self.fluency}
        check_range({"initial": self.initial, "margin": self.margin, **weights}, least=0)
