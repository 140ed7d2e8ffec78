"""What the bits of a run depend on besides its settings, kept in its checkpoints."""

import functools
import logging
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from lit_modules import CheckpointError, read_checkpoint
from run_files.distributed import gather
from run_files.run_directory import RunDirectory
from training.control_groups import text_of

log = logging.getLogger(__name__)

Facts = dict[str, str | int | bool]

REMEDIES = {
    "threads": "OMP_NUM_THREADS={}",
    "processes": "--trainer.devices {}",
    "precision": "--trainer.precision {}",
    "deterministic": "--trainer.deterministic {}",
    "benchmark": "--trainer.benchmark {}",
    "kernels": "ATEN_CPU_CAPABILITY={}",
}
"""How a user gets a value back, for those that can be chosen."""

MOST_THREADS = 1024
"""Threads that a checkpoint may name."""


class Arithmetic(pl.Callback):
    """Warns where a run is resumed with another arithmetic, and so ends with other weights.

    A sum over another number of threads, or by another kernel, is rounded otherwise.
    """

    def __init__(self) -> None:
        self._trainer: pl.Trainer | None = None
        self._before: list[Facts] = []

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Note the trainer: states are stored without being given it."""
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """The facts of each process, in the order of ranks; all processes have to ask for them."""
        return {} if self._trainer is None else {"ranks": _all_facts(self._trainer)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the facts of the checkpoint, to compare them once the processes have met."""
        self._before = state_dict.get("ranks", [])

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compare, and warn in one line."""
        before, self._before = self._before, []
        # On all processes: they meet.
        now = _all_facts(trainer)
        if before and (changes := _changes(before, now)):
            log.warning(
                "resumed with another arithmetic (%s): the weights will differ in their last bits, "
                "and then more, from those of a run that was not interrupted (docs/reliability.md)",
                "; ".join(changes),
            )


def _all_facts(trainer: pl.Trainer) -> list[Facts]:
    return gather(trainer, [facts(str(trainer.precision), trainer.strategy.root_device)])


def facts(precision: str, device: torch.device) -> Facts:
    """Return what the bits of this process depend on: plain values by their names.

    Args:
        precision: of the trainer.
        device: where it computes.
    """
    on_gpu = device.type == "cuda"
    return {
        "threads": torch.get_num_threads(),
        "precision": precision,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "benchmark": torch.backends.cudnn.benchmark,
        "matrix products": torch.get_float32_matmul_precision(),
        "kernels": torch.backends.cpu.get_cpu_capability().lower(),
        "device": torch.cuda.get_device_name(device) if on_gpu else _processor(),
        "torch": str(torch.__version__),
    }


@functools.cache
def _processor() -> str:
    name = re.search(r"^model name\s*: (.*)$", text_of(Path("/proc/cpuinfo")), re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def _changes(before: list[Facts], now: list[Facts]) -> list[str]:
    """Return what differs on any process, each with how to get it back."""
    changes = []
    pairs = [(dict(old), dict(new)) for old, new in zip(before, now, strict=False)]
    if len(before) != len(now):
        pairs.insert(0, ({"processes": len(before)}, {"processes": len(now)}))
    for old, new in pairs:
        for name in old.keys() & new.keys():
            if old[name] != new[name]:
                remedy = REMEDIES.get(name)
                back = f", {remedy.format(old[name])} to repeat it" if remedy else ""
                changes.append(f"{name}: {new[name]}, before {old[name]}{back}")
    return list(dict.fromkeys(sorted(changes)))


def recorded_threads(run: RunDirectory) -> int | None:
    """Return with how many threads a run was trained; None where no checkpoint says so."""
    for path in (run.last, run.previous):
        try:
            callbacks: Mapping[str, Any] = read_checkpoint(path, lazily=True)["callbacks"]
            threads = callbacks[Arithmetic.__name__]["ranks"][0]["threads"]
        except (CheckpointError, OSError, LookupError, TypeError):
            continue
        # A foreign checkpoint could ask for any number.
        if type(threads) is int and 1 <= threads <= MOST_THREADS:
            return threads
    return None
