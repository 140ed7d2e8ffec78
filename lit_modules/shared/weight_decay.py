"""Which weights decay: matrices do; biases, weights of norms, offsets and temperatures do not."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from torch.optim import Optimizer

log = logging.getLogger(__name__)

SPLIT_FROM = "split_from"
"""Key of a group of an optimiser: the number of the group that it equals but for the decay."""


def exempt_vectors(optimizer: Optimizer, stored: Sequence[int] | None = None) -> None:
    """Split the groups of an optimiser, so that only parameters of two or more dimensions decay.

    Decay keeps maps from growing. A bias, the weight of a norm, an offset or a temperature (one
    number, or one for each feature or layer) has no such reason to be near 0. BERT's released code
    exempts them (Devlin et al., 2019), and so does that of the papers here.

    Args:
        optimizer: new, before its first step. Groups without decay stay as they are.
        stored: `group_sizes` in the checkpoint that the run goes on from, if it does. Older
            versions did not split; a run that was begun so ends so, with the bits it had to have.
    """
    split = [
        (number, group, [p for p in group["params"] if p.ndim < 2])
        for number, group in enumerate(optimizer.param_groups)
        if group.get("weight_decay") and any(p.ndim < 2 for p in group["params"])
    ]
    if split and stored == group_sizes(optimizer.param_groups):
        log.info("this run was begun with weight decay on biases and norms, and goes on with it")
        return
    for number, group, exempt in split:
        if len(exempt) == len(group["params"]):
            group["weight_decay"] = 0.0
            continue
        group["params"] = [p for p in group["params"] if p.ndim >= 2]
        own = {**group, "params": exempt, "weight_decay": 0.0, SPLIT_FROM: number}
        optimizer.add_param_group(own)


def group_sizes(groups: Sequence[Mapping[str, Any]]) -> list[int]:
    """The number of parameters in each group of an optimiser, or of the state of one."""
    return [len(group["params"]) for group in groups]
