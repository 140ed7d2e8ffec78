"""The base of all corpora, with labels or without."""

from abc import ABC
from collections.abc import Iterator
from typing import Any, Literal

from datamodules.batching.loaders import resume_point
from datamodules.batching.sampler import Order
from datamodules.lightning_base import LightningDataModule
from text import Text, Tokenizer, check_range
from text.run_seed import run_seed


class Corpus(LightningDataModule, ABC):
    """Texts to train on, in batches whose order a resumed run repeats.

    Use a corpus in three steps: `setup` finds and reads the files, a tokenizer is set, and then the
    loaders are available. Subclasses provide the texts; `TextDataModule` is for texts with labels.

    Args:
        data_dir: folder in which relative file names are looked up; the current one if not given.
        batch_size: training samples per batch and process.
        eval_batch_size: samples per batch and process in validation, test and prediction.
        num_workers: processes that assemble batches; samples are encoded before, so 0 is fast.
        pin_memory: keep batches in page-locked memory, which speeds up copies to a GPU.
        on_bad_row: rows that cannot be used (broken encoding, missing field, empty text, unknown
            label): `stop` the run naming them, or `skip` them and report how many.
        seed: seed of the order of training batches; that of `seed_everything` if not given.

    Attributes:
        corpus: name in results.
        tokenizer: encodes texts; set by the code that joins the corpus to a module.
    """

    corpus: str

    # On a command line these settings may come before the name of the corpus is parsed. So this
    # class, unlike the other bases, can be instantiated: it has no abstract methods.
    def __init__(
        self,
        *,
        data_dir: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        pin_memory: bool = False,
        on_bad_row: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
    ) -> None:
        super().__init__()
        # No logger: a setting with the name of a model's setting and another value is an error.
        self.save_hyperparameters(logger=False)
        check_range({"batch_size": batch_size, "eval_batch_size": eval_batch_size}, least=1)
        check_range({"num_workers": num_workers, "seed": seed}, least=0)
        self.data_dir = data_dir
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size
        self.num_workers, self.pin_memory = num_workers, pin_memory
        self.on_bad_row: Literal["stop", "skip"] = on_bad_row
        self.seed = seed
        self.tokenizer: Tokenizer | None = None
        self._resume: dict[str, Any] | None = None
        self._resumed_by: Any = None  # the trainer that the point of resuming is for

    def train_texts(self) -> Iterator[Text]:
        """Yield the texts that a vocabulary is built from."""
        # Subclasses implement it; see the comment on `__init__`.
        raise NotImplementedError

    def _seed(self) -> int:
        return run_seed() if self.seed is None else self.seed

    def _processes(self) -> tuple[int, int]:
        """Return the number of processes that train, and the rank of this one."""
        trainer = self.trainer
        return (1, 0) if trainer is None else (trainer.world_size, trainer.global_rank)

    # Resuming inside an epoch

    def _content(self) -> dict[str, str] | None:
        """Return digests of the training and validation data, by name; None before `setup`."""
        raise NotImplementedError

    def _order(self) -> dict[str, Any]:
        """Return all values, except the epoch, that determine the training batches."""
        return {
            # The product: a run of one process with 32 may resume on two processes with 16.
            "global_batch": self.batch_size * self._processes()[0],
            "seed": self._seed(),
            **(self._content() or {}),
        }

    def _start(self) -> tuple[int, int]:
        """Return the first epoch of the next training loader, and its completed batches."""
        epoch = 0 if self.trainer is None else self.trainer.current_epoch
        if self._resume is not None:
            point = resume_point(self._resume, self._order())
            # With `reload_dataloaders_every_n_epochs`, Lightning asks for two loaders before it
            # trains, for the first of them before it restores the epoch.
            if epoch <= point[0] and self.trainer is self._resumed_by:
                return point
            self._resume = None
        return epoch, 0

    def _next_order(self, *, shuffle: bool) -> Order:
        """Return the order of the batches of the next loader."""
        # Only training resumes within an epoch.
        epoch, skip = self._start() if shuffle else (0, 0)
        world, rank = self._processes()
        return Order(shuffle, self._seed(), epoch, skip, rank, world)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the training, so that a resumed run begins at the next batch."""
        if self.trainer is None or self._content() is None:
            return {}
        progress = self.trainer.fit_loop.epoch_loop.batch_progress
        # After the last batch, the next epoch begins; Lightning still has the old number.
        over = progress.is_last_batch
        return {
            "epoch": self.trainer.current_epoch + over,
            "consumed": 0 if over else progress.current.ready,
            **self._order(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._resume, self._resumed_by = dict(state_dict) or None, self.trainer
