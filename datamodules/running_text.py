"""Text without labels, to pre-train encoders on."""

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import DataLoader

from datamodules.block_sampler import BlockSampler, Order
from datamodules.block_stream import Arrived, BlockStream
from datamodules.corpus import Corpus
from datamodules.loaders import FixedBatches, make_loader
from datamodules.packed_text import PackedText, open_packed
from datamodules.packing import Blocks, pack
from datamodules.running_text_source import FileTexts, HubTexts, Source, find_files
from text import Batch, PretrainedTokenizer, Text, Tokenizer

if TYPE_CHECKING:
    from datasets import Dataset


class RunningText(Corpus):
    """Running text from files or from the hub, packed into sequences of one length.

    Texts (lines of a text file, rows of any other) are joined with a separator between them and cut
    into blocks of `length` tokens, so that no place of a batch is padding. Blocks are made once and
    kept on disk, from where they are mapped into memory; or, with `streaming`, made anew in every
    epoch and not kept.

    Args:
        files: patterns of file names in `data_dir`, such as `gutenberg/*.txt.gz`: plain text
            (`.txt`), or rows (`.jsonl`, `.tsv`, `.csv`, `.parquet`), `.gz` but for the last.
        data_dir: folder in which they are looked up; the current one if not given.
        hub_id: take the training split of this hub dataset instead of files.
        hub_config: its configuration, where it has several.
        text_column: column of the text, in files with columns and on the hub.
        length: tokens of a sequence, [CLS] and [SEP] included.
        batch_size: training sequences per batch and process.
        eval_batch_size: sequences per batch and process in validation and test.
        num_workers: processes that assemble batches; blocks are packed before, so 0 is fast. With
            `streaming`, 1 or more: a thread reads and packs while the model computes.
        pin_memory: keep batches in page-locked memory, which speeds up copies to a GPU.
        on_bad_row: lines that cannot be read (broken encoding, binary data, missing field): `stop`
            the run naming the first, or `skip` them and report how many.
        seed: of the order of training batches; that of `seed_everything` if not given.
        validation_share: one sequence in 1 / `validation_share`, rounded, validates, and is not
            trained on: the same ones for every seed and number of processes. 0 for none.
        streaming: write nothing to disk, and begin to train at once: read, pack and shuffle within
            a buffer while training. Every process reads all of the corpus in every epoch.
        shuffle_buffer: sequences in that buffer.
        limit_tokens: use only so many tokens, from the beginning.
        cache_dir: folder for the packed blocks; beside the cache of the `datasets` library if not
            given.
        name: of the corpus, in results.
    """

    def __init__(
        self,
        *,
        files: list[str] | None = None,
        data_dir: str | None = None,
        hub_id: str | None = None,
        hub_config: str | None = None,
        text_column: str = "text",
        length: int = 128,
        batch_size: int = 32,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        pin_memory: bool = False,
        on_bad_row: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
        validation_share: float = 0.05,
        streaming: bool = False,
        shuffle_buffer: int = 4096,
        limit_tokens: int | None = None,
        cache_dir: str | None = None,
        name: str = "running_text",
    ) -> None:
        super().__init__(batch_size=batch_size, seed=seed)
        sizes = (
            batch_size,
            eval_batch_size,
            shuffle_buffer,
            1 if limit_tokens is None else limit_tokens,
        )
        if min(sizes) < 1 or num_workers < 0 or not 0 <= validation_share <= 0.5:
            msg = (
                f"got {batch_size=}, {eval_batch_size=}, {shuffle_buffer=}, {limit_tokens=}, "
                f"{num_workers=}, {validation_share=}, expected positive sizes, 0 or more workers, "
                "and a share of 0 to 0.5"
            )
            raise ValueError(msg)
        if bool(files) == (hub_id is not None):
            msg = (
                f"got files={files} and hub_id={hub_id!r}, expected one of them: pass "
                "`--data.files` or `--data.hub_id`"
            )
            raise ValueError(msg)
        self.save_hyperparameters(logger=False)
        self.corpus = name
        self.files, self.data_dir = files, data_dir
        self.hub_id, self.hub_config, self.text_column = hub_id, hub_config, text_column
        self.length, self.eval_batch_size = length, eval_batch_size
        self.num_workers, self.pin_memory = num_workers, pin_memory
        self.on_bad_row: Literal["stop", "skip"] = on_bad_row
        self.validation_share = validation_share
        self.streaming, self.shuffle_buffer = streaming, shuffle_buffer
        self.limit_tokens = limit_tokens
        self.cache_dir = cache_dir
        self._source: Source | None = None
        self._packed: tuple[Tokenizer, Any, str] | None = None

    def prepare_data(self) -> None:
        """Fetch from the hub what is not in its local cache."""
        source = self._find()
        if isinstance(source, HubTexts):
            source.fetch()

    def setup(self, stage: str | None = None) -> None:
        del stage
        self._source = self._source or self._find()

    def _find(self) -> Source:
        if self.hub_id is not None:
            return HubTexts(
                self.hub_id, self.hub_config, self.text_column, streaming=self.streaming
            )
        paths = find_files(Path(self.data_dir or ""), self.files or [])
        return FileTexts(paths, self.text_column, on_bad_row=self.on_bad_row)

    @property
    def source(self) -> Source:
        """Where the texts come from.

        Raises:
            RuntimeError: before `setup`.
        """
        if self._source is None:
            msg = "got a corpus before setup, expected setup(stage) to be called first"
            raise RuntimeError(msg)
        return self._source

    def train_texts(self) -> Iterator[Text]:
        """The lines of all files: a vocabulary may know words of the blocks that validate."""
        return self.source.texts()

    # From texts to batches

    @property
    def every(self) -> int:
        """One sequence in so many validates; 0 for none."""
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
        """The blocks on disk: found or made for the first loader, kept for all later ones."""
        tokenizer = self._pretrained()
        if self._packed is None or self._packed[0] is not tokenizer:
            state = {
                name: value for name, value in tokenizer.state().items() if name != "max_length"
            }
            dataset, about = open_packed(
                self._cache(),
                [self.source.key(), state, self.length, self.limit_tokens],
                self._pack(),
                length=self.length,
                vocab_size=tokenizer.vocab_size,
            )
            self._packed = (tokenizer, dataset, about["sha256"])
        return self._packed[1]

    def _cache(self) -> Path:
        from datasets import config

        default = Path(config.HF_DATASETS_CACHE) / "steadfast_running_text"
        return default if self.cache_dir is None else Path(self.cache_dir)

    def _loader(self, *, shuffle: bool) -> DataLoader[Batch]:
        self._pretrained()
        batch_size = self.batch_size if shuffle else self.eval_batch_size
        blocks = None if self.streaming else PackedText(self._blocks(), self.every, not shuffle)
        epoch, skip = self._start() if shuffle else (0, 0)
        world, rank = self._processes()
        order = Order(shuffle, self._seed(), epoch, skip, rank, world)
        sampler = (
            BlockSampler(len(blocks), batch_size, order)
            if blocks is not None
            else BlockStream(
                self._pack,
                batch_size,
                order,
                buffer=self.shuffle_buffer,
                every=self.every,
                ahead=self.num_workers > 0,
            )
        )
        overfit = getattr(self.trainer, "overfit_batches", 0)
        few = islice(sampler, overfit if isinstance(overfit, int) else None)
        return make_loader(
            Arrived() if blocks is None else blocks,
            FixedBatches(list(few)) if overfit else sampler,
            num_workers=self.num_workers if blocks is not None else 0,
            pin_memory=self.pin_memory,
            seed=self._seed(),
        )

    def train_dataloader(self) -> DataLoader[Batch]:
        return self._loader(shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        return self._loader(shuffle=False) if self.every else []

    def test_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        return self.val_dataloader()

    def _content(self) -> dict[str, str] | None:
        if self.streaming and self._source is not None:
            texts = [self._source.names(), self.limit_tokens]
            return {"texts": hashlib.sha256(json.dumps(texts).encode()).hexdigest()}
        return None if self._packed is None else {"blocks": self._packed[2]}

    def _order(self) -> dict[str, Any]:
        buffer = {"shuffle_buffer": self.shuffle_buffer} if self.streaming else {}
        share = {"validation_share": self.validation_share}
        return {**super()._order(), "length": self.length, **share, **buffer}
