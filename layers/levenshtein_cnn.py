"""A convolution over characters whose output moves little when a character is edited."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from layers.norms import Norm


class LevenshteinCNN(nn.Module):
    """Convolutions without bias, ReLU, the sum over all windows, a linear head.

    The network of LipsLev (Abad Rocamora et al., 2025): embeddings have distances of at most 1 from
    each other and from 0, the norms of the matrices of a kernel sum to 1. So every edit of a
    character moves the sum, and each difference of two logits, by at most `edit_constant`.
    """

    def __init__(
        self,
        symbols: int,
        width: int,
        num_classes: int,
        *,
        embedding: int | None = None,
        kernel: int,
        depth: int,
        norm: Norm,
        bias: bool = True,
    ) -> None:
        """Build the layers.

        Args:
            symbols: number of ids; 0 is padding.
            width: of layers.
            num_classes: number of logits.
            embedding: width of embeddings; None for `width`.
            kernel: characters of a window of one layer.
            depth: number of convolutions.
            norm: of vectors, used for every distance.
            bias: add a bias to each logit.
        """
        super().__init__()
        embedding = width if embedding is None else embedding
        # Initial weights as in the authors' code. Their scale changes no output, as each part is
        # divided by its size, but it changes the effect of a learning rate.
        self.symbols = nn.Parameter(torch.randn(symbols - 1, embedding))
        widths = [embedding, *[width] * (depth - 1)]
        self.kernels = nn.ParameterList(
            torch.empty(kernel, width, size).uniform_(-1, 1) * (kernel * size) ** -0.5
            for size in widths
        )
        self.head = nn.Linear(width, num_classes, bias=bias)
        self.norm: Norm = norm

    @property
    def order(self) -> float:
        """The norm as torch has it."""
        return 2.0 if self.norm == "2" else torch.inf

    @property
    def dual(self) -> float:
        """The dual norm."""
        return 2.0 if self.norm == "2" else 1.0

    def embed(self, input_ids: Tensor) -> Tensor:
        """`[B, N]` ids to `[B, N, e]`; 0 at padding."""
        # Distances of at most 1, also from the zero vector of padding.
        table = self.symbols / self.spread()
        padded = torch.cat([torch.zeros_like(table[:1]), table])
        return functional.embedding(input_ids, padded)

    def spread(self) -> Tensor:
        """Return the largest distance of two embeddings, or of one from 0."""
        apart = (self.symbols.unsqueeze(1) - self.symbols).norm(self.order, dim=-1)
        return torch.maximum(apart.amax(), self.symbols.norm(self.order, dim=-1).amax())

    def rows(self) -> Tensor:
        """`[C, w]`: the head's weights; no two rows are further apart than 1, in the dual norm."""
        apart = self.head.weight.unsqueeze(1) - self.head.weight
        rows: Tensor = self.head.weight / apart.norm(self.dual, dim=-1).amax()
        return rows

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, N, e]` embedded characters with mask `[B, N]` to `[B, C]` logits."""
        return functional.linear(self.pooled(x, mask), self.rows(), self.head.bias)

    def pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, w]`: the sum over all windows."""
        windows = (x * mask.unsqueeze(-1)).mT
        for kernel in self.kernels:
            size = torch.linalg.matrix_norm(kernel, ord=self.order).sum()
            taps = (kernel / size).permute(1, 2, 0)
            # With these zeros around a text, every window with a character of it exists. A window
            # of zeros gives 0, so padding adds nothing to the sum.
            windows = functional.conv1d(windows, taps, padding=len(kernel) - 1).relu()
        return windows.sum(dim=2)


def joined(shares: list[Tensor]) -> Tensor:
    """`[W]`: the change of a window of all layers with the character at each of its W positions.

    Shares are, for each layer, the `[K]` norms of the matrices of its kernel.
    """
    product = torch.ones(1, dtype=torch.float64)
    for share in shares:
        # The product of two polynomials.
        product = functional.conv1d(
            product.view(1, 1, -1), share.flip(0).view(1, 1, -1), padding=len(share) - 1
        ).flatten()
    return product


def edit_constant(shares: Tensor, *, spread: float, size: float) -> float:
    """Return the most by which an edited character moves the sum over all windows.

    Proof: docs/certificates/baselines.md, section 5. Shares `[W]`: see `joined`; the spread is the
    largest distance of two embeddings, or of one from 0; the size the largest norm of one.
    """
    total = float(shares.sum())
    before = torch.cumsum(shares, 0)  # positions up to each one
    after = total - before + shares  # positions from each one on
    # Windows with the new character after the position `middle` are paired from the left, the
    # others from the right; the window with it at `middle` has no partner.
    costs = [
        float(after[middle + 1 :].sum() + before[:middle].sum()) for middle in range(len(shares))
    ]
    return max(spread * total, size * total + spread * min(costs))
