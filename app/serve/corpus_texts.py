"""Texts of the corpus that a run was trained on, to try a model with."""

import logging
from pathlib import Path
from typing import Any

from app.runs.run_directory import RunDirectory
from app.training.join import labelled_texts
from datamodules import CORPORA, TextDataModule, TextFiles
from datamodules.batching.sampler import permutation

log = logging.getLogger(__name__)

_FILES = (
    *("train", "validation", "test", "text_column", "text_pair_column", "label_column"),
    *("classes", "task", "on_bad_row", "min_rows_per_class", "name"),
)
"""Settings that say which files of one's own a run has read, and how."""
_CHOICE = 6
"""Key of the permutation that draws texts, apart from those of corpora, attacks and `diagnose`."""


def corpus_texts(
    run: RunDirectory, *, data_dir: Path | None, count: int, characters: int
) -> list[dict[str, Any]]:
    """Returns texts of the test split with their gold classes: a fixed random choice.

    The corpus is built by its name from the corpora of this program: no class that the settings of
    the run name is imported. Nothing is fetched from the hub.

    Args:
        run: whose settings name the corpus.
        data_dir: data directory; that of the settings if None.
        count: number of texts.
        characters: longer texts are left out.

    Returns:
        Records with `text`, `text_pair` (of pairs) and `label`; none if the corpus is not there,
        which is logged.
    """
    try:
        settings = run.config()["data"]
        corpus = CORPORA[str(settings["class_path"]).rpartition(".")[2]]
        given = settings.get("init_args", {})
        where = given.get("data_dir") if data_dir is None else data_dir
        named: dict[str, Any] = {} if where is None else {"data_dir": str(where)}
        if corpus is TextFiles:
            named |= {key: given[key] for key in _FILES if key in given}
        source = corpus(**named)
        if not isinstance(source, TextDataModule):
            return []
        source.setup("test")
        texts = list(labelled_texts(source.examples("test")))
    except Exception as error:  # of any kind: the page works without them
        log.info("%s: no texts of its corpus to choose from: %s", run.name, error)
        return []
    chosen = (texts[i] for i in permutation(len(texts), _CHOICE).tolist())
    found: list[dict[str, Any]] = []
    for _, text, label in chosen:
        first, second = (text, None) if isinstance(text, str) else text
        if max(len(first), len(second or "")) > characters:
            continue
        pair = {} if second is None else {"text_pair": second}
        found.append({"text": first, **pair, "label": source.class_names[label]})
        if len(found) == count:
            break
    return found
