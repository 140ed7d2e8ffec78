"""Packed blocks on disk: made once by whoever comes first, memory-mapped by all."""

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
_EVERY = 30.0
"""Seconds between two messages on how far packing is."""


def open_packed(
    folder: Path, key: Any, blocks: Iterable[Blocks], *, length: int, vocab_size: int
) -> tuple["Dataset", dict[str, Any]]:
    """Blocks from disk; made there first, if this is the first time that they are asked for.

    Several processes may ask at once: one makes them, the others wait for its lock, which the
    system releases if it dies. Blocks are made beside the place where they are looked for and
    moved there when they are whole and on the disk, so that half of them is never found.

    Args:
        folder: of all packed texts.
        key: what the blocks depend on, as JSON scalars, lists and dicts.
        blocks: makes them, if they have to be made; else not touched.
        length: tokens of a block.
        vocab_size: token ids are below this.

    Returns:
        The blocks (`ids`, `tokens`), and about them: how many, and a digest of them.

    Raises:
        DataError: not a single block, or files that somebody has changed.
    """
    from datasets import Dataset

    name = hashlib.sha256(json.dumps([_FORMAT, key]).encode()).hexdigest()[:32]
    place = folder / name
    if not place.exists():
        try:
            with locked(place, patience=math.inf):
                if not place.exists():
                    _make(place, blocks, length, vocab_size)
        except OSError as error:
            msg = (
                f"got {error} while packing text into {folder}, expected a folder that can be "
                "written, with room for two to four bytes per token: pass `--data.cache_dir`"
            )
            raise DataError(msg) from error
    try:
        about = read_json(place / "about.json", "a description of packed blocks")
        with reading(place, "packed blocks"):
            dataset = Dataset.from_file(str(place / "blocks.arrow"))
            whole = len(dataset) == about["blocks"] > 0 and isinstance(about["sha256"], str)
    except DataError as error:
        msg = (
            f"got packed blocks that cannot be read ({error}), expected them whole: remove {place}"
        )
        raise DataError(msg) from error
    if not whole:
        msg = f"got packed blocks other than described, expected them whole: remove {place}"
        raise DataError(msg)
    return dataset, about


def _make(place: Path, blocks: Iterable[Blocks], length: int, vocab_size: int) -> None:
    """Write blocks as an Arrow stream, which `datasets` maps into memory."""
    kind = np.dtype(np.uint16 if vocab_size <= 2**16 else np.int32)
    # One name per machine: whoever holds the lock may overwrite what a killed maker has left.
    part = place.with_name(f"{place.name}.{socket.gethostname()}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        _write(part, blocks, length, kind)
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(part: Path, blocks: Iterable[Blocks], length: int, kind: np.dtype[Any]) -> None:
    import pyarrow
    from datasets import Features, List, Value

    features = Features({"ids": List(Value(kind.name), length=length), "tokens": Value("int32")})
    schema = features.arrow_schema
    digest, n, tokens = hashlib.sha256(), 0, 0
    begun = told = time.monotonic()
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
                if time.monotonic() - told > _EVERY:
                    told = time.monotonic()
                    log.info("packed %d million tokens", tokens // 10**6)
        file.flush()
        os.fsync(file.fileno())
    if n == 0:
        msg = "got running text without a single token, expected some text"
        raise DataError(msg)
    seconds = time.monotonic() - begun
    log.info("packed %d tokens into %d blocks in %.0f s", tokens, n, seconds)
    about = {"blocks": n, "tokens": tokens, "sha256": digest.hexdigest(), "length": length}
    with (part / "about.json").open("w") as described:
        described.write(json.dumps(about))
        described.flush()
        os.fsync(described.fileno())


class PackedText(TorchDataset[Batch]):
    """Some of the blocks on disk; an index is the list of the blocks of one batch.

    Args:
        dataset: all blocks.
        every: one block in so many validates, beginning with the first; 0 for none.
        held_out: these blocks (True), or all others.
    """

    def __init__(self, dataset: "Dataset", every: int, held_out: bool) -> None:
        self._table = dataset.with_format("arrow")
        self.every, self.held_out = every, held_out
        held = -(-len(dataset) // every) if every else 0
        self._n = held if held_out else len(dataset) - held

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Sequence[int]) -> Batch:
        """The batch of these blocks, by their place among those of this part."""
        rows = self.rows(np.asarray(index, dtype=np.int64))
        table = self._table[rows.tolist()]
        flat = table["ids"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        tokens = table["tokens"].to_numpy()
        return to_batch(flat.reshape(len(rows), -1), tokens, rows)

    def rows(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of these blocks among all blocks."""
        if self.held_out:
            return index * self.every
        return index + index // (self.every - 1) + 1 if self.every else index


def held_out(places: NDArray[np.int64], every: int) -> NDArray[np.bool_]:
    """Mark the blocks that validate: one in `every`, beginning with the first; none for 0."""
    return places % every == 0 if every else np.zeros(len(places), dtype=bool)


def to_batch(
    ids: NDArray[Any],
    tokens: NDArray[Any],
    rows: NDArray[np.int64],
) -> Batch:
    """A batch of blocks `[B, N]`, `tokens` of which are real in each, with their places."""
    longest = int(tokens.max())
    real = np.arange(longest) < tokens[:, None]
    return Batch(
        input_ids=torch.from_numpy(ids[:, :longest].astype(np.int64)),
        mask=torch.from_numpy(real),
        sample_ids=torch.from_numpy(rows.astype(np.int64)),
    )
