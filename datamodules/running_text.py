"""Text without labels, to pre-train encoders on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from torch.utils.data import DataLoader

from datamodules.block_sampler import BlockSampler
from datamodules.corpus import Corpus
from datamodules.loaders import FixedBatches, make_loader
from datamodules.packed_text import PackedText, open_packed
from datamodules.packing import pack
from datamodules.running_text_source import FileTexts, HubTexts, Source, find_files
from text import Batch, PretrainedTokenizer, Text, Tokenizer


class RunningText(Corpus):
    """Running text from files or from the hub, packed into sequences of one length.

    Texts (lines of a text file, rows of any other) are joined with a separator between them and cut
    into blocks of `length` tokens, so that no place of a batch is padding. Blocks are made once and
    kept on disk, from where they are mapped into memory.

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
        num_workers: processes that assemble batches; blocks are packed before, so 0 is fast.
        pin_memory: keep batches in page-locked memory, which speeds up copies to a GPU.
        on_bad_row: lines that cannot be read (broken encoding, binary data, missing field): `stop`
            the run naming the first, or `skip` them and report how many.
        seed: of the order of training batches; that of `seed_everything` if not given.
        validation_share: one sequence in 1 / `validation_share`, rounded, validates, and is not
            trained on: the same ones for every seed and number of processes. 0 for none.
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
        limit_tokens: int | None = None,
        cache_dir: str | None = None,
        name: str = "running_text",
    ) -> None:
        super().__init__(batch_size=batch_size, seed=seed)
        least = min(batch_size, eval_batch_size, 1 if limit_tokens is None else limit_tokens)
        if least < 1 or num_workers < 0 or not 0 <= validation_share <= 0.5:
            msg = (
                f"got {batch_size=}, {eval_batch_size=}, {limit_tokens=}, {num_workers=}, "
                f"{validation_share=}, expected positive sizes, 0 or more workers, and a share "
                "of 0 to 0.5"
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
        self.every = round(1 / validation_share) if validation_share else 0
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
            return HubTexts(self.hub_id, self.hub_config, self.text_column, streaming=False)
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

    def _blocks(self) -> Any:
        tokenizer = self.tokenizer
        if not isinstance(tokenizer, PretrainedTokenizer):
            kind = "no tokenizer" if tokenizer is None else type(tokenizer).__name__
            msg = f"got {kind}, expected a PretrainedTokenizer to be set before any loader"
            raise TypeError(msg)
        if self._packed is None or self._packed[0] is not tokenizer:
            state = tokenizer.state()
            state.pop("max_length")
            key = [self.source.key(), state, self.length, self.limit_tokens]
            dataset, about = open_packed(
                self._cache(),
                key,
                pack(self.source.texts(), tokenizer, self.length, limit_tokens=self.limit_tokens),
                length=self.length,
                vocab_size=tokenizer.vocab_size,
            )
            self._packed = (tokenizer, dataset, about["sha256"])
        return self._packed[1]

    def _cache(self) -> Path:
        if self.cache_dir is not None:
            return Path(self.cache_dir)
        from datasets import config

        return Path(config.HF_DATASETS_CACHE) / "steadfast_running_text"

    def _loader(self, *, shuffle: bool) -> DataLoader[Batch]:
        blocks = PackedText(self._blocks(), every=self.every, held_out=not shuffle)
        epoch, skip = self._start() if shuffle else (0, 0)
        world, rank = self._processes()
        sampler = BlockSampler(
            len(blocks),
            self.batch_size if shuffle else self.eval_batch_size,
            seed=self._seed(),
            epoch=epoch,
            rank=rank,
            world=world,
            shuffle=shuffle,
            skip=skip,
        )
        overfit = self.trainer is not None and getattr(self.trainer, "overfit_batches", 0) > 0
        return make_loader(
            blocks,
            FixedBatches(sampler.batches()) if overfit else sampler,
            num_workers=self.num_workers,
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
        return None if self._packed is None else {"blocks": self._packed[2]}

    def _order(self) -> dict[str, Any]:
        return {**super()._order(), "length": self.length, "validated": self.every}
