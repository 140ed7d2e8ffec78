"""Shared by corpora and modules: tokenizers, vocabulary, the batch, and bounded reading.

What is named here is loaded when it is used: reading files needs no torch.
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
    from text.character_tokenizer import CharacterTokenizer
    from text.checks import check_choice, check_range
    from text.encoded_words import EncodedWords
    from text.given import Texts, cuts_unsaid, given_texts, say_cut
    from text.hub_access import hub_reachable
    from text.hugging_face import save_tokenizer
    from text.labels import (
        ClassLabels,
        FileLabelsError,
        find_classes,
        label_text,
        same_classes,
    )
    from text.pretrained_tokenizer import PretrainedTokenizer
    from text.splitmix import hashed
    from text.tokenizer import Tokenizer
    from text.tokenizer_state import tokenizer_from_state
    from text.vocabulary import Vocabulary
    from text.word_piece import train_word_piece
    from text.word_settings import Lemmatizer, WordSettings
    from text.word_splitter import split_words
    from text.word_tokenizer import WordTokenizer

_HOMES = {
    "IGNORED": "batch",
    "Batch": "batch",
    "CharacterTokenizer": "character_tokenizer",
    "Choices": "batch",
    "ClassLabels": "labels",
    "EncodedWords": "encoded_words",
    "Encoding": "batch",
    "FileLabelsError": "labels",
    "Lemmatizer": "word_settings",
    "PretrainedTokenizer": "pretrained_tokenizer",
    "Sample": "batch",
    "Span": "batch",
    "TaskName": "batch",
    "Text": "batch",
    "Texts": "given",
    "Tokenizer": "tokenizer",
    "Vocabulary": "vocabulary",
    "WordEncoding": "batch",
    "WordSettings": "word_settings",
    "WordTokenizer": "word_tokenizer",
    "Words": "batch",
    "check_choice": "checks",
    "check_range": "checks",
    "collate": "batch",
    "cuts_unsaid": "given",
    "find_classes": "labels",
    "given_texts": "given",
    "hashed": "splitmix",
    "hub_reachable": "hub_access",
    "label_text": "labels",
    "length_batches": "batch",
    "same_classes": "labels",
    "save_tokenizer": "hugging_face",
    "say_cut": "given",
    "split_words": "word_splitter",
    "tokenizer_from_state": "tokenizer_state",
    "train_word_piece": "word_piece",
}

__all__ = [
    "IGNORED",
    "Batch",
    "CharacterTokenizer",
    "Choices",
    "ClassLabels",
    "EncodedWords",
    "Encoding",
    "FileLabelsError",
    "Lemmatizer",
    "PretrainedTokenizer",
    "Sample",
    "Span",
    "TaskName",
    "Text",
    "Texts",
    "Tokenizer",
    "Vocabulary",
    "WordEncoding",
    "WordSettings",
    "WordTokenizer",
    "Words",
    "check_choice",
    "check_range",
    "collate",
    "cuts_unsaid",
    "find_classes",
    "given_texts",
    "hashed",
    "hub_reachable",
    "label_text",
    "length_batches",
    "same_classes",
    "save_tokenizer",
    "say_cut",
    "split_words",
    "tokenizer_from_state",
    "train_word_piece",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"text.{_HOMES[name]}"), name)
