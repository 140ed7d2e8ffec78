"""The figures of a test for each value of some columns of its file, see `TextFiles.slices`."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytorch_lightning as pl
from typing_extensions import override

from datamodules import TextDataModule
from datamodules.batching.examples import Example
from lit_modules import TaskModule
from lit_modules.shared.detection import find_positive
from run_files.distributed import gather_parts


class SliceFigures(pl.Callback):
    """Computes the `figures` of the slices of a corpus, in every process, at the end of a test."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self._predictions: dict[int, int] = {}

    @override
    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the predictions of one batch."""
        rows = zip(outputs["sample_ids"].tolist(), outputs["prediction"].tolist(), strict=True)
        self._predictions |= dict(rows)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Merge the predictions of all processes."""
        # A sample that fills up the last batch of a process is there twice.
        merged = {
            k: v for part in gather_parts(trainer, self._predictions) for k, v in part.items()
        }
        corpus = trainer.datamodule  # type: ignore[attr-defined] # set by a connector
        assert isinstance(corpus, TextDataModule)  # no other corpus has slices
        assert isinstance(pl_module, TaskModule)  # it classifies
        detector, (_, names) = pl_module.detector, pl_module.require_text()
        positive = None if detector is None else find_positive(detector.positive, names)
        self.figures = slice_figures(corpus.examples("test"), merged, positive)


def slice_figures(
    examples: Iterable[Example], predictions: Mapping[int, int], positive: int | None
) -> dict[str, float]:
    """Return the figures of each slice, by `COLUMN=VALUE/FIGURE`.

    `samples` and `accuracy`; of a detector also `positives`, `negatives` and, where there are some
    of these, `recall` and `false_alarms`. The samples without prediction do not count; `positive`
    is the class that a detector detects.
    """
    slices: dict[str, list[tuple[int, Any]]] = {}
    for example in examples:
        if example.sample_id in predictions:
            for name in example.slices:
                pair = (predictions[example.sample_id], example.label)
                slices.setdefault(name, []).append(pair)
    figures: dict[str, float] = {}
    for name, pairs in sorted(slices.items()):
        figures[f"{name}/samples"] = len(pairs)
        figures[f"{name}/accuracy"] = sum(made == label for made, label in pairs) / len(pairs)
        if positive is None:
            continue
        for part, share, of_class in (
            ("positives", "recall", True),
            ("negatives", "false_alarms", False),
        ):
            kept = [made == positive for made, label in pairs if (label == positive) is of_class]
            figures[f"{name}/{part}"] = len(kept)
            if kept:
                figures[f"{name}/{share}"] = sum(kept) / len(kept)
    return figures
