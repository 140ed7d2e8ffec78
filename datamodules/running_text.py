"""Text without labels, to pre-train encoders on."""

from pathlib import Path
from typing import Literal

from datamodules.packing.packed_corpus import PackedCorpus
from datamodules.packing.running_text_source import FileTexts, HubTexts, Source, find_files


class RunningText(PackedCorpus):
    """Running text from files or from the hub, packed into sequences of one length.

    Texts (lines of a text file, rows of any other) are joined with a separator between them and cut
    into blocks of `length` tokens, so that no place of a batch is padding. Blocks are made once and
    kept on disk, from where they are mapped into memory; or, with `streaming`, made anew in every
    epoch and not kept.

    Args:
        files: one pattern or several of file names in `data_dir`, such as `gutenberg/*.txt.gz`:
            plain text (`.txt`), or rows (`.jsonl`, `.tsv`, `.csv`, `.parquet`), `.gz` but for the
            last.
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
        files: list[str] | str | None = None,
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
        super().__init__(
            length=length,
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            num_workers=num_workers,
            pin_memory=pin_memory,
            seed=seed,
            validation_share=validation_share,
            streaming=streaming,
            shuffle_buffer=shuffle_buffer,
            limit_tokens=limit_tokens,
            cache_dir=cache_dir,
        )
        if bool(files) == (hub_id is not None):
            msg = (
                f"got files={files} and hub_id={hub_id!r}, expected one of them: pass "
                "`--data.files` or `--data.hub_id`"
            )
            raise ValueError(msg)
        self.save_hyperparameters(logger=False)
        self.corpus = name
        self.files = [files] if isinstance(files, str) else files or []
        self.data_dir = data_dir
        self.hub_id, self.hub_config, self.text_column = hub_id, hub_config, text_column
        self.on_bad_row: Literal["stop", "skip"] = on_bad_row

    def prepare_data(self) -> None:
        """Fetch from the hub what is not in its local cache."""
        source = self._find()
        if isinstance(source, HubTexts):
            source.fetch()

    def _find(self) -> Source:
        if self.hub_id is not None:
            return HubTexts(
                self.hub_id, self.hub_config, self.text_column, streaming=self.streaming
            )
        paths = find_files(Path(self.data_dir or ""), self.files)
        return FileTexts(paths, self.text_column, on_bad_row=self.on_bad_row)
