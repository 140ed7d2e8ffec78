"""The texts of a split of the corpus that a run was trained on."""

from typing import Any

from datamodules import CORPORA, TextDataModule
from datamodules.batching.sampler import permutation
from datamodules.labelled import Split
from lit_modules import TaskModule
from run_files.run_directory import RunDirectory
from text import Text, WordSettings, WordTokenizer
from training.join import labelled_texts

CHOICE = 4
"""Key of the permutation that draws samples, apart from those of the corpora."""


def split_texts(
    run: RunDirectory, split: Split, *, data_dir: str | None, count: int | None
) -> tuple[TextDataModule, list[tuple[int, Text, int]]]:
    """Returns the corpus of a run, and sample, text and class of a split.

    The corpus is built by its name from the corpora of this program: no class that the settings of
    the run name is imported.

    Args:
        run: whose settings name the corpus.
        split: validation or test.
        data_dir: data directory; that of the settings if None.
        count: number of samples, drawn as `attack` does; all if None.

    Raises:
        ValueError: a corpus of another program, or one without labels or of pairs.
        OSError: files that are not there.
    """
    settings: dict[str, Any] = run.config()["data"]
    name = str(settings["class_path"]).rpartition(".")[2]
    corpus = CORPORA.get(name)
    if corpus is None or not issubclass(corpus, TextDataModule):
        msg = f"got run {run.name} on {name}, expected one of {', '.join(CORPORA)} with labels"
        raise ValueError(msg)
    given = dict(settings.get("init_args") or {})
    source = corpus(**(given if data_dir is None else {**given, "data_dir": data_dir}))
    source.fetch([split])
    source.setup("validate" if split == "validation" else "test")
    found = list(labelled_texts(source.examples(split)))
    if source.pairs or not found:
        what = "pairs of texts" if source.pairs else "no labelled texts"
        msg = f"got {what} in the {split} split of {name}, expected single texts with classes"
        raise ValueError(msg)
    if count is not None:
        drawn = set(permutation(len(found), CHOICE).tolist()[:count])
        found = [one for place, one in enumerate(found) if place in drawn]
    return source, found


def words_read(model: TaskModule) -> WordSettings:
    """Return the words that a model splits a text into; the default ones for parts of words."""
    tokenizer, _ = model.require_text()
    if isinstance(tokenizer, WordTokenizer):
        return tokenizer.splitter.settings
    return WordSettings()
