"""Continues the random numbers of a run from its checkpoint."""

import random
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from run_files.distributed import gather


class RandomState(pl.Callback):
    """Stores the state of all random generators of every process in checkpoints.

    With it, a resumed run draws the same dropout masks as one that was not interrupted.

    Args:
        allow_world_change: let a run resume with another number of processes; their random numbers
            then start again.
    """

    def __init__(self, *, allow_world_change: bool = False) -> None:
        self.allow_world_change = allow_world_change
        self._trainer: pl.Trainer | None = None
        self._stage = "fit"
        self._loaded: dict[str, Any] | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Keep the trainer, which the methods for states do not receive."""
        self._trainer, self._stage = trainer, stage

    def state_dict(self) -> dict[str, Any]:
        """Return one state per process, in the order of ranks; every process must call this."""
        mine = [current_state()]
        return {"ranks": mine if self._trainer is None else gather(self._trainer, mine)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until training begins: building the model draws numbers, too.

        Raises:
            ValueError: the checkpoint has another number of processes.
        """
        if self._stage != "fit":
            return  # an evaluation draws its own numbers, and may have another number of processes
        states = state_dict["ranks"]
        rank, world = 0, 1
        if self._trainer is not None:
            rank, world = self._trainer.global_rank, self._trainer.world_size
        if len(states) == world:
            self._loaded = states[rank]
        elif not self.allow_world_change:
            msg = (
                f"got a checkpoint of {len(states)} process(es), expected one of {world}: another "
                "number of processes draws other random numbers, so that the run would not be what "
                f"it would have been. Go on with {len(states)} (--trainer.devices, num_nodes), or "
                "accept that with --checkpoint.allow_world_change true and a --data.batch_size "
                "that keeps the product of the two"
            )
            raise ValueError(msg)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the stored state; in a new run, give each rank its own seed."""
        # All ranks begin with one seed, so that they create the same weights. In training they
        # need different dropout masks.
        state, self._loaded = self._loaded, None
        if state is not None:
            restore(state)
        elif trainer.global_rank > 0:
            # NumPy takes seeds of 32 bits; the factor keeps ranks apart from runs with near seeds.
            seed = (torch.initial_seed() + 1_000_003 * trainer.global_rank) % 2**32
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 (libraries draw from the global generator)
            torch.manual_seed(seed)


def current_state() -> dict[str, Any]:
    """Return the states of all generators of this process."""
    # Only numbers, lists and tensors: `weights_only` loads them without executing code.
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 (libraries draw from it)
    return {
        "python": random.getstate(),
        "numpy": [str(kind), np.asarray(keys).tolist(), *rest],
        "torch": torch.get_rng_state(),
        # Of this process's GPU; asking for all would occupy memory on all.
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def restore(state: dict[str, Any]) -> None:
    """Set all generators of this process to a state of `current_state`."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002 (the global generator is what is restored)
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
