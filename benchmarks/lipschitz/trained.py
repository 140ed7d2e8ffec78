"""Attentions of trained models, named `run:NAME`."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from attacks.fingerprint import weights_digest
from layers.attention.headed import HeadedAttention
from layers.attention.l2 import L2Attention
from layers.attention.scaled_dot_product import SelfAttention
from layers.decoder import CausalAttention
from lit_modules import load_module
from run_files.run_directory import RunDirectory

PREFIX = "run:"


def is_trained(kind: str) -> bool:
    """Return whether a kind names a run."""
    return kind.startswith(PREFIX)


def digests(kinds: Sequence[str], runs_dir: str) -> dict[str, str]:
    """Return the digest of the weights of each kind that names a run, wherever the run is."""
    return {kind: weights_digest(first(kind, runs_dir)) for kind in kinds if is_trained(kind)}


def attention(kind: str, runs_dir: str, *, width: int, heads: int) -> HeadedAttention:
    """Load the first self-attention of the model of `run:NAME`, as one that sees all tokens.

    Raises:
        ValueError: the run has no checkpoint, its model no such attention, or one of another size.
    """
    layer = first(kind, runs_dir)
    sizes = (layer.output.out_features, layer.heads)
    if sizes != (width, heads):
        msg = (
            f"got width={width} and heads={heads} for {kind}, whose attention has {sizes[0]} and "
            f"{sizes[1]}; give --width {sizes[0]} --heads {sizes[1]}"
        )
        raise ValueError(msg)
    return layer


# Loaded once: digests and all points need the same layer.
@cache
def first(kind: str, runs_dir: str) -> HeadedAttention:
    """Load the first self-attention of a run's model, without its causal mask."""
    run = RunDirectory(Path(runs_dir) / kind.removeprefix(PREFIX))
    if not run.best.is_file():
        msg = f"got {kind}, expected the name of a run with {run.best}; `runs` lists all runs"
        raise ValueError(msg)
    layers = (m for m in load_module(run.best).modules() if isinstance(m, HeadedAttention))
    layer = next(layers, None)
    if layer is None:
        msg = f"got {kind}, whose model has no multi-head self-attention, expected one with it"
        raise ValueError(msg)
    # The proof of Theorem 3.1 is about attentions that see all tokens.
    if isinstance(layer, L2Attention):
        layer.causal = False
    elif isinstance(layer, CausalAttention):
        unmasked = SelfAttention(layer.output.out_features, layer.heads)
        unmasked.load_state_dict(layer.state_dict())
        layer = unmasked
    return layer.requires_grad_(requires_grad=False)
