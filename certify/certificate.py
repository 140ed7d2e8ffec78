"""Certified radii: how far the embedded text may move without changing the prediction."""

import copy
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from certify.around_text import Arguments, AroundText, Leads
from certify.lipschitz import encoder_bound, measure, rounding_of_sums
from certify.parts import check_holder, check_network, check_unwrapped
from layers.attention.bounds import BOUNDS, Bound
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.encoders import LipschitzClassifier
from layers.orthogonal import OrthogonalLinear

log = logging.getLogger(__name__)

CertifiedBound = Literal[Bound, "local"]
"""A formula of Lipschitz constants, or the sound one with what is known of the text (section 9)."""
CERTIFIED_BOUNDS: tuple[CertifiedBound, ...] = (*BOUNDS, "local")
LARGEST = 1e100
"""Entries of embeddings from which on their squares may overflow in float64."""


class Certifiable(Protocol):
    """A model that can be certified: `embed` maps a batch to tokens, `network` tokens to logits.

    Where it has an attribute `no_certificate` that is a sentence and not None, it gets none. Where
    it has `encode_texts`, texts can be certified as well.
    """

    @property
    def network(self) -> nn.Module:
        """The classifier from tokens `[B, N, d]` and mask `[B, N]` on."""

    def embed(self, batch: Any) -> Tensor:
        """Return `[B, N, d]` embedded tokens of a batch that has a `mask` `[B, N]`."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates of B samples.

    Attributes:
        prediction: `[B]` int64, the predicted class.
        margin: `[B]` float64, smallest difference of the predicted logit and another, less an
            allowance for rounding, over the norm of the difference of their head rows: the
            prediction's distance from the decision boundary in the pooled space.
        lipschitz: `[B]` float64, bound on the Lipschitz constant from tokens to pooled vector;
            infinite where there is none. For `local` that of the ball of this radius.
        radius: `[B]` float64, margin / lipschitz; 0 without a certificate, for tied logits, and
            where a number is not finite. For `sound` and `local` bounds: no X' with
            ||X' - X||_F < radius has another prediction.
        bound: name of the bound.
        reason: why no certificate exists, and every radius is 0; None where one exists.
    """

    prediction: Tensor
    margin: Tensor
    lipschitz: Tensor
    radius: Tensor
    bound: CertifiedBound
    reason: str | None = None


class Certifier:
    """Certifies batches of one model: everything that does not depend on the input is done once."""

    def __init__(self, module: Certifiable, bound: CertifiedBound = "sound") -> None:
        """Measure the model's weights.

        The certificate is about the network with the weights that `module` uses in evaluation
        mode (orthogonal matrices bit for bit), run in float64 (`classify`); the module itself is
        not changed.

        Args:
            module: a classifier. Without a `LipschitzClassifier` as its network it gets radius 0;
                the reason is logged, and part of the result.
            bound: which formula; `paper` is for reproduction only and not a guarantee. `kim` is
                Theorem 3.2 of Kim et al. as its proof gives it, for tied L2 attention only. `local`
                is never less than `sound`: it knows the attention and the pairs of features around
                each text.

        Raises:
            ValueError: unknown bound, weights of reduced precision, or a network that the theorem
                is not about: other classes, hooks, methods of an instance's own, a compiled or
                wrapped one.
        """
        if bound not in CERTIFIED_BOUNDS:
            msg = f"got bound={bound!r}, expected one of {', '.join(CERTIFIED_BOUNDS)}"
            raise ValueError(msg)
        check_unwrapped(module)
        check_unwrapped(module.network)
        for name, parameter in module.network.named_parameters():
            if parameter.dtype not in (torch.float32, torch.float64):
                msg = (
                    f"got weights of reduced precision ({name} is {parameter.dtype}), expected "
                    "float32 or float64: train with precision 32-true or 16/bf16-mixed"
                )
                raise ValueError(msg)
        self.module, self.bound = module, bound
        self.network: LipschitzClassifier | None = None
        network = module.network
        self.reason: str | None = getattr(module, "no_certificate", None)
        if self.reason is None and not isinstance(network, LipschitzClassifier):
            self.reason = f"a {type(network).__name__} is no LipschitzClassifier"
        if self.reason is not None:
            log.warning("every radius is 0: %s", self.reason)
        elif isinstance(network, LipschitzClassifier):
            self._check()
            _check_bound(network, bound)
            self.network = in_float64(network)
            self.norms = measure(self.network)
            self.around = AroundText(self.network, self.norms) if bound == "local" else None

    def _check(self) -> None:
        check_holder(self.module, self.module.network)
        check_network(self.module.network)

    @torch.no_grad()
    def __call__(self, batch: Any) -> Certificates:
        """Certify one batch on the module's device, or texts, as `module.encode_texts` takes them.

        A batch has `mask` `[B, N]` and the inputs of `module.embed`.

        Raises:
            ValueError: called under autocast, or the module embeds in reduced precision, or has
                been changed so that the theorem does not cover it any more.
        """
        if self.network is not None:
            self._check()
        with evaluating(self.module):
            if not hasattr(batch, "mask"):
                batch = _encoded(self.module, batch)
            x, mask = self.module.embed(batch), batch.mask
            _check_precision(x)
            if self.network is None:
                prediction, margin = margins(self.module.network(x, mask).to(torch.float64), None)
                nothing = torch.full_like(margin, torch.inf), torch.zeros_like(margin)
                return Certificates(prediction, margin, *nothing, self.bound, self.reason)
        head = self.network.head
        listening: AbstractContextManager[Arguments] = nullcontext({})
        if self.around is not None:
            listening = self.around.listening()
        with listening as arguments:
            logits = self.classify(x, mask)
        prediction = logits.argmax(dim=1)
        lengths = mask.sum(dim=1).to(torch.float64)
        formula = "sound" if self.bound == "local" else self.bound
        proven = encoder_bound(self.network, self.norms, lengths, bound=formula)
        # Of a difference of two logits, here and at the other point of the ball.
        gamma, longest = rounding_of_sums(head.in_features, lengths), head.weight.norm(dim=1).amax()
        # docs/certificates.md, "The rounding of the float64 pass".
        allowance = 4 * longest * (proven.rounding + gamma * proven.norm)
        if head.bias is not None:
            allowance = allowance + 4 * gamma * head.bias.abs().amax()
        raised = _raise_others(logits, prediction, allowance)
        margin = signed_margins(raised, prediction, head.weight)
        # An overflow gives NaN, which compares with nothing: with infinity the radius is 0.
        lipschitz = proven.lipschitz.nan_to_num(nan=torch.inf)
        radius = margin / lipschitz
        if self.around is not None:
            leads = raised.gather(1, prediction.unsqueeze(1)) - raised
            nearer = self.around.radius(arguments, mask, Leads(prediction, leads, margin), proven)
            # A tied prediction has no radius with either bound.
            longer = (nearer > radius) & (margin > 0)
            radius = torch.where(longer, nearer, radius)
            lipschitz = torch.where(longer, margin / nearer, lipschitz)
        # Squares of larger entries overflow, and then nothing is proven.
        sized = x.masked_fill(~mask.unsqueeze(-1), 0.0).abs().amax(dim=(1, 2)) < LARGEST
        certain = (radius > 0) & radius.isfinite() & logits.isfinite().all(dim=1) & sized
        radius = torch.where(certain, radius, torch.zeros_like(radius))
        return Certificates(prediction, margin, lipschitz, radius, self.bound)

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, C]` logits of the float64 pass, which certificates are about."""
        if self.network is None:
            msg = "got classify() of a model without certificate, expected its own classify()"
            raise ValueError(msg)
        logits: Tensor = self.network(x.to(torch.float64), mask)
        return logits


def certify(module: Certifiable, batch: Any, bound: CertifiedBound = "sound") -> Certificates:
    """Return the certificates of one batch; for many batches make a `Certifier` once.

    The batch is as in `Certifier.__call__`.
    """
    return Certifier(module, bound)(batch)


def margins(logits: Tensor, head: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return `[B]` predictions and their distances from the decision boundary of a linear head.

    With logits `[B, C]` and a head `[C, d]` that is min over j of (z_y - z_j) / ||w_y - w_j||,
    without a head the plain margin. |z_i - z_j| changes by at most ||w_i - w_j|| per unit that the
    pooled vector moves, which is exact for a linear head and never more than sqrt(2) ||W||; biases
    cancel.
    """
    prediction = logits.argmax(dim=1)
    return prediction, signed_margins(logits, prediction, head)


def signed_margins(logits: Tensor, labels: Tensor, head: Tensor | None) -> Tensor:
    """Return `[B]` least (z_y - z_j) / ||w_y - w_j|| over j != y; negative unless y is predicted.

    It is differentiable in logits `[B, C]` and head `[C, d]`; None for plain differences.
    """
    gaps = logits.gather(1, labels.unsqueeze(1)) - logits
    if head is not None:
        rows = head[labels].unsqueeze(1) - head.unsqueeze(0)
        # The row of y itself is zero; its gap is dropped below.
        norms = rows.square().sum(dim=-1).clamp_min(torch.finfo(rows.dtype).tiny).sqrt()
        gaps = gaps / norms
    # The gap of y to itself is 0 and must not be the minimum.
    own = torch.zeros_like(gaps, dtype=torch.bool).scatter(1, labels.unsqueeze(1), value=True)
    return gaps.masked_fill(own, torch.inf).amin(dim=1)


def _check_precision(x: Tensor) -> None:
    """Raise ValueError for embeddings `[B, N, d]` of reduced precision."""
    full = x.dtype in (torch.float32, torch.float64)
    if torch.is_autocast_enabled(x.device.type) or not full:
        msg = (
            f"got {x.dtype} embeddings or an active autocast, expected full precision: certify "
            "with --trainer.precision 32-true (or 64-true)"
        )
        raise ValueError(msg)


def _raise_others(logits: Tensor, prediction: Tensor, allowance: Tensor) -> Tensor:
    """Return logits `[B, C]` with the rounding error added for every class but the predicted one.

    Rounding moves a logit in proportion to its head row and not to itself: of two nearly equal,
    long rows the difference of the logits may be nothing but rounding. The allowance `[B]` is the
    error of a difference of logits.
    """
    chosen = prediction.unsqueeze(1)
    raised: Tensor = (logits + allowance[:, None]).scatter(1, chosen, logits.gather(1, chosen))
    return raised


def _check_bound(network: LipschitzClassifier, bound: CertifiedBound) -> None:
    additive = [
        path
        for path, part in network.named_modules()
        if isinstance(part, OneLipschitzSelfAttention)
    ]
    if bound == "kim" and additive:
        msg = (
            f"got bound=kim for a network with additive attention as {additive[0]}, expected tied "
            "L2 attention (layers.attention=l2), which Theorem 3.2 of Kim et al. is about; ask for "
            "sound"
        )
        raise ValueError(msg)


def in_float64(network: LipschitzClassifier) -> LipschitzClassifier:
    """Return a float64 copy in evaluation mode, with the orthogonal matrices of the float32 pass.

    Orthogonalising again in float64 would give slightly other matrices than the model's own.
    """
    matrices = [
        layer.weight().detach()
        for layer in network.modules()
        if isinstance(layer, OrthogonalLinear)
    ]
    double = copy.deepcopy(network).to(torch.float64).eval().requires_grad_(requires_grad=False)
    layers = [layer for layer in double.modules() if isinstance(layer, OrthogonalLinear)]
    for layer, matrix in zip(layers, matrices, strict=True):
        layer.fix(matrix.to(torch.float64))
    return double


@contextmanager
def evaluating(module: object) -> Iterator[None]:
    """Set evaluation mode inside the block, if the module has modes; then restore each part's."""
    modes = (
        {part: part.training for part in module.modules()} if isinstance(module, nn.Module) else {}
    )
    try:
        for part in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _encoded(module: Certifiable, texts: object) -> Any:
    """Return the batch of the texts of a caller."""
    encode = getattr(module, "encode_texts", None)
    if encode is None:
        msg = (
            f"got a {type(texts).__name__} to certify with {type(module).__name__}, which encodes "
            "no texts, expected a batch with a mask"
        )
        raise ValueError(msg)
    return encode(texts)
