"""Text without labels, to pre-train encoders on."""

from pathlib import Path
from typing import Any

from datamodules.packing.packed_corpus import PackedCorpus
from datamodules.packing.running_text_source import FileTexts, HubTexts, TextSource, find_files


class RunningText(PackedCorpus):
    """Running text from files or from the hub, packed into sequences of one length.

    Texts (lines of a text file, rows of any other) are joined with a separator between them and cut
    into blocks of `length` tokens, so that batches have no padding. Blocks are made once, stored on
    disk and mapped into memory; or, with `streaming`, made again in every epoch and not stored.

    Args:
        files: one pattern or several of file names in `data_dir`, such as `gutenberg/*.txt.gz`:
            plain text (`.txt`), or rows (`.jsonl`, `.tsv`, `.csv`, `.parquet`), `.gz` but for the
            last.
        hub_id: take the training split of this hub dataset instead of files.
        hub_config: configuration of the hub's corpus, where it has several.
        text_column: column of the text, in files with columns and on the hub.
        name: name of the corpus, in results.
        base: settings of `PackedCorpus`.
    """

    def __init__(
        self,
        *,
        files: list[str] | str | None = None,
        hub_id: str | None = None,
        hub_config: str | None = None,
        text_column: str = "text",
        name: str = "running_text",
        **base: Any,
    ) -> None:
        super().__init__(**base)
        if bool(files) == (hub_id is not None):
            msg = (
                f"got files={files} and hub_id={hub_id!r}, expected one of them: pass "
                "`--data.files` or `--data.hub_id`"
            )
            raise ValueError(msg)
        self.corpus = name
        self.files = [files] if isinstance(files, str) else files or []
        self.hub_id, self.hub_config, self.text_column = hub_id, hub_config, text_column

    def prepare_data(self) -> None:
        """Fetch the corpus from the hub, if it is not in the local cache."""
        source = self._find()
        if isinstance(source, HubTexts):
            source.fetch()

    def _find(self) -> TextSource:
        if self.hub_id is not None:
            return HubTexts(
                self.hub_id, self.hub_config, self.text_column, streaming=self.streaming
            )
        paths = find_files(Path(self.data_dir or ""), self.files)
        return FileTexts(paths, self.text_column, on_bad_row=self.on_bad_row)
