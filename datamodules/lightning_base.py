"""The base class of `Corpus`: a LightningDataModule where the process may train.

A process that only predicts (`text.process_role`) reads splits without a Trainer.
"""

from typing import TYPE_CHECKING

from text import process_role

if TYPE_CHECKING or not process_role.predicts_only:
    from pytorch_lightning import LightningDataModule
else:

    class LightningDataModule:
        """A corpus without a Trainer."""

        trainer = None

        def save_hyperparameters(self, *, logger: bool) -> None:
            """Keep nothing: settings are stored by a fit."""


__all__ = ["LightningDataModule"]
