"""The texts of a split of the corpus that a run was trained on."""

from datamodules import CORPORA, TextDataModule
from datamodules.batching.sampler import permutation
from datamodules.labelled import Split
from datamodules.labelled_texts import labelled_texts
from lit_modules import TaskModule
from run_files.run_directory import RunDirectory, class_name
from text import Text, WordSettings, WordTokenizer

CHOICE = 4
"""Key of the permutation that draws samples; the corpora have other keys."""


def split_texts(
    run: RunDirectory, split: Split, *, data_dir: str | None, count: int | None
) -> tuple[TextDataModule, list[tuple[int, Text, int]]]:
    """Return the corpus of a run, one of this program, and sample, text and class of a split.

    `data_dir` replaces that of the settings; `count` samples are drawn as `attack` does, all if
    None.

    Raises:
        ValueError: a corpus of another program, without labels or of pairs.
        OSError: a file is missing.
    """
    config = run.config()
    name = class_name(config, "data")
    corpus = CORPORA.get(name or "")
    if corpus is None or not issubclass(corpus, TextDataModule):
        msg = f"got run {run.name} on {name}, expected one of {', '.join(CORPORA)} with labels"
        raise ValueError(msg)
    arguments = dict(config["data"].get("init_args") or {})
    source = corpus(**(arguments if data_dir is None else {**arguments, "data_dir": data_dir}))
    source.fetch([split])
    source.setup("validate" if split == "validation" else "test")
    texts = list(labelled_texts(source.examples(split)))
    if source.pairs or not texts:
        content = "pairs of texts" if source.pairs else "no labelled texts"
        msg = f"got {content} in the {split} split of {name}, expected single texts with classes"
        raise ValueError(msg)
    if count is not None:
        # The same samples as `attack`, but in the order of the split.
        drawn = set(permutation(len(texts), CHOICE).tolist()[:count])
        texts = [text for position, text in enumerate(texts) if position in drawn]
    return source, texts


def words_read(model: TaskModule) -> WordSettings:
    """Return the words of a model; for a tokenizer of subwords the default, after its front end."""
    tokenizer, _ = model.require_text()
    if isinstance(tokenizer, WordTokenizer):
        return tokenizer.splitter.settings
    front_end = tokenizer.front_end
    return WordSettings() if front_end is None else front_end.word_settings
