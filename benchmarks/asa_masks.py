"""How much of the attention a trained adversary masks on a test split, by layer."""

import json
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

import lit_modules
from app import atomic
from app.join import join
from benchmarks.asa_runs import Folder, Run
from datamodules import TextDataModule
from text import Batch

BATCH = 16
"""Samples that are passed together: few, as a multiple choice has several rows for each."""


class Masked(NamedTuple):
    """Shares of the units that are masked, 0 to 1, by layer.

    Attributes:
        drawn: with the adversary's noise, as in training.
        likely: without: the units whose score is negative.
        samples: over which they are means.
    """

    drawn: list[float]
    likely: list[float]
    samples: int


@torch.no_grad()
def masked(module: lit_modules.ASA, corpus: TextDataModule, *, limit: int) -> Masked:
    """Measure a module that is joined to a corpus.

    Args:
        module: in evaluation mode.
        corpus: with a test split.
        limit: samples, about, which are taken from among all lengths.
    """
    corpus.eval_batch_size = BATCH
    loader = corpus.test_dataloader()
    # Batches come by length; so each one of a few.
    total = -(-len(corpus.examples("test")) // BATCH)
    step = min(total, max(1, round(total * BATCH / limit)))
    seen: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    samples = 0
    for batch in islice(loader, step // 2, None, step):
        assert isinstance(batch, Batch)
        samples += len(batch)
        for draw, shares in seen.items():
            masks = module.masks(batch.to(module.device), draw=draw)
            assert masks is not None  # the method asa
            with module.attention.masked(masks):
                module(batch.to(module.device))
            shares.append(1 - torch.stack(masks.kept))
    drawn, likely = (torch.cat(shares, dim=1).mean(dim=1).tolist() for shares in seen.values())
    return Masked(drawn, likely, samples)


def of_run(folder: Folder, run: Run, corpus: TextDataModule | None, *, limit: int) -> Masked | None:
    """Of a run; measured once, and kept beside it.

    Args:
        folder: of the run.
        run: of method asa.
        corpus: its own, set up to be tested on; None where nothing can be measured.
        limit: see `masked`.
    """
    path: Path = folder.path / run.name / "masked.json"
    if path.is_file():
        return Masked(**json.loads(path.read_text()))
    if corpus is None:
        return None
    module = lit_modules.load(folder.checkpoint(run))
    assert isinstance(module, lit_modules.ASA)
    join(module, corpus)
    found = masked(module, corpus, limit=limit)
    atomic.write_text(path, json.dumps(found._asdict()) + "\n")
    return found
