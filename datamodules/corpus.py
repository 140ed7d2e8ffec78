"""What all corpora are to those who train on them, with labels or without."""

import os
from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl

from datamodules.loaders import resume_point
from text import Text, Tokenizer


class Corpus(pl.LightningDataModule):
    """Texts to train on, in batches whose order a resumed run repeats.

    A corpus is set up (files are found and read), is given a tokenizer, and then asked for loaders.
    Subclasses say which texts there are; `TextDataModule` is the one for texts with labels.

    Attributes:
        corpus: its name in results.
        tokenizer: makes token ids of texts; set by whoever joins the corpus to a module.
        seed: of the order of training batches; that of `seed_everything` if None.
        batch_size: training samples per batch and process.
    """

    corpus: str

    def __init__(self, *, batch_size: int, seed: int | None) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.seed = seed
        self.tokenizer: Tokenizer | None = None
        self._resume: dict[str, Any] | None = None

    def train_texts(self) -> Iterator[Text]:
        """The texts that a vocabulary is built from."""
        raise NotImplementedError

    def _seed(self) -> int:
        return int(os.environ.get("PL_GLOBAL_SEED", "0")) if self.seed is None else self.seed

    def _processes(self) -> tuple[int, int]:
        """How many processes train, and which of them this is."""
        trainer = self.trainer
        return (1, 0) if trainer is None else (trainer.world_size, trainer.global_rank)

    # Resuming inside an epoch

    def _content(self) -> dict[str, str] | None:
        """Digests of what is trained and validated on, by name; None before it is set up."""
        raise NotImplementedError

    def _order(self) -> dict[str, Any]:
        """What the training batches depend on, besides the epoch, and what chooses the best."""
        return {
            "global_batch": self.batch_size * self._processes()[0],
            "seed": self._seed(),
            **(self._content() or {}),
        }

    def _start(self) -> tuple[int, int]:
        """The epoch that the next training loader begins with, and how many batches of it are over.

        Raises:
            ValueError: the run that is resumed was trained with other batches.
        """
        if self._resume is None:
            return 0 if self.trainer is None else self.trainer.current_epoch, 0
        point, self._resume = resume_point(self._resume, self._order()), None
        return point

    def state_dict(self) -> dict[str, Any]:
        """Where training stands, so that a resumed run goes on with the next batch."""
        if self.trainer is None or self._content() is None:
            return {}
        progress = self.trainer.fit_loop.epoch_loop.batch_progress
        over = progress.is_last_batch
        return {
            "epoch": self.trainer.current_epoch + over,
            "consumed": 0 if over else progress.current.ready,
            **self._order(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._resume = dict(state_dict) or None
