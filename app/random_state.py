"""Random numbers that go on where a checkpoint was written."""

import random
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch


class RandomState(pl.Callback):
    """Keeps the state of all generators in checkpoints, which Lightning does not.

    With it, a resumed run draws the same dropout masks as one that was not interrupted. The state
    is that of the first process; seeded alike, all have the same.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Numbers, lists and tensors only, which load without executing anything."""
        kind, keys, *rest = np.random.get_state()  # noqa: NPY002 (whoever uses it, it must go on)
        return {
            "python": random.getstate(),
            "numpy": [str(kind), np.asarray(keys).tolist(), *rest],
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until training begins: what is built before draws numbers, too."""
        self._loaded = state_dict

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Go on with the stored state."""
        state, self._loaded = self._loaded, None
        if state is None:
            return
        version, internal, gauss = state["python"]
        random.setstate((version, tuple(internal), gauss))
        kind, keys, *rest = state["numpy"]
        np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002 (the global generator is what is restored)
        torch.set_rng_state(state["torch"])
        if len(state["cuda"]) == torch.cuda.device_count() > 0:
            torch.cuda.set_rng_state_all(state["cuda"])
