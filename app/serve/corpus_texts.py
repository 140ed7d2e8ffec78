"""Texts of the corpus that a run was trained on, to try a model with."""

import logging
from pathlib import Path
from typing import Any

from datamodules import CORPORA, TextDataModule, TextFiles
from datamodules.batching.sampler import permutation
from datamodules.labelled_texts import labelled_texts
from run_files.run_directory import RunDirectory

log = logging.getLogger(__name__)

_FILES = (
    *("train", "validation", "test", "text_column", "text_pair_column", "label_column"),
    *("classes", "task", "on_bad_row", "min_rows_per_class", "name"),
)
"""Settings of `TextFiles` that say which of your own files a run has read, and how."""
# Not the keys of corpora, attacks and `diagnose`: their permutations must not be the same.
_PERMUTATION_KEY = 6


def corpus_texts(
    run: RunDirectory, *, data_dir: Path | None, count: int, characters: int
) -> list[dict[str, Any]]:
    """Return texts of the test split with their gold classes: a fixed random choice.

    Only corpora of this program are built: a class that the settings of the run name is never
    imported. Records have `text`, `text_pair` (of pairs) and `label`; there are none, and a line in
    the log, if the corpus cannot be read. Texts of more `characters` are left out.
    """
    try:
        settings = run.config()["data"]
        corpus = CORPORA[str(settings["class_path"]).rpartition(".")[2]]
        run_arguments = settings.get("init_args", {})
        folder = run_arguments.get("data_dir") if data_dir is None else data_dir
        arguments: dict[str, Any] = {} if folder is None else {"data_dir": str(folder)}
        if corpus is TextFiles:
            arguments |= {key: run_arguments[key] for key in _FILES if key in run_arguments}
        source = corpus(**arguments)
        if not isinstance(source, TextDataModule):
            return []
        source.setup("test")
        texts = list(labelled_texts(source.examples("test")))
    except Exception as error:  # whatever it is: the page works without texts
        log.info("%s: no texts of its corpus to choose from: %s", run.name, error)
        return []
    records: list[dict[str, Any]] = []
    for i in permutation(len(texts), _PERMUTATION_KEY).tolist():
        _, text, label = texts[i]
        first, second = (text, None) if isinstance(text, str) else text
        if max(len(first), len(second or "")) > characters:
            continue
        pair = {} if second is None else {"text_pair": second}
        records.append({"text": first, **pair, "label": source.class_names[label]})
        if len(records) == count:
            break
    return records
