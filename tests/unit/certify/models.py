"""Small models for certificates: tokens in, a network, and a short training for a large radius."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from certify import signed_margins
from layers import LipschitzClassifier, olsa_classifier
from layers.encoders import OLSALayers

F64 = torch.float64
RADIUS = 2.0
"""Of the ball that the tokens of a toy model are projected onto."""

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clip": {"value_clip": 0.7},
    "offsets": {"offset_heads": 1},
    "offsets-clip": {"offset_heads": 3, "value_clip": 0.7, "heads": 4},
    "feedforward": {"feedforward": True},
    "relu": {"activation": "relu"},
    "mean-norm": {"mean_norm": True},
    "paper-layers": {"bound": "paper"},
    "head-bias": {"head_bias": True},
    "newton-schulz": {"orthogonal": "newton_schulz"},
    "householder": {"orthogonal": "householder"},
    "qr": {"orthogonal": "qr"},
    "distance": {"attention": "l2"},
    "distance-kim": {"attention": "l2", "bound": "kim", "feedforward": True, "mean_norm": True},
    "everything": {
        "value_clip": 0.9,
        "offset_heads": 1,
        "feedforward": True,
        "mean_norm": True,
        "head_bias": True,
        "bound": "paper",
    },
}


class Tokens(NamedTuple):
    """A batch that is embedded already."""

    x: Tensor
    mask: Tensor


@dataclass
class Toy:
    """The least that can be certified."""

    network: nn.Module

    def embed(self, batch: Tokens) -> Tensor:
        return batch.x


def classifier(depth: int, *, classes: int = 3, seed: int = 0, **options: Any) -> Toy:
    """Random weights, mean-norm biases included; float64."""
    torch.manual_seed(seed)
    own = {name: options.pop(name) for name in ("heads", "head_bias") if name in options}
    width = options.pop("width", 8)
    layers = OLSALayers(**{"initial_alpha_1": 0.7, **options})
    network = olsa_classifier(
        width, classes, depth=depth, radius=RADIUS, layers=layers, **{"heads": 2, **own}
    ).double()
    for name, parameter in network.named_parameters():
        if name.endswith("norm.bias"):
            nn.init.normal_(parameter, std=0.2)
    return Toy(network)


def olsa(toy: Toy) -> LipschitzClassifier:
    assert isinstance(toy.network, LipschitzClassifier)
    return toy.network


def tokens(lengths: list[int], *, seed: int = 0, width: int = 8, outside: float = 1.3) -> Tokens:
    """Random tokens, some of them outside the ball, with rubbish in the padding."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(lengths), max(lengths), width, generator=generator, dtype=F64)
    norms = RADIUS * outside * torch.rand(x.shape[:2], generator=generator, dtype=F64)
    x = x / x.norm(dim=-1, keepdim=True) * norms.unsqueeze(-1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return Tokens(x, mask)


def train(toy: Toy, batch: Tokens, labels: Tensor, *, steps: int) -> None:
    """Ascend the margins: trained weights are where a certificate has to hold."""
    network = olsa(toy)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        margin = signed_margins(network(batch.x, batch.mask), labels, network.head.weight)
        optimizer.zero_grad()
        loss = torch.relu(2.0 - margin).mean()
        loss.backward()  # type: ignore[no-untyped-call] # torch's
        optimizer.step()
