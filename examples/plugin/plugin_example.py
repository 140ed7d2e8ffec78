"""A method, a corpus and a recipe outside of the project."""

from random import Random
from typing import Any, ClassVar

from torch import Tensor, nn

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.search import Greedy
from attacks.transformations.word_swap import WordSwap
from datamodules import TextDataModule
from layers import NormalizedEmbedding
from lit_modules.shared.word_level import WordLevel
from text import Batch


class MeanNetwork(nn.Module):
    """Two layers on the mean of the real tokens."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, num_classes)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, d]` tokens with mask `[B, N]` to `[B, C]` logits."""
        real = mask.unsqueeze(-1)
        logits: Tensor = self.layers((x * real).sum(dim=1) / real.sum(dim=1))
        return logits


class DeepAveraging(WordLevel, method=True):
    """Deep averaging network (Iyyer et al., 2015) on word embeddings."""

    def __init__(self, *, width: int = 64, **base: Any) -> None:
        """Keep the settings.

        Args:
            width: token width.
            base: settings of `WordLevel`.
        """
        super().__init__(**base)
        self.width = width
        self.embedding: NormalizedEmbedding | None = None

    def configure_model(self) -> None:
        """Build the layers."""
        if self.embedding is None:
            tokenizer, class_names = self.require_text()
            self.embedding = NormalizedEmbedding(
                tokenizer.vocab_size, self.width, max_length=tokenizer.max_length, pairs=self.pairs
            )
            self.network = MeanNetwork(self.width, len(class_names))

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`: word plus position embeddings."""
        assert self.embedding is not None  # see `configure_model`
        tokens: Tensor = self.embedding(batch.input_ids, batch.segment_ids)
        return tokens


class Weather(TextDataModule):
    """Sentences about the weather, bad or good.

    Args:
        data_dir: folder DIR with `weather/<split>.tsv`: columns `text` and `label` (bad, good).
    """

    corpus = "weather"
    classes: ClassVar[tuple[str, ...]] = ("bad", "good")
    holdout = 0.1


class DoubledLetter(WordSwap):
    """Types one letter twice."""

    span = "typo"

    def replacements(self, word: str, random: Random) -> list[str]:
        """See `WordSwap`."""
        at = random.randrange(len(word))
        return [word[: at + 1] + word[at:]]


@recipe(refused=NO_COUNTERPART)
def double_letter(parts: RecipeParts) -> Attack:
    """Compose the attack: a doubled letter in each word, the most important words first."""
    return parts.attack(
        transformation=DoubledLetter(),
        search=Greedy(ranking="unk"),
        pre_constraints=parts.pre_constraints(),
        constraints=[],
    )
