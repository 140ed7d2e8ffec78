"""Shares that the adversary of ASA masks, and how far its masks move predictions.

    python -m benchmarks.asa_masks --run runs/NAME ... [--data_dir DIR] [--samples 1000]

The runs are of method ASA with an adversary. Printed is the share of the units that it masks on
the test split, by layer (Figure 5 of the paper, which `--figure` draws); and the divergence of the
loss by its masks, and by as many masks by chance. An adversary that has learnt to choose
has a ratio well above 1, unless the encoder has learnt to bear the masks that it chooses.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor

import lit_modules
from benchmarks.command import command, save, table
from benchmarks.program_runs import load_run
from datamodules import TextDataModule
from layers.attention.masking.learnt_masks import Masks, RuleMasks
from layers.noise import row_seeds, sample_seeds
from lit_modules.shared.task_module import labels_of
from measure.attention.masking_figure import MaskedShares, masking_proportions
from text import Batch
from training.join import join

BATCH = 16
"""Samples that are passed together: few, as a multiple choice has several rows for each."""
DRAWS = 3
"""Of masks by chance."""


class MaskMeasurement(NamedTuple):
    """Shares of the units that are masked, 0 to 1, by layer; and how far predictions move.

    `drawn` with the adversary's noise, as in training; `likely` without: the units whose score is
    negative. `divergence` is D of the loss between the predictions without masks and with those
    drawn; `chance` the same with as many units of each layer masked by chance (Bernoulli).
    """

    drawn: list[float]
    likely: list[float]
    divergence: float
    chance: float
    samples: int


@torch.no_grad()
def measure_masks(
    module: lit_modules.ASA, corpus: TextDataModule, *, limit: int
) -> MaskMeasurement:
    """Measure a module in evaluation mode, on about `limit` samples from among all lengths."""
    corpus.eval_batch_size = BATCH
    loader = corpus.test_dataloader()
    # Batches come by length; so each one of a few.
    total = -(-len(corpus.examples("test")) // BATCH)
    # Each step-th batch, and at least one.
    step = min(total, max(1, round(total * BATCH / limit)))
    drawn: list[Tensor] = []
    likely: list[Tensor] = []
    own = chance = units = 0.0
    samples = 0
    for loaded in islice(loader, step // 2, None, step):
        assert isinstance(loaded, Batch)
        batch = loaded.to(module.device)
        # With the noise of training, and without: only negative scores are masked.
        noisy, quiet = (module.masks(batch, draw=draw) for draw in (True, False))
        assert noisy is not None  # the method asa
        assert quiet is not None
        clean = module(batch)
        own += _moved(module, batch, clean, noisy)
        _moved(module, batch, clean, quiet)
        chances = [_moved(module, batch, clean, masks) for masks in _by_chance(noisy, batch)]
        chance += mean(chances)
        # Divergences are sums over units: tokens for tagging, rows for classes.
        units += float(module.task.units(labels_of(batch)).sum())
        samples += len(batch)
        drawn.append(1 - torch.stack(noisy.kept))
        likely.append(1 - torch.stack(quiet.kept))
    return MaskMeasurement(
        drawn=torch.cat(drawn, dim=1).mean(dim=1).tolist(),
        likely=torch.cat(likely, dim=1).mean(dim=1).tolist(),
        divergence=own / units,
        chance=chance / units,
        samples=samples,
    )


def _moved(module: lit_modules.ASA, batch: Batch, clean: Tensor, masks: Masks) -> float:
    """Return the sum of divergences of a batch's predictions with masks from those without."""
    biased = module.masked_logits(batch, masks)
    return float(module.task.divergences(clean, biased, labels_of(batch)).sum())


def _by_chance(masks: Masks, batch: Batch) -> Iterator[RuleMasks]:
    """Yield masks of as many units of each layer, anywhere."""
    shares = masks.masked().tolist()
    for draw in range(DRAWS):
        seeds = row_seeds(sample_seeds(batch.sample_ids, seed=draw, epoch=0), batch.choices)
        yield RuleMasks("bernoulli", shares, real=batch.mask, seeds=seeds)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write and draw."""
    parser = command(__doc__, "data_dir", "out", "figure", "threads")
    parser.add_argument("--run", nargs="+", type=Path, required=True, help="run directories")
    parser.add_argument("--samples", type=int, default=1000, help="of the test split, about")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    measurements: dict[str, MaskMeasurement] = {}
    for run in options.run:
        model, corpus = load_run(run, options.data_dir)
        if not isinstance(model, lit_modules.ASA) or model.masking.settings.kind != "adversarial":
            parser.error(f"got {run}, expected runs of ASA with masking.kind adversarial")
        join(model, corpus)
        measurements[run.name] = measure_masks(model, corpus, limit=options.samples)
    depth = max(len(measurement.drawn) for measurement in measurements.values())
    rows = []
    for name, measurement in measurements.items():
        for noise, shares in (("drawn", measurement.drawn), ("none", measurement.likely)):
            layers = [f"{100 * share:.1f}" for share in shares]
            cells = [name, noise, *layers, *[""] * (depth - len(layers))]
            rows.append([*cells, f"{100 * mean(shares):.1f}", measurement.samples])
    numbers = [str(i + 1) for i in range(depth)]
    print(table(["run", "noise", *numbers, "mean, %", "samples"], rows))
    moves = [
        [
            name,
            f"{measurement.divergence:.4f}",
            f"{measurement.chance:.4f}",
            f"{measurement.divergence / measurement.chance:.2f}",
        ]
        for name, measurement in measurements.items()
    ]
    print(f"\n{table(['run', 'divergence', 'by chance', 'ratio'], moves)}")
    save(options.out, {name: measurement._asdict() for name, measurement in measurements.items()})
    if options.figure is not None:
        drawn = [
            MaskedShares(name=name, shares=[measurement.drawn])
            for name, measurement in measurements.items()
        ]
        masking_proportions(drawn, options.figure)


if __name__ == "__main__":
    main()
