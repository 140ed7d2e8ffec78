"""Packed blocks on disk: the first process makes them, all processes map them into memory."""

import hashlib
import json
import logging
import math
import os
import shutil
import socket
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset as TorchDataset

from datamodules.packing.blocks import Blocks
from text import Batch
from text.bounded_files import DataError, read_json, reading
from text.file_lock import locked

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(__name__)

_FORMAT = 1
# Seconds between two messages on the progress of packing.
_EVERY = 30.0


def open_packed(
    folder: Path, key: Any, blocks: Iterable[Blocks], *, length: int, vocab_size: int
) -> tuple["Dataset", dict[str, Any]]:
    """Return blocks from disk; the first call makes them.

    The folder is that of all packed texts. `key` has all values that determine the blocks, as JSON
    scalars, lists and dicts. `blocks` are not touched if they exist; they have `length` tokens,
    whose ids are below `vocab_size`.

    Returns:
        The blocks (`ids`, `tokens`), and their description, with their number and digest.

    Raises:
        DataError: not a single block, or files that have been changed.
    """
    from datasets import Dataset

    name = hashlib.sha256(json.dumps([_FORMAT, key]).encode()).hexdigest()[:32]
    target = folder / name
    if not target.exists():
        try:
            # One process makes them, the others wait for its lock, which is released if it dies.
            with locked(target, patience=math.inf):
                if not target.exists():
                    _make(target, blocks, length, vocab_size)
        except OSError as error:
            msg = (
                f"got {error} while packing text into {folder}, expected a folder that can be "
                "written, with room for two to four bytes per token: pass `--data.cache_dir`"
            )
            raise DataError(msg) from error
    try:
        description = read_json(target / "about.json", "a description of packed blocks")
        with reading(target, "packed blocks"):
            dataset = Dataset.from_file(str(target / "blocks.arrow"))
            complete = len(dataset) == description["blocks"] > 0
            complete = complete and isinstance(description["sha256"], str)
    except DataError as error:
        msg = (
            f"got packed blocks that cannot be read ({error}), expected them whole: remove {target}"
        )
        raise DataError(msg) from error
    if not complete:
        msg = f"got packed blocks other than described, expected them whole: remove {target}"
        raise DataError(msg)
    return dataset, description


def _make(target: Path, blocks: Iterable[Blocks], length: int, vocab_size: int) -> None:
    """Write blocks as an Arrow stream, which `datasets` maps into memory."""
    # Two bytes per token suffice for most vocabularies.
    kind = np.dtype(np.uint16 if vocab_size <= 2**16 else np.int32)
    # One name per machine: the holder of the lock may overwrite the rest of a killed process.
    part = target.with_name(f"{target.name}.{socket.gethostname()}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        _write(part, blocks, length, kind)
        # Renamed when complete and on the disk, so that no process ever finds half of the blocks.
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(part: Path, blocks: Iterable[Blocks], length: int, kind: np.dtype[Any]) -> None:
    import pyarrow
    from datasets import Features, List, Value

    features = Features({"ids": List(Value(kind.name), length=length), "tokens": Value("int32")})
    schema = features.arrow_schema
    digest, n, tokens = hashlib.sha256(), 0, 0
    begun = logged = time.monotonic()
    log.info("packing text into blocks of %d tokens, once, in %s", length, part.parent)
    with (part / "blocks.arrow").open("wb") as file:
        with pyarrow.ipc.new_stream(file, schema) as writer:
            for some in blocks:
                ids = np.ascontiguousarray(some.ids, dtype=kind)
                digest.update(ids.data)
                digest.update(some.tokens.data)
                flat = pyarrow.array(ids.reshape(-1))
                columns = [
                    pyarrow.FixedSizeListArray.from_arrays(flat, length),
                    pyarrow.array(some.tokens),
                ]
                writer.write_batch(pyarrow.record_batch(columns, schema=schema))
                n += len(ids)
                tokens += int(some.tokens.sum())
                if time.monotonic() - logged > _EVERY:
                    logged = time.monotonic()
                    log.info("packed %d million tokens", tokens // 10**6)
        # Written before the folder gets its name: a power failure leaves no half corpus under it.
        file.flush()
        os.fsync(file.fileno())
    if n == 0:
        msg = "got running text without a single token, expected some text"
        raise DataError(msg)
    seconds = time.monotonic() - begun
    log.info("packed %d tokens into %d blocks in %.0f s", tokens, n, seconds)
    description = {"blocks": n, "tokens": tokens, "sha256": digest.hexdigest(), "length": length}
    with (part / "about.json").open("w") as file:
        file.write(json.dumps(description))
        file.flush()
        os.fsync(file.fileno())


class PackedText(TorchDataset[Batch]):
    """Some of the blocks on disk; an index is the list of the blocks of one batch.

    One block in `interval` validates, beginning with the first; 0 for none.
    """

    def __init__(self, dataset: "Dataset", interval: int, held_out: bool) -> None:
        self._table = dataset.with_format("arrow")
        self.interval, self.held_out = interval, held_out
        held = -(-len(dataset) // interval) if interval else 0  # rounded up
        self._n = held if held_out else len(dataset) - held

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Sequence[int]) -> Batch:
        """Return the batch of these blocks, by their positions within this part."""
        rows = self.rows(np.asarray(index, dtype=np.int64))
        table = self._table[rows.tolist()]
        flat = table["ids"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        tokens = table["tokens"].to_numpy()
        return to_batch(flat.reshape(len(rows), -1), tokens, rows)

    def rows(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of these blocks among all blocks."""
        if self.held_out:
            return index * self.interval
        # Skips 0, interval, 2 * interval, ...: interval - 1 blocks between two of these.
        return index + index // (self.interval - 1) + 1 if self.interval else index


def held_out(positions: NDArray[np.int64], interval: int) -> NDArray[np.bool_]:
    """Mark the blocks that validate: one in `interval`, beginning with the first; none for 0."""
    return positions % interval == 0 if interval else np.zeros(len(positions), dtype=bool)


def to_batch(ids: NDArray[Any], tokens: NDArray[Any], rows: NDArray[np.int64]) -> Batch:
    """Return a batch of blocks `[B, N]` with their numbers of real tokens and their positions."""
    longest = int(tokens.max())
    real = np.arange(longest) < tokens[:, None]
    return Batch(
        input_ids=torch.from_numpy(ids[:, :longest].astype(np.int64)),
        mask=torch.from_numpy(real),
        sample_ids=torch.from_numpy(rows.astype(np.int64)),
    )
