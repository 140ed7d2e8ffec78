"""An encoder of the representatives of words, and scores of the words themselves."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.backbones import BackboneClassifier
from layers.ngram_scores import NgramScores, ScoreSum


class ScoredEncoder(nn.Module):
    """Adds the logits of an encoder and the sum of the scores of words.

    The encoder reads one vector for each word, the mean of the pieces of its representative. So
    words with one representative are the same to it, and each word is one position.

    Args:
        encoder: reads embedded pieces.
        scores: of the words alone.
        pieces: most pieces of a word.
        normalised: divide the sum of the scores by the square root of the number of words.
        bound: the encoder's logits of two classes differ by less than this; None for any number.
    """

    def __init__(
        self,
        encoder: BackboneClassifier,
        scores: NgramScores,
        *,
        pieces: int,
        normalised: bool = True,
        bound: float | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.scores, self.bound = encoder, scores, bound
        self.sum = ScoreSum(normalised=normalised)
        self.pieces: Tensor
        self.register_buffer("pieces", torch.full((scores.size, pieces), -1))
        self.forms: Tensor
        self.register_buffer("forms", torch.arange(scores.size))
        self.start: Tensor
        self.register_buffer("start", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def set_words(self, pieces: Tensor, forms: Tensor, start: int) -> None:
        """Set what the encoder reads.

        Args:
            pieces: `[V, P]` ids of the pieces of each word, -1 after them.
            forms: `[V]` the representative of each word.
            start: id of the piece before a text.
        """
        self.pieces.copy_(pieces[forms])
        self.forms.copy_(forms)
        self.start.fill_(start)

    def embed(self, ids: Tensor) -> Tensor:
        """`[B, N]` ids to `[B, N, C + e]`: the scores and the vector of each word."""
        pieces = self.pieces[ids]
        real = (pieces >= 0).unsqueeze(-1)
        vectors = self.encoder.backbone.embed(pieces.clamp_min(0).flatten(1))
        vectors = vectors.view(*pieces.shape, -1) * real
        words = vectors.sum(dim=2) / real.sum(dim=2).clamp_min(1)
        scores: Tensor = self.scores(ids)
        return torch.cat([scores, words.to(scores.dtype)], dim=2)

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the logits `[B, C]` of the encoder, within the bound; arguments as `forward`."""
        return self.limit(self.encode_freely(x, mask))

    def encode_freely(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the logits `[B, C]` of the encoder without the bound; arguments as `forward`."""
        start = self.encoder.backbone.embed(self.start.expand(len(x), 1))
        words = torch.cat([start, x[..., self.scores.classes :].to(start.dtype)], dim=1)
        logits: Tensor = self.encoder(words, functional.pad(mask, (1, 0), value=True))
        return logits

    def limit(self, logits: Tensor) -> Tensor:
        """Return logits `[B, C]` of which no two differ by more than the bound."""
        if self.bound is None:
            return logits
        # From 0 on: a large number in all logits would round their differences.
        logits = logits - logits.amin(dim=1, keepdim=True)
        # All logits by one factor, so that their order stays; near 1 for small differences.
        width = (logits.amax(dim=1, keepdim=True) / self.bound).clamp_min(1e-6)
        return logits * (width.tanh() / width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, C + e]` embedded words and mask `[B, N]` to logits `[B, C]`."""
        total: Tensor = self.sum(x[..., : self.scores.classes], mask)
        return self.encode(x, mask) + total
