"""Joins a corpus and a module."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import pytorch_lightning as pl

from datamodules import Corpus, Example, PTBCharacters, RunningText, TextDataModule
from lit_modules import (
    AdversarialTraining,
    CharacterLM,
    TaskModule,
    TextModule,
    unused_settings,
)
from lit_modules.adversaries import TextSample
from text import Choices, TaskName, Text, Words

log = logging.getLogger(__name__)


class JoinCorpus(pl.Callback):
    """Gives the module its tokenizer and classes, and the corpus the module's tokenizer.

    A module from a checkpoint has its tokenizer and classes already; the corpus has to fit them.
    """

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Join corpus and module."""
        # Lightning calls this after the corpus is set up, and before the module makes its weights.
        corpus = trainer.datamodule  # type: ignore[attr-defined] # set by a connector
        if isinstance(pl_module, TextModule) and isinstance(corpus, Corpus):
            join(pl_module, corpus)
        if stage == "fit" and isinstance(pl_module, TextModule):
            for sentence in unused_settings(pl_module):
                log.warning("%s", sentence)


def join(module: TextModule, corpus: Corpus) -> None:
    """Attach a module to a corpus that is set up.

    Raises:
        ValueError: the module has been trained for other classes; or classifies where the corpus
            has no labels, or does not where it has; or takes shorter sequences than there are.
    """
    if isinstance(module, CharacterLM) != isinstance(corpus, PTBCharacters):
        msg = (
            f"got {type(module).__name__} on {type(corpus).__name__}, expected sentences of "
            "characters and a model of them together: --model CharacterLM --data PTBCharacters "
            "(--data.name for a folder of your own text)"
        )
        raise ValueError(msg)
    if isinstance(module, TaskModule) and not isinstance(corpus, TextDataModule):
        msg = (
            f"got {type(module).__name__} on {type(corpus).__name__}, which has no labels, "
            "expected a corpus with labels, or --model MaskedLM"
        )
        raise ValueError(msg)
    if isinstance(corpus, TextDataModule) and not isinstance(module, TaskModule):
        msg = (
            f"got {type(module).__name__} on {type(corpus).__name__}, whose texts are apart and "
            "have labels, expected running text: --data RunningText --data.files PATTERNS"
        )
        raise ValueError(msg)
    # A module from a checkpoint keeps its vocabulary.
    tokenizer = module.tokenizer or module.build_tokenizer(corpus.train_texts())
    if isinstance(module, TaskModule) and isinstance(corpus, TextDataModule):
        module.attach(
            tokenizer,
            list(corpus.class_names),
            pairs=corpus.pairs,
            task=corpus.task,
            synonyms=corpus.synonyms,
        )
        if (positive := corpus.positive_class) is not None:
            module.set_positive(positive)
        if isinstance(module, AdversarialTraining):
            module.attach_samples(partial(training_samples, corpus), corpus.text_columns)
    else:
        module.attach_tokenizer(tokenizer)
    if isinstance(corpus, RunningText) and corpus.length > tokenizer.max_length:
        msg = (
            f"got sequences of {corpus.length} tokens (--data.length) for a model of at most "
            f"{tokenizer.max_length} (--model.max_length), expected no more than that"
        )
        raise ValueError(msg)
    if isinstance(corpus, PTBCharacters) and corpus.longest + 2 > tokenizer.max_length:
        msg = (
            f"got sentences of up to {corpus.longest} characters (--data.longest) for a model of "
            f"at most {tokenizer.max_length} tokens (--model.max_length), expected at least 2 more "
            "tokens than characters: one for each end"
        )
        raise ValueError(msg)
    corpus.tokenizer = module.tokenizer


def training_samples(corpus: TextDataModule) -> Mapping[int, TextSample]:
    """Return the labelled training texts of a corpus that is set up, by their ids."""
    return {
        sample_id: TextSample(text, label)
        for sample_id, text, label in labelled_texts(corpus.examples("train"))
    }


def labelled_texts(examples: Iterable[Example]) -> Iterator[tuple[int, Text, int]]:
    """Yield sample id, text and class of all texts and pairs with a class."""
    for example in examples:
        if isinstance(example.label, int) and not isinstance(example.text, Words | Choices):
            yield example.sample_id, example.text, example.label


def require_classifier(model: pl.LightningModule, option: str) -> None:
    """Raise ValueError for a model that classifies nothing."""
    if not isinstance(model, TaskModule):
        advice = (
            "train one on its folder, for example --model UniBERT --model.backbone.pretrained "
            "runs/NAME/backbone"
        )
        if isinstance(model, CharacterLM):
            advice = "its commands are fit, validate, test and predict, which writes text"
        msg = (
            f"got {option} for {type(model).__name__}, which classifies nothing, expected a "
            f"classifier: {advice}"
        )
        raise ValueError(msg)


def require_classification(task: TaskName, command: str) -> None:
    """Raise ValueError unless the task of a model is to give classes to texts or pairs."""
    if task != "classification":
        msg = (
            f"got a model for {task}, expected one that gives a class to a text "
            f"or a pair: that is all that `{command}` is about"
        )
        raise ValueError(msg)
