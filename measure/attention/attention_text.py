"""Encodes the text of the command line for a model, and its tokens as readable text."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from lit_modules.shared.task_module import TaskModule
from text import Batch, Choices, Sample, Text, Tokenizer, Words, collate
from text.plural import plural

_WIDEST = 16
"""Largest number of displayed characters of a token."""


@dataclass(frozen=True, kw_only=True)
class EncodedSample:
    """The input of a model.

    Attributes:
        batch: one row, or for multiple choice one for each choice.
        tokens: tokens of each row as readable text.
        words: for tagging, the words that are not cut off.
        starts: position of the first token of each of them.
        cut: True if the text is longer than the model reads.
    """

    batch: Batch
    tokens: list[list[str]]
    words: tuple[str, ...]
    starts: tuple[int, ...]
    cut: bool


def sample_of(classifier: TaskModule, text: str, pairs: Sequence[str]) -> Sample:
    """Make the input of a model from texts; for tagging, spaces separate the words of the text.

    `pairs` is the second text of a pair, the choices of a multiple choice, or nothing.

    Raises:
        ValueError: an empty text, or more or fewer texts than the model reads.
    """
    if not text.strip() or not all(pair.strip() for pair in pairs):
        msg = "got a text without a single word, expected words in --text and --text_pair"
        raise ValueError(msg)
    task, names = classifier.task.name, classifier.class_names or []
    expected = len(names) if task == "choice" else int(classifier.pairs)
    if len(pairs) != expected:
        advice = {
            0: "single texts, expected --text alone",
            1: "pairs of texts, expected --text and the second text as --text_pair",
        }
        choices = f"multiple choice, expected --text and {expected} choices after --text_pair"
        kind = advice.get(expected, choices)
        msg = f"got {plural(len(pairs), 'text')} as --text_pair for a model of {kind}"
        raise ValueError(msg)
    if task == "choice":
        return Choices(text, tuple(pairs))
    if task == "tagging":
        return Words(tuple(text.split()))
    return (text, pairs[0]) if pairs else text


def encode(classifier: TaskModule, sample: Sample) -> EncodedSample:
    """Encode a sample in the same way as the corpora."""
    tokenizer = classifier.require_tokenizer()
    words: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    if isinstance(sample, Words):
        # Tagging: the tokenizer must know the borders of words.
        (worded,) = tokenizer.encode_words([sample])
        encodings, starts = [worded.encoding], worded.starts
        words = sample.words[: len(starts)]
        tokens = [_pieces(tokenizer, sample, starts, worded.encoding.input_ids)]
    else:
        texts: list[Text] = [*sample.pairs] if isinstance(sample, Choices) else [sample]
        encodings = tokenizer.encode(texts)
        tokens = [
            _readable(tokenizer, text, encoding.input_ids)
            for text, encoding in zip(texts, encodings, strict=True)
        ]
    batch = collate(
        encodings, pad_id=tokenizer.pad_id, pairs=classifier.pairs, choices=len(encodings)
    )
    return EncodedSample(
        batch=batch.to(classifier.device),
        tokens=tokens,
        words=words,
        starts=starts,
        cut=any(encoding.truncated for encoding in encodings),
    )


def _names(tokenizer: Tokenizer) -> dict[int, str]:
    """Return the names of special tokens, for example [CLS]."""
    definition = json.loads(tokenizer.state().get("definition", "{}"))
    return {token["id"]: str(token["content"]) for token in definition.get("added_tokens", ())}


def _readable(tokenizer: Tokenizer, text: Text, ids: Sequence[int]) -> list[str]:
    """Return the characters of each token, or its name."""
    parts, names = (text,) if isinstance(text, str) else text, _names(tokenizer)
    # A special token has an empty span.
    (spans,) = tokenizer.spans([text])
    tokens = []
    for token, span, before in zip(ids, spans, [None, *spans], strict=False):
        part = parts[span.text]
        label = _shorten(part[span.start : span.end]) or names.get(token, _SPACE)
        # The previous token ends where this one begins.
        inside = before is not None and (before.text, before.end) == (span.text, span.start)
        if inside and 0 < span.start < span.end and part[span.start - 1 : span.start + 1].isalnum():
            label = f"{_INSIDE}{label}"
        tokens.append(label)
    return tokens


def _pieces(
    tokenizer: Tokenizer, words: Words, starts: Sequence[int], ids: Sequence[int]
) -> list[str]:
    """Return the characters of each token of separate words, as far as they are known."""
    names = _names(tokenizer)
    tokens = [names.get(token, "") for token in ids]
    # The tokenizer adds special tokens after the last word.
    last = len(ids)
    while starts and last > starts[-1] + 1 and tokens[last - 1]:
        last -= 1
    for word, start, end in zip(words.words, starts, [*starts[1:], last], strict=False):
        alone = tokenizer.spans([word])[0]
        parts = [word[span.start : span.end].strip() for span in alone if span.end > span.start]
        if len(parts) != end - start:
            # The word is cut off, or has other pieces after a space than alone.
            parts = [word, *["…"] * (end - start - 1)]
        tokens[start:end] = [
            _shorten(part) if i == 0 else f"{_INSIDE}{_shorten(part)}"
            for i, part in enumerate(parts)
        ]
    return [token or _SPACE for token in tokens]


_SPACE = "␣"
"""A single space, which is a token of some tokenizers."""
_INSIDE = "##"
"""Prefix of a token inside a word, as in BERT."""


def _shorten(characters: str) -> str:
    text = characters.strip()
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def same_tokenizer(first: Tokenizer, second: Tokenizer) -> bool:
    """Return True if two tokenizers are equal but for the maximum length."""
    # A longer maximum changes no token of a short text.
    states = [{**tokenizer.state(), "max_length": None} for tokenizer in (first, second)]
    return states[0] == states[1]
