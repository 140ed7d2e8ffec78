"""Stores hardware and library facts in checkpoints, since they change the last bits of a run."""

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
from training.control_groups import read_text

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
    """Warns when a run resumes with different arithmetic: its weights will differ."""

    def __init__(self) -> None:
        self._trainer: pl.Trainer | None = None
        self._before: list[Facts] = []

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Keep the trainer, which `state_dict` does not receive."""
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """Return the facts of each process, in the order of ranks; every process must call this."""
        return {} if self._trainer is None else {"ranks": _all_facts(self._trainer)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the facts of the checkpoint until the processes can compare them."""
        self._before = state_dict.get("ranks", [])

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Warn in one line if the facts differ, and if the precision only costs time."""
        before, self._before = self._before, []
        # A collective operation: all processes must reach this line.
        now = _all_facts(trainer)
        if before and (changes := _changes(before, now)):
            log.warning(
                "resumed with another arithmetic (%s): the weights will differ in their last bits, "
                "and then more, from those of a run that was not interrupted (docs/reliability.md)",
                "; ".join(changes),
            )
        on_cpu = trainer.strategy.root_device.type == "cpu"
        if on_cpu and str(trainer.precision).startswith("bf16") and not has_bf16():
            log.warning(
                "got --trainer.precision %s on a processor without instructions for bf16: torch "
                "emulates them, many times slower than --trainer.precision 32-true",
                trainer.precision,
            )


def has_bf16() -> bool:
    """Return True if the processor multiplies in bf16, or if torch cannot tell."""
    # Not in all versions that the bounds of pyproject.toml admit.
    read = getattr(torch.cpu, "get_capabilities", None)
    names = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")  # x86 and ARM
    return read is None or any(read().get(name, False) for name in names)


def _all_facts(trainer: pl.Trainer) -> list[Facts]:
    return gather(trainer, [facts(str(trainer.precision), trainer.strategy.root_device)])


def facts(precision: str, device: torch.device) -> Facts:
    """Return the facts that change the rounding of this process: plain values by their names."""
    on_gpu = device.type == "cuda"
    return {
        # Another number of threads sums in another order, which rounds differently.
        "threads": torch.get_num_threads(),
        "precision": precision,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        # cuDNN's benchmark picks the fastest kernel, which may be another one on every start.
        "benchmark": torch.backends.cudnn.benchmark,
        "matrix products": torch.get_float32_matmul_precision(),
        "kernels": torch.backends.cpu.get_cpu_capability().lower(),
        "device": torch.cuda.get_device_name(device) if on_gpu else _processor(),
        "torch": str(torch.__version__),
    }


@functools.cache
def _processor() -> str:
    # platform.processor() is empty or only "x86_64" on most Linux systems.
    name = re.search(r"^model name\s*: (.*)$", read_text(Path("/proc/cpuinfo")), re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def _changes(before: list[Facts], now: list[Facts]) -> list[str]:
    """Return the facts that differ on any process, each with the option that restores it."""
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
    """Return the number of threads of a training; None if no checkpoint has it."""
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
