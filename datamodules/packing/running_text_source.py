"""Reads running text from text files, from a column of files with rows, or from the hub."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from datamodules.sources import datasets_hub as hub
from datamodules.sources.readers import Row, read_rows
from datamodules.sources.table_shape import ENDINGS, file_ending
from text import hub_reachable
from text.bounded_files import DataError, brief, kind_of, lines, opened, refuse

log = logging.getLogger(__name__)

# Bad rows named in one message.
_SHOWN = 5


class TextSource(Protocol):
    """Texts that can be read several times, in the same order."""

    def texts(self) -> Iterator[str]:
        """Yield all texts, one at a time."""

    def key(self) -> list[Any]:
        """Return JSON scalars and lists that change if the texts may have changed."""

    def names(self) -> list[Any]:
        """Return a key that does not change if files are moved or copied to another machine."""


class FileTexts:
    """The texts of files: each line of a text file, each row of any other.

    Args:
        paths: paths of regular files, at least one.
        text_column: the column of the text, in files with columns.
        on_bad_row: lines or rows that cannot be read: `stop` at the first, or `skip` them.

    Raises:
        DataError: a path that is not a regular file, or has an unknown ending.
    """

    def __init__(
        self, paths: Sequence[Path], text_column: str, *, on_bad_row: Literal["stop", "skip"]
    ) -> None:
        self.paths = list(paths)
        self.text_column = text_column
        self.on_bad_row = on_bad_row
        for path in self.paths:
            kind = kind_of(path)
            if kind != "file":
                raise refuse(path, kind or "absent")
            if file_ending(path) not in (".txt", *ENDINGS):
                endings = ", ".join((".txt", *ENDINGS))
                msg = f"got {path}, expected a file ending in {endings} (.gz but for Parquet)"
                raise DataError(msg)

    def key(self) -> list[Any]:
        """Return names, sizes and times of change: hashing terabytes would take too long."""
        stats = [(path.resolve(), path.stat()) for path in self.paths]
        files = [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]
        return ["files", self.text_column, self.on_bad_row, files]

    def names(self) -> list[Any]:
        """Return names without folders, and sizes."""
        files = [[path.name, path.stat().st_size] for path in self.paths]
        return ["files", self.text_column, self.on_bad_row, files]

    def texts(self) -> Iterator[str]:
        """Yield all texts; a DataError for a line that is no text, or a file without text."""
        skipped = 0
        for path in self.paths:
            empty = True
            for row in _text_rows(path, self.text_column):
                text = row.values.get(self.text_column)
                problem = row.problem
                if problem is None and not isinstance(text, str):
                    kind = type(text).__name__
                    problem = f"column {self.text_column!r} holds {kind}, expected text"
                if problem is not None:
                    if self.on_bad_row == "stop":
                        msg = f"{path}, line {row.line}: {problem}"
                        raise DataError(msg)
                    skipped += 1
                    if skipped <= _SHOWN:
                        log.warning("%s, line %d skipped: %s", path, row.line, problem)
                elif text and not text.isspace():
                    empty = False
                    yield text
            if empty:
                msg = f"{path}: got a file without any text, expected lines of text: remove it"
                raise DataError(msg)
        if skipped:
            log.warning("%d bad lines or rows skipped in all", skipped)


class HubTexts:
    """The texts of the training split of a hub dataset.

    Args:
        hub_id: `owner/name` on the hub.
        config: the configuration, for datasets that have several.
        text_column: the column of the text.
        streaming: read over the network during training, and store nothing on disk.
    """

    def __init__(
        self, hub_id: str, config: str | None, text_column: str, *, streaming: bool
    ) -> None:
        self.hub_id, self.config, self.text_column = hub_id, config, text_column
        self.streaming = streaming

    def key(self) -> list[Any]:
        """Return its name, and the files of the local cache unless it is streamed."""
        if self.streaming:
            return self.names()
        dataset = self._load(cached=True)
        # The file names of the cache include the version of the dataset.
        return [*self.names(), [file["filename"] for file in dataset.cache_files]]

    def names(self) -> list[Any]:
        """Return its name on the hub."""
        return ["hub", self.hub_id, self.config, self.text_column]

    def fetch(self) -> None:
        """Download it into the local cache."""
        if not self.streaming:
            self._load(cached=False)

    def texts(self) -> Iterator[str]:
        """Yield all texts; a DataError for a dataset that cannot be read, or has no such column."""
        for row in self._rows():
            text = row.values[self.text_column]
            if isinstance(text, str) and text and not text.isspace():
                yield text

    def _rows(self) -> Iterator[Row]:
        columns = (self.text_column,)
        if not self.streaming:
            yield from hub.rows(self._load(cached=True), columns)
            return
        from datasets import load_dataset

        try:
            if not hub_reachable():
                msg = "the hub cannot be reached"
                raise OSError(msg)
            stream = load_dataset(self.hub_id, self.config, split="train", streaming=True)
            for number, values in enumerate(stream, start=1):
                if self.text_column not in values:
                    msg = f"got columns {brief(list(values))}, expected {list(columns)} among them"
                    raise DataError(msg)
                yield Row(number, values)
        except DataError:
            # It has a message for users.
            raise
        except Exception as error:  # the library passes exceptions of several other libraries
            raise self._unreadable(error) from error

    def _load(self, *, cached: bool) -> Any:
        try:
            return hub.load(self.hub_id, self.config, "train", cached=cached)
        except DataError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        reason = str(error).strip().splitlines()
        return DataError(
            f"got no text from hub dataset {self.hub_id} "
            f"({reason[0] if reason else type(error).__name__}), expected one that can be had: "
            "connect to the hub, or pass files of your own with `--data.files`"
        )


def find_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files that match patterns, each once, in the order of patterns, then of names.

    Relative patterns, such as `gutenberg/*.txt.gz`, start in the folder; `**` matches any depth.

    Raises:
        DataError: a pattern that matches no file.
    """
    paths: dict[Path, None] = {}
    for pattern in patterns:
        start, rest = folder, Path(pattern)
        if rest.is_absolute():
            # `glob` accepts relative patterns only.
            start, rest = Path(rest.anchor), rest.relative_to(rest.anchor)
        try:
            matches = sorted(start.glob(str(rest))) if rest.parts else []
        except ValueError:  # an invalid pattern
            matches = []
        if not matches:
            msg = (
                f"got files pattern {pattern!r}, which names no file in {folder}, expected text "
                "files: correct `--data.files` or `--data.data_dir`"
            )
            raise DataError(msg)
        paths.update(dict.fromkeys(matches))
    return list(paths)


def _text_rows(path: Path, column: str) -> Iterator[Row]:
    if file_ending(path) != ".txt":
        yield from read_rows(path, (column,))
        return
    with opened(path) as file:
        for number, raw in lines(path, file, packed=path.suffix == ".gz"):
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                problem = f"byte 0x{raw[error.start]:02x} at column {error.start + 1} is not UTF-8"
                yield Row(number, {}, f"got binary or wrongly encoded data ({problem})")
                continue
            if "\0" in text:
                yield Row(number, {}, "got binary data (a NUL character), expected text")
            else:
                yield Row(number, {column: text})
