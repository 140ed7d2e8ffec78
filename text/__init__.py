"""Shared by corpora and modules: tokenizers, vocabulary, the batch, and bounded reading.

A name is imported when it is first used: reading files needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from text.batch import (
        IGNORED,
        Batch,
        Choices,
        Encoding,
        Sample,
        Span,
        TaskName,
        Text,
        WordEncoding,
        Words,
        collate,
        length_batches,
    )
    from text.canonical import CanonicalForm
    from text.character_tokenizer import CharacterTokenizer
    from text.checks import check_choice, check_range
    from text.encoded_words import EncodedWords
    from text.front_end import FrontEnd
    from text.front_end_tokenizer import FrontEndTokenizer
    from text.given import Texts, cuts_unsaid, given_texts, say_cut
    from text.hub_access import hub_reachable
    from text.hugging_face import save_tokenizer
    from text.labels import ClassLabels, FileLabelsError, find_classes, label_text, same_classes
    from text.pretrained_tokenizer import PretrainedTokenizer
    from text.splitmix import hashed
    from text.tokenizer import Tokenizer
    from text.tokenizer_state import tokenizer_from_state
    from text.vocabulary import Vocabulary
    from text.word_piece import train_word_piece
    from text.word_settings import FrontEndSettings, Lemmatizer, WordSettings
    from text.word_splitter import split_words
    from text.word_tokenizer import WordTokenizer

_EXPORTS = {
    "batch": (
        *("IGNORED", "Batch", "Choices", "Encoding", "Sample", "Span", "TaskName", "Text"),
        *("WordEncoding", "Words", "collate", "length_batches"),
    ),
    "canonical": ("CanonicalForm",),
    "character_tokenizer": ("CharacterTokenizer",),
    "checks": ("check_choice", "check_range"),
    "encoded_words": ("EncodedWords",),
    "front_end": ("FrontEnd",),
    "front_end_tokenizer": ("FrontEndTokenizer",),
    "given": ("Texts", "cuts_unsaid", "given_texts", "say_cut"),
    "hub_access": ("hub_reachable",),
    "hugging_face": ("save_tokenizer",),
    "labels": ("ClassLabels", "FileLabelsError", "find_classes", "label_text", "same_classes"),
    "pretrained_tokenizer": ("PretrainedTokenizer",),
    "splitmix": ("hashed",),
    "tokenizer": ("Tokenizer",),
    "tokenizer_state": ("tokenizer_from_state",),
    "vocabulary": ("Vocabulary",),
    "word_piece": ("train_word_piece",),
    "word_settings": ("FrontEndSettings", "Lemmatizer", "WordSettings"),
    "word_splitter": ("split_words",),
    "word_tokenizer": ("WordTokenizer",),
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
