"""Token embeddings: words and positions, normalised or plain."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from text import check_choice, check_range

Positions = Literal["learned", "sinusoidal", "none"]


@dataclass(frozen=True, kw_only=True)
class WordEmbedding:
    """The settings of the embedding of words.

    Attributes:
        kind: sum of word and position. normalized: each is scaled to embedding_norm first; plain:
            scale * word + position (Vaswani et al., 2017).
        positions: learned, sinusoidal (Vaswani et al., section 3.5), or none.
        vectors: text file of initial word vectors: GloVe, word2vec, .gz too. Its words are the
            vocabulary. null: random vectors for the words of the training split.
        frozen: do not train the vectors of the file.
        scale: factor of the words in plain; null: sqrt(width), or 1 for vectors of a file.
    """

    kind: Literal["normalized", "plain"] = "normalized"
    positions: Positions = "learned"
    vectors: str | None = None
    frozen: bool = False
    scale: float | None = None

    def __post_init__(self) -> None:
        """Raise a ValueError for an unknown choice, a scale of 0 or less, or nothing to freeze."""
        check_choice("embedding.kind", self.kind, ("normalized", "plain"))
        check_choice("embedding.positions", self.positions, get_args(Positions))
        check_range({"embedding.scale": self.scale}, above=0)
        if self.frozen and self.vectors is None:
            msg = (
                "got embedding.frozen without embedding.vectors, expected a file of word vectors: "
                "random ones are no use unless they are trained"
            )
            raise ValueError(msg)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        return {"scale": "embedding.kind=normalized"} if self.kind == "normalized" else {}


class TokenEmbedding(nn.Module):
    """The tables of words, positions and segments; a subclass adds them."""

    def __init__(
        self,
        vocab_size: int,
        width: int,
        *,
        max_length: int,
        pairs: bool = False,
        positions: Positions = "learned",
    ) -> None:
        """Draw normal embeddings for texts of at most `max_length` tokens.

        `pairs` adds a segment embedding to the position's.
        """
        super().__init__()
        self.max_length, self.kind = max_length, positions
        self.words = nn.Embedding(vocab_size, width)
        self.positions = nn.Embedding(max_length, width) if positions == "learned" else None
        self.segments = nn.Embedding(2, width) if pairs else None
        if positions == "sinusoidal":
            self.waves: Tensor
            # Not in checkpoints: it follows from the settings.
            self.register_buffer("waves", sinusoids(max_length, width), persistent=False)
        # Norms near 1: only directions matter for normalised embeddings, and a step of length s
        # turns a vector of norm n by s / n.
        for table in (self.words, self.positions, self.segments):
            if table is not None:
                nn.init.normal_(table.weight, std=width**-0.5)

    def position_vectors(self, input_ids: Tensor, segment_ids: Tensor | None) -> Tensor | None:
        """Return the sums of position and segment, `[N, d]` or `[B, N, d]`; None without either.

        Raises:
            ValueError: more tokens than positions, or segments missing.
        """
        length = input_ids.shape[1]
        if length > self.max_length:
            msg = f"got {length} tokens, expected at most max_length={self.max_length}; truncate"
            raise ValueError(msg)
        position: Tensor | None = None
        if self.positions is not None:
            position = self.positions(torch.arange(length, device=input_ids.device))
        elif self.kind == "sinusoidal":
            position = self.waves[:length]
        if self.segments is None:
            return position
        if segment_ids is None:
            msg = "got a batch without segment ids, expected pairs (the model was made for them)"
            raise ValueError(msg)
        segments: Tensor = self.segments(segment_ids)
        return segments if position is None else position + segments


class NormalizedEmbedding(TokenEmbedding):
    """Word embedding plus position (and segment) embedding, each scaled to a fixed norm.

    Every token is then in the ball of radius `2 * norm` (OLSA paper, section 5.1: norm 2 each).
    """

    def __init__(self, vocab_size: int, width: int, *, norm: float = 2.0, **base: Any) -> None:
        """Draw normal embeddings; the word has norm `norm`, and so has position plus segment."""
        super().__init__(vocab_size, width, **base)
        self.norm = norm

    @property
    def radius(self) -> float:
        """Largest possible norm of an embedded token."""
        return self.norm if self.kind == "none" and self.segments is None else 2 * self.norm

    def forward(self, input_ids: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """Embed tokens `[B, N]` as `[B, N, d]`; a layer made for pairs needs segments `[B, N]`.

        Raises:
            ValueError: more tokens than positions, or segments missing.
        """
        position = self.position_vectors(input_ids, segment_ids)
        words = functional.normalize(self.words(input_ids), dim=-1)
        if position is None:
            return self.norm * words
        return self.norm * (words + functional.normalize(position, dim=-1))


class PlainEmbedding(TokenEmbedding):
    """`scale * word + position` (+ segment): Vaswani et al., 2017, sections 3.4 and 3.5."""

    def __init__(
        self,
        vocab_size: int,
        width: int,
        *,
        positions: Positions = "sinusoidal",
        scale: float | None = None,
        **base: Any,
    ) -> None:
        """Draw normal embeddings, of norms near 1; the rest: see `TokenEmbedding`.

        Learned positions are scaled as the words are. `scale` is the factor of the words; None:
        sqrt(width).
        """
        super().__init__(vocab_size, width, positions=positions, **base)
        self.scale = width**0.5 if scale is None else scale

    def forward(self, input_ids: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """`[B, N]` ids to `[B, N, d]`; see `NormalizedEmbedding`."""
        position = self.position_vectors(input_ids, segment_ids)
        words: Tensor = self.scale * self.words(input_ids)
        return words if position is None else words + position


def sinusoids(length: int, width: int) -> Tensor:
    """`[length, width]`: sines and cosines of the position (Vaswani et al., 2017, section 3.5)."""
    # Feature 2i of position p is sin(p / 10000^(2i / width)), feature 2i + 1 its cosine.
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10_000 ** (even / width)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
    return waves.to(torch.get_default_dtype())
