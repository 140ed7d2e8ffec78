"""Reads the rows of a corpus from the files of a folder, or from the hub."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from datamodules.corpus import Corpus
from datamodules.sources import datasets_hub as hub
from datamodules.sources.readers import ENDINGS, DataError, find_file, read_rows
from datamodules.sources.rows import Row, Split
from text import Text


def hub_split_names(*, test: Split = "test") -> dict[Split, Split]:
    """Map splits to those of the hub; pass `test` if the hub's test split has no labels."""
    return {"train": "train", "validation": "validation", "test": test}


class Splits(Corpus):
    """A corpus with rows in files `DIR/<corpus>/<split>`, or in splits of the hub.

    The attributes describe a corpus; corpora in other formats, or with several files for a split,
    override `_parts` and `_rows`.
    """

    corpus: str
    """Name in results, and of the folder on disk."""
    text_columns: tuple[str, ...] = ("text",)
    label_column: str = "label"
    endings: ClassVar[tuple[str, ...]] = ENDINGS
    """Accepted endings of its files; `.gz` may follow."""
    origin: ClassVar[str | None] = None
    """The source of a corpus that is not on the hub, for a message."""
    hub_id: ClassVar[str | None] = None
    hub_config: ClassVar[str | None] = None
    hub_splits: ClassVar[Mapping[Split, Split]] = hub_split_names()
    """The split of the hub for each of ours, used if there is no file."""
    quoted: bool | None = None
    """See `read_rows`."""

    def _parts(self, split: Split) -> tuple[str, ...]:
        """Return the names of the files, or of the splits of the hub, that make up a split."""
        return (split,)

    def _columns(self) -> tuple[str, ...]:
        return (*self.text_columns, self.label_column)

    def _rows(self, path: Path) -> Iterator[Row]:
        """Yield the rows of a file of this corpus."""
        return read_rows(path, self._columns(), optional=self._optional(), quoted=self.quoted)

    def _optional(self) -> tuple[str, ...]:
        """Return the columns that may be missing in a file."""
        return ()

    def _hub_rows(self, dataset: Any) -> Iterator[Row]:
        """Yield the rows of a split of the hub."""
        return hub.rows(dataset, self._columns())

    @abstractmethod
    def train_texts(self) -> Iterator[Text]: ...

    def look(self) -> dict[Split, str | None]:
        """Return the reason why each split cannot be read from the disk; None if it can.

        "absent", "no rows", or the error of the file or the first row; only first rows are read.
        """
        return {split: self._problem(split) for split in self.hub_splits}

    def _problem(self, split: Split) -> str | None:
        try:
            for part in self._parts(self._source(split)):
                path = self._file(part)
                if path is None:
                    return "absent"
                row = next(self._rows(path), None)
                if row is None or row.problem is not None:
                    return "no rows" if row is None else row.problem
        except (DataError, OSError) as error:
            return str(error)
        return None

    def _file(self, part: str) -> Path | None:
        if self.data_dir is None:
            return None
        folder = Path(self.data_dir)
        if not folder.is_dir():
            msg = (
                f"got data_dir {folder}, which is no folder, expected one with {self.corpus}/ in it"
            )
            raise DataError(msg)
        return find_file(folder / self.corpus, part, self.endings)

    def _source(self, split: Split) -> Split:
        """Return the split that is read for this one; another one if it has no files."""
        # Some corpora have no labelled test split: `hub_splits` then names validation.
        files = [self._file(part) for part in self._parts(split)]
        return split if any(files) else self.hub_splits[split]

    def _from_hub(self, part: str, *, cached: bool) -> Any:
        kinds = "|".join(ending[1:] for ending in self.endings)
        looked = (
            "no --data.data_dir was given"
            if self.data_dir is None
            else f"{Path(self.data_dir, self.corpus, part)}.<{kinds}>[.gz] is absent"
        )
        usual = ".tsv" if ".tsv" in self.endings else self.endings[0]
        ways = (
            f"put it into a folder DIR as {self.corpus}/{part}{usual} and pass --data.data_dir DIR"
        )
        if self.hub_id is None:
            origin = "" if self.origin is None else f" ({self.origin})"
            msg = f"{self.corpus}: got no {part} split: {looked}; {ways}{origin}"
            raise DataError(msg)
        try:
            return hub.load(self.hub_id, self.hub_config, self._hub_name(part), cached=cached)
        except DataError as error:
            msg = (
                f"{self.corpus}: got no {part} split: {looked}, and the hub dataset {self.hub_id} "
                f"could not be loaded ({error}). Either {ways}, or run once where the hub can be "
                "reached so that the local cache keeps it"
            )
            raise DataError(msg) from error

    def _hub_name(self, part: str) -> str:
        """Return the hub's name for a part of a split."""
        return part
