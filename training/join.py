"""Joins a corpus and a module."""

import logging
from collections.abc import Mapping
from functools import partial

import pytorch_lightning as pl

from datamodules import Corpus, PTBCharacters, RunningText, TextDataModule
from datamodules.labelled_texts import labelled_texts
from lit_modules import AdversarialTraining, CharacterLM, TaskModule, TextModule, unused_settings
from lit_modules.adversaries import TextSample

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
            synonyms=corpus.own_synonyms,
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
