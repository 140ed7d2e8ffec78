"""Loaders of packed blocks, from disk or streamed, in an order that a resumed run repeats."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from datamodules.batching.block_sampler import BlockSampler
from datamodules.batching.loaders import FixedBatches, make_loader
from datamodules.corpus import Corpus
from datamodules.packing.block_stream import BlockStream, StreamedBlocks, no_block
from datamodules.packing.blocks import Blocks, pack
from datamodules.packing.packed_text import PackedText, open_packed
from datamodules.packing.running_text_source import TextSource
from text import Batch, PretrainedTokenizer, Text, Tokenizer, check_range

if TYPE_CHECKING:
    from datasets import Dataset


class PackedCorpus(Corpus):
    """A corpus of texts without labels, whose batches are blocks of one length.

    Subclasses implement `_find`, which returns the source of the texts.

    Args:
        length: tokens of a sequence, [CLS] and [SEP] included.
        validation_share: one sequence in 1 / `validation_share`, rounded, validates, and is not
            trained on: the same ones for every seed and number of processes. 0 for none.
        streaming: write nothing to disk, and begin to train at once: read, pack and shuffle within
            a buffer during training. Every process reads all of the corpus in every epoch.
        shuffle_buffer: sequences in the buffer of `streaming`.
        limit_tokens: largest number of tokens that are used, from the beginning.
        cache_dir: folder for the packed blocks; in the cache of the `datasets` library if not
            given.
        num_workers: processes that assemble batches; blocks are packed before, so 0 is fast. With
            `streaming`, 1 or more: a thread reads and packs while the model computes.
        base: settings of `Corpus`.
    """

    def __init__(
        self,
        *,
        length: int = 128,
        validation_share: float = 0.05,
        streaming: bool = False,
        shuffle_buffer: int = 4096,
        limit_tokens: int | None = None,
        cache_dir: str | None = None,
        num_workers: int = 0,
        **base: Any,
    ) -> None:
        super().__init__(num_workers=num_workers, **base)
        check_range({"shuffle_buffer": shuffle_buffer, "limit_tokens": limit_tokens}, least=1)
        # [CLS], [SEP], and something between them.
        check_range({"length": length}, least=3)
        check_range({"validation_share": validation_share}, least=0, most=0.5)
        self.length = length
        self.validation_share = validation_share
        self.streaming, self.shuffle_buffer = streaming, shuffle_buffer
        self.limit_tokens = limit_tokens
        self.cache_dir = cache_dir
        self._source: TextSource | None = None
        self._packed: tuple[Tokenizer, Dataset, str] | None = None

    def setup(self, stage: str | None = None) -> None:
        del stage
        self._source = self._source or self._find()

    @abstractmethod
    def _find(self) -> TextSource:
        """Find the source of the texts."""

    @property
    def source(self) -> TextSource:
        """The source of the texts; before `setup`, a RuntimeError."""
        if self._source is None:
            msg = "got a corpus before setup, expected setup(stage) to be called first"
            raise RuntimeError(msg)
        return self._source

    def train_texts(self) -> Iterator[Text]:
        """Yield all texts: a vocabulary may include words of the blocks that validate."""
        return self.source.texts()

    @property
    def validation_interval(self) -> int:
        """One sequence in this number validates; 0 for none."""
        return round(1 / self.validation_share) if self.validation_share else 0

    def _pretrained(self) -> PretrainedTokenizer:
        if not isinstance(self.tokenizer, PretrainedTokenizer):
            kind = "no tokenizer" if self.tokenizer is None else type(self.tokenizer).__name__
            msg = f"got {kind}, expected a PretrainedTokenizer to be set before any loader"
            raise ValueError(msg)
        return self.tokenizer

    def _pack(self) -> Iterator[Blocks]:
        texts = self.source.texts()
        return pack(texts, self._pretrained(), self.length, limit_tokens=self.limit_tokens)

    def _blocks(self) -> "Dataset":
        """Return the blocks on disk, which the first loader opens or makes."""
        tokenizer = self._pretrained()
        if self._packed is None or self._packed[0] is not tokenizer:
            # `max_length` does not change the ids, and blocks are cut to `length`.
            state = {
                name: value for name, value in tokenizer.state().items() if name != "max_length"
            }
            dataset, description = open_packed(
                self._cache(),
                [self.source.key(), state, self.length, self.limit_tokens],
                self._pack(),
                length=self.length,
                vocab_size=tokenizer.vocab_size,
            )
            self._packed = (tokenizer, dataset, description["sha256"])
        return self._packed[1]

    def _cache(self) -> Path:
        from datasets import config

        default = Path(config.HF_DATASETS_CACHE) / "steadfast_running_text"
        return default if self.cache_dir is None else Path(self.cache_dir)

    def _loader(self, *, shuffle: bool) -> DataLoader[Batch]:
        self._pretrained()
        batch_size = self.batch_size if shuffle else self.eval_batch_size
        interval = self.validation_interval
        blocks = None if self.streaming else PackedText(self._blocks(), interval, not shuffle)
        if blocks is not None and len(blocks) == 0:
            raise no_block(shuffle)
        # `overfit_batches` repeats the first batches: a number of them, or a share.
        overfit = getattr(self.trainer, "overfit_batches", 0)
        order = self._next_order(shuffle=shuffle)
        first = order._replace(epoch=0, skip=0) if overfit else order
        sampler = (
            BlockSampler(len(blocks), batch_size, first)
            if blocks is not None
            else BlockStream(
                self._pack,
                batch_size,
                first,
                buffer=self.shuffle_buffer,
                interval=interval,
                ahead=self.num_workers > 0,
            )
        )
        few = islice(sampler, overfit if isinstance(overfit, int) else None)
        return make_loader(
            StreamedBlocks() if blocks is None else blocks,
            FixedBatches(list(few), order) if overfit else sampler,
            num_workers=self.num_workers if blocks is not None else 0,
            pin_memory=self.pin_memory,
            seed=self._seed(),
        )

    def train_dataloader(self) -> DataLoader[Batch]:
        return self._loader(shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        return self._loader(shuffle=False) if self.validation_interval else []

    def test_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        return self.val_dataloader()

    def _content(self) -> dict[str, str] | None:
        # A stream is never hashed: its digest is that of the names and sizes of its files.
        if self.streaming and self._source is not None:
            texts = [self._source.names(), self.limit_tokens]
            return {"texts": hashlib.sha256(json.dumps(texts).encode()).hexdigest()}
        return None if self._packed is None else {"blocks": self._packed[2]}

    def _order(self) -> dict[str, Any]:
        buffer = {"shuffle_buffer": self.shuffle_buffer} if self.streaming else {}
        share = {"validation_share": self.validation_share}
        return {**super()._order(), "length": self.length, **share, **buffer}
