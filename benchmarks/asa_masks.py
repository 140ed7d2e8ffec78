"""Shares of a test split that a trained adversary masks, by layer, and how predictions move."""

import json
from collections.abc import Iterator
from itertools import islice
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor

import lit_modules
from app.runs import atomic
from app.training.join import join
from benchmarks.asa_runs import Folder, Run
from datamodules import TextDataModule
from layers.attention.masking.learnt_masks import Masks, RuleMasks
from layers.noise import row_seeds, sample_seeds
from lit_modules.shared.task_module import labels_of
from text import Batch

BATCH = 16
"""Samples that are passed together: few, as a multiple choice has several rows for each."""
DRAWS = 3
"""Of masks by chance."""


class Masked(NamedTuple):
    """Shares of the units that are masked, 0 to 1, by layer; and how far predictions move.

    Attributes:
        drawn: with the adversary's noise, as in training.
        likely: without: the units whose score is negative.
        divergence: D of the loss between the predictions without masks and with those drawn.
        chance: the same with as many units of each layer masked by chance (Bernoulli); an
            adversary that has learnt to choose moves predictions further.
        samples: over which these are means.
        limit: that was asked for.
    """

    drawn: list[float]
    likely: list[float]
    divergence: float
    chance: float
    samples: int
    limit: int


@torch.no_grad()
def masked(module: lit_modules.ASA, corpus: TextDataModule, *, limit: int) -> Masked:
    """Measures a module that is joined to a corpus.

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
    drawn: list[Tensor] = []
    likely: list[Tensor] = []
    own = chance = units = 0.0
    samples = 0
    for one in islice(loader, step // 2, None, step):
        assert isinstance(one, Batch)
        batch = one.to(module.device)
        noisy, quiet = (module.masks(batch, draw=draw) for draw in (True, False))
        assert noisy is not None  # the method asa
        assert quiet is not None
        clean = module(batch)
        own += _moved(module, batch, clean, noisy)
        _moved(module, batch, clean, quiet)
        chances = [_moved(module, batch, clean, masks) for masks in _by_chance(noisy, batch)]
        chance += mean(chances)
        units += float(module.task.units(labels_of(batch)).sum())
        samples += len(batch)
        drawn.append(1 - torch.stack(noisy.kept))
        likely.append(1 - torch.stack(quiet.kept))
    return Masked(
        drawn=torch.cat(drawn, dim=1).mean(dim=1).tolist(),
        likely=torch.cat(likely, dim=1).mean(dim=1).tolist(),
        divergence=own / units,
        chance=chance / units,
        samples=samples,
        limit=limit,
    )


def _moved(module: lit_modules.ASA, batch: Batch, clean: Tensor, masks: Masks) -> float:
    """Returns the sum of divergences of a batch's predictions with masks from those without."""
    with module.attention.masked(masks):
        biased = module(batch)
    return float(module.task.divergences(clean, biased, labels_of(batch)).sum())


def _by_chance(masks: Masks, batch: Batch) -> Iterator[RuleMasks]:
    """Yields masks of as many units of each layer, anywhere."""
    shares = masks.masked().tolist()
    for draw in range(DRAWS):
        seeds = row_seeds(sample_seeds(batch.sample_ids, seed=draw, epoch=0), batch.choices)
        yield RuleMasks("bernoulli", shares, real=batch.mask, seeds=seeds)


def of_run(folder: Folder, run: Run, corpus: TextDataModule | None, *, limit: int) -> Masked | None:
    """Measures a run; the figures are kept beside it for the same number of samples.

    Args:
        folder: of the run.
        run: of method asa.
        corpus: its own, set up to be tested on; None where nothing can be measured.
        limit: see `masked`.
    """
    path = folder.path / run.name / "masked.json"
    content = json.loads(path.read_text()) if path.is_file() else {}
    kept = Masked(**content) if content.keys() == set(Masked._fields) else None
    if corpus is None or (kept is not None and kept.limit == limit):
        return kept
    module = lit_modules.load(folder.checkpoint(run))
    assert isinstance(module, lit_modules.ASA)
    join(module, corpus)
    found = masked(module, corpus, limit=limit)
    atomic.write_text(path, json.dumps(found._asdict()) + "\n")
    return found
