"""A stand-in module, to run certification in Lightning's test loop.

Lightning starts processes, places modules and loads checkpoints only inside `fit`, `validate`,
`test` and `predict` (`Trainer._run` is private), and these call the steps of a LightningModule on
the batches of a dataloader.
"""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl

from lit_modules import TaskModule


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
