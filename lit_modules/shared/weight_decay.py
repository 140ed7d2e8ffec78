"""Applies weight decay to matrices only: not to biases, norms, offsets or temperatures."""

from torch.optim import Optimizer

SPLIT_FROM = "split_from"
"""Key of a group without decay: the number of the group that it was split from."""


def exempt_vectors(optimizer: Optimizer) -> None:
    """Split the groups of an optimiser, so that only parameters of two or more dimensions decay.

    To be called before its first step. Groups without decay are not changed.
    """
    # Decay limits the size of maps. Biases, weights of norms, offsets and temperatures need not be
    # near 0. BERT's released code exempts them, and so does the code of the papers here.
    split = [
        (number, group, [p for p in group["params"] if p.ndim < 2])
        for number, group in enumerate(optimizer.param_groups)
        if group.get("weight_decay") and any(p.ndim < 2 for p in group["params"])
    ]
    for number, group, exempt in split:
        if len(exempt) == len(group["params"]):
            group["weight_decay"] = 0.0
            continue
        group["params"] = [p for p in group["params"] if p.ndim >= 2]
        own = {**group, "params": exempt, "weight_decay": 0.0, SPLIT_FROM: number}
        optimizer.add_param_group(own)
