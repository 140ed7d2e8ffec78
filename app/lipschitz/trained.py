"""Attentions of trained models, named `run:NAME`."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from app.runs.run_directory import RunDirectory
from attacks.fingerprint import weights_digest
from layers.attention.headed import HeadedAttention
from layers.attention.l2 import L2Attention
from layers.attention.scaled_dot_product import SelfAttention
from layers.decoder import CausalAttention
from lit_modules import load_module

PREFIX = "run:"


def is_trained(kind: str) -> bool:
    """Returns whether a kind names a run."""
    return kind.startswith(PREFIX)


def attention(kind: str, runs_dir: str, *, width: int, heads: int) -> HeadedAttention:
    """Loads the first self-attention of a run's model, as one that sees all tokens.

    Args:
        kind: `run:NAME`.
        runs_dir: directory of all runs.
        width: that of a token.
        heads: those of the attention.

    Raises:
        ValueError: the run has no checkpoint, its model no such attention, or one of another size.
    """
    layer = first(kind, runs_dir)
    found = (layer.output.out_features, layer.heads)
    if found != (width, heads):
        msg = (
            f"got width={width} and heads={heads} for {kind}, whose attention has {found[0]} and "
            f"{found[1]}; give --width {found[0]} --heads {found[1]}"
        )
        raise ValueError(msg)
    return layer


def digests(kinds: Sequence[str], runs_dir: str) -> dict[str, str]:
    """Returns the digest of the weights of each kind that names a run."""
    return {kind: weights_digest(first(kind, runs_dir)) for kind in kinds if is_trained(kind)}


@cache
def first(kind: str, runs_dir: str) -> HeadedAttention:
    """Loads the first self-attention of a run's model, once."""
    run = RunDirectory(Path(runs_dir) / kind.removeprefix(PREFIX))
    if not run.best.is_file():
        msg = f"got {kind}, expected the name of a run with {run.best}; `runs` lists all runs"
        raise ValueError(msg)
    layers = (m for m in load_module(run.best).modules() if isinstance(m, HeadedAttention))
    layer = next(layers, None)
    if layer is None:
        msg = f"got {kind}, whose model has no multi-head self-attention, expected one with it"
        raise ValueError(msg)
    return _all_seeing(layer).requires_grad_(requires_grad=False)


def _all_seeing(layer: HeadedAttention) -> HeadedAttention:
    """The same weights without the causal mask, as in the proof of Theorem 3.1."""
    if isinstance(layer, L2Attention):
        layer.causal = False
    if isinstance(layer, CausalAttention):
        seeing = SelfAttention(layer.output.out_features, layer.heads)
        seeing.load_state_dict(layer.state_dict())
        return seeing
    return layer


def described(settings: Mapping[str, Any], kinds: Sequence[str], runs_dir: str) -> dict[str, Any]:
    """Returns all that a figure depends on: the weights of a run count, and not where it lies.

    Args:
        settings: of the figure.
        kinds: its attentions.
        runs_dir: directory of all runs.
    """
    about = {name: value for name, value in settings.items() if name != "runs_dir"}
    found = digests(kinds, runs_dir)
    return about | ({"weights": found} if found else {})
