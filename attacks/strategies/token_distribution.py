"""Texts of a distribution over tokens that the victim's gradient makes adversarial.

Source: Guo et al., "Gradient-based Adversarial Attacks against Text Transformers", 2021 (GBDA).
"""

from dataclasses import dataclass
from typing import Any

from attacks.composition import Context, DrawTexts, Group, Steps
from attacks.strategies.rounds import Rounds
from attacks.transformations.variants import changed_text
from attacks.victims.distribution_settings import DistributionSettings
from text import check_range


@dataclass(frozen=True, kw_only=True)
class TokenDistribution(DistributionSettings):
    """Optimises a distribution, then asks about texts of it until one reaches the goal.

    Each text is asked about as a text: the victim may read it as other tokens than those drawn.

    Attributes:
        tries: texts that are drawn at most.
    """

    tries: int = 100

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        super().__post_init__()
        check_range({"tries": self.tries}, least=1)

    def check_victim(self, victim: Any) -> None:
        """Check that a victim has token embeddings, and that the language model has its tokens.

        Raises:
            TypeError: it has none.
            ValueError: another vocabulary.
        """
        model = getattr(victim, "token_model", None)
        if model is None:
            msg = (
                f"got victim {victim.name} without token embeddings, expected a run or a model of "
                "transformers (hf:): the attack optimises a distribution over its tokens"
            )
            raise TypeError(msg)
        lm = self.language_model
        if lm is not None and list(lm.pieces) != list(model.pieces):
            msg = (
                f"got a language model with {len(lm.pieces):,} tokens that are not the "
                f"{len(model.pieces):,} of victim {victim.name}, expected one with the same "
                "tokenizer: --attack.causal_lm FOLDER, or leave it out"
            )
            raise ValueError(msg)

    def steps(self, context: Context) -> Steps:
        """See `Search`."""
        rounds, original = Rounds(context), context.original
        columns = {original.column_of(index) for index in context.allowed(original)}
        drawn: list[tuple[str, ...]] = []
        if columns:
            seed = context.random.getrandbits(63)
            drawn = yield DrawTexts(original, frozenset(columns), self.tries, seed, self)
        options = [changed_text(original, texts, range(len(original))) for texts in drawn]
        for constraint in context.attack.constraints:
            (flags,) = constraint.keep([Group(original, original, options)])
            options = [option for option, kept in zip(options, flags, strict=True) if kept]
        for option in options:
            yield from rounds.ask([option])
            if rounds.over():
                break
        return rounds.top
