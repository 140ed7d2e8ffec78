"""Fits a small UniBERT with one process or two, and keeps the weights of each.

Run as `python -m tests.integration.unitary_ranks FOLDER PROCESSES`, or by `fits`. In the fit `same`
all processes see the same batches, so that the mean of their gradients is the gradient of one of
them, bit for bit; in the fit `own` each sees its own.
"""

import sys
from pathlib import Path
from typing import Any

import torch

from tests.unit.lit_modules.builders import SINGLE, attached, loader, trainer
from tests.unit.lit_modules.shared.unitary_models import unibert


def fit(folder: Path, *, processes: int, share: bool) -> None:
    """Fit, and write the weights to FOLDER/(same|own)-PROCESSES-RANK.pt."""
    torch.manual_seed(0)
    module = attached(unibert(dropout=0.0, backbone_dropout=0.0), classes=2)
    settings: dict[str, Any] = {"devices": processes}
    if processes > 1:
        settings["strategy"] = "ddp"
    run = trainer(
        max_steps=6, max_epochs=3, limit_val_batches=0, use_distributed_sampler=False, **settings
    )
    rank = run.global_rank
    texts = SINGLE if share else SINGLE[3 * rank : 3 * rank + 3]
    batches = loader(module, texts, 2, classes=2)
    run.fit(module.train(), batches, batches)
    name = f"{'same' if share else 'own'}-{processes}-{rank}.pt"
    torch.save(module.state_dict(), folder / name)


def fits(folder: Path, processes: int) -> None:
    """Both fits."""
    for share in (True, False):
        fit(folder, processes=processes, share=share)


def entry() -> None:
    """Both fits, as a program."""
    fits(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    entry()
