"""A stand-in module and corpus, to run attacks and certification in Lightning's test loop.

Lightning starts processes, places modules and loads checkpoints only inside `fit`, `validate`,
`test` and `predict` (`Trainer._run` is private), and these call the steps of a LightningModule on
the batches of a dataloader.
"""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
from torch.utils.data import DataLoader

from datamodules import TextDataModule
from datamodules.labelled import Split
from lit_modules import TaskModule

_NEEDED: dict[Split, tuple[str, tuple[Split, ...]]] = {
    "train": ("fit", ("train", "validation")),
    "validation": ("validate", ("validation",)),
    "test": ("test", ("test",)),
}
"""The stage in which a corpus reads a split, and all splits of that stage."""


class StandIn(pl.LightningModule):
    """Takes the place of a classifier in a test run; weights and checkpoints are the classifier's.

    Args:
        classifier: classifier that it stands in for.

    Attributes:
        needs_labels: True if it can do nothing with samples without labels.
    """

    needs_labels = True

    def __init__(self, classifier: TaskModule) -> None:
        super().__init__()
        self.classifier = classifier

    def configure_model(self) -> None:
        """Let the classifier make its weights."""
        self.classifier.configure_model()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Let the classifier read its checkpoint."""
        self.classifier.on_load_checkpoint(checkpoint)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load the classifier's weights: checkpoints are its own."""
        return self.classifier.load_state_dict(state_dict, strict=strict, assign=assign)


class WholeSplit(pl.LightningDataModule):
    """Takes the place of a corpus: one step per process, which reads the whole split itself.

    Args:
        source: the corpus.
        split: the split.
    """

    def __init__(self, source: TextDataModule, split: Split) -> None:
        super().__init__()
        self.source, self.split = source, split

    @property
    def corpus(self) -> str:
        """Name of the corpus."""
        return self.source.corpus

    def prepare_data(self) -> None:
        """Fetch the split."""
        self.source.fetch(_NEEDED[self.split][1])

    def setup(self, stage: str | None = None) -> None:
        """Read the split."""
        del stage
        self.source.setup(_NEEDED[self.split][0])

    def test_dataloader(self) -> DataLoader[int]:
        """One step; its batch has no meaning."""
        return DataLoader([0], batch_size=None)  # type: ignore[arg-type] # a list will do
