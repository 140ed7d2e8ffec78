"""A method, a corpus, a recipe and a measurement outside of the project."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from torch import Tensor, nn

from attacks.composition import Attack
from attacks.outcome import Sample
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.search import Greedy
from attacks.transformations.word_swap import WordSwap
from datamodules import TextDataModule
from layers import NormalizedEmbedding
from lit_modules.shared.word_level import WordLevel
from measure.measurement import Record
from measure.text_measurement import TextMeasurement
from text import Batch, check_range


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


@dataclass(frozen=True, kw_only=True)
class ReversedWordsSettings:
    """Settings of `ReversedWords`.

    Attributes:
        group: words that are reversed together, neighbours of each other; all words if null.
    """

    group: int | None = None

    def __post_init__(self) -> None:
        """Check the size.

        Raises:
            ValueError: fewer than two words.
        """
        check_range({"--settings.group": self.group}, least=2)


class ReversedWords(TextMeasurement):
    """Accuracy on texts with their words in reverse order (Sinha et al., 2021, permute them).

    A model of bags of words predicts the same; one that reads the order need not.
    """

    name = "reversed-words"
    settings_class = ReversedWordsSettings

    def measure_batch(self, samples: Sequence[Sample]) -> Sequence[Record]:
        """See `TextMeasurement`."""
        texts = [sample.text for sample in samples]
        reverse = [
            self._reverse(text)
            if isinstance(text, str)
            else (self._reverse(text[0]), self._reverse(text[1]))
            for text in texts
        ]
        rows = zip(samples, self.predict(texts), reverse, self.predict(reverse), strict=True)
        return [
            {"sample_id": sample.sample_id, "text": sample.text, "label": sample.label}
            | {"prediction": clean, "reversed": text, "reversed_prediction": changed}
            for sample, clean, text, changed in rows
        ]

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return accuracies, and the share of equal predictions."""
        count = len(records)
        right = sum(record["prediction"] == record["label"] for record in records)
        still = sum(record["reversed_prediction"] == record["label"] for record in records)
        same = sum(record["reversed_prediction"] == record["prediction"] for record in records)
        return {
            "clean_accuracy": right / count,
            "accuracy": still / count,
            "same_prediction": same / count,
            "samples": float(count),
        }

    def _reverse(self, text: str) -> str:
        words = text.split()
        size = self.settings.group or max(1, len(words))
        groups = [words[start : start + size] for start in range(0, len(words), size)]
        return " ".join(word for group in groups for word in reversed(group))
