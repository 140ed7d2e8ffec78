"""The text of the command line as a model reads it, and its tokens as people do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from lit_modules.shared.task_module import TaskModule
from text import Batch, Choices, Sample, Text, Tokenizer, Words, collate

_WIDEST = 16
"""Characters of a token that are shown."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A sample as a model reads it.

    Attributes:
        batch: it alone: one row, or for multiple choice one for each choice.
        tokens: tokens of each row.
        words: whole, for tagging; those that are not cut off.
        starts: place of the first token of each of them.
        cut: True if the text is longer than the model reads.
    """

    batch: Batch
    tokens: list[list[str]]
    words: tuple[str, ...]
    starts: tuple[int, ...]
    cut: bool


def sample_of(classifier: TaskModule, text: str, pairs: Sequence[str]) -> Sample:
    """Make the input of a model from texts.

    Args:
        classifier: the model.
        text: the text; for tagging its words are what stands between spaces.
        pairs: the second text of a pair, the choices of a multiple choice, or nothing.

    Raises:
        ValueError: an empty text, or texts of another number than the model reads.
    """
    if not text.strip() or not all(pair.strip() for pair in pairs):
        msg = "got a text without a single word, expected words in --text and --text_pair"
        raise ValueError(msg)
    task, names = classifier.task.name, classifier.class_names or []
    wanted = len(names) if task == "choice" else int(classifier.pairs)
    if len(pairs) != wanted:
        advice = {
            0: "single texts, expected --text alone",
            1: "pairs of texts, expected --text and the second text as --text_pair",
        }.get(wanted, f"multiple choice, expected --text and {wanted} choices after --text_pair")
        msg = f"got {len(pairs)} texts as --text_pair for a model of {advice}"
        raise ValueError(msg)
    if task == "choice":
        return Choices(text, tuple(pairs))
    if task == "tagging":
        return Words(tuple(text.split()))
    return (text, pairs[0]) if pairs else text


def read(classifier: TaskModule, sample: Sample) -> Reading:
    """Encode a sample as the corpora do.

    Args:
        classifier: the model.
        sample: see `sample_of`.
    """
    tokenizer = classifier.require_tokenizer()
    words: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    if isinstance(sample, Words):
        (worded,) = tokenizer.encode_words([sample])
        encodings, starts = [worded.encoding], worded.starts
        words = sample.words[: len(starts)]
        tokens = [_pieces(tokenizer, sample, starts, worded.encoding.input_ids)]
    else:
        texts: list[Text] = [*sample.pairs] if isinstance(sample, Choices) else [sample]
        encodings = tokenizer.encode(texts)
        tokens = [
            _shown(tokenizer, text, encoding.input_ids)
            for text, encoding in zip(texts, encodings, strict=True)
        ]
    batch = collate(
        encodings,
        pad_id=tokenizer.pad_id,
        pairs=classifier.pairs,
        choices=len(encodings),
    )
    return Reading(
        batch=batch.to(classifier.device),
        tokens=tokens,
        words=words,
        starts=starts,
        cut=any(encoding.truncated for encoding in encodings),
    )


def _names(tokenizer: Tokenizer) -> dict[int, str]:
    """The names of special tokens, for example [CLS]."""
    definition = json.loads(tokenizer.state().get("definition", "{}"))
    return {token["id"]: str(token["content"]) for token in definition.get("added_tokens", ())}


def _shown(tokenizer: Tokenizer, text: Text, ids: Sequence[int]) -> list[str]:
    """The characters of each token, or its name."""
    parts, names = (text,) if isinstance(text, str) else text, _names(tokenizer)
    (spans,) = tokenizer.spans([text])
    tokens = []
    for token, span, before in zip(ids, spans, [None, *spans], strict=False):
        part = parts[span.text]
        shown = _brief(part[span.start : span.end]) or names.get(token, _SPACE)
        inside = before is not None and (before.text, before.end) == (span.text, span.start)
        if inside and 0 < span.start < span.end and part[span.start - 1 : span.start + 1].isalnum():
            shown = f"{_GOES_ON}{shown}"
        tokens.append(shown)
    return tokens


def _pieces(
    tokenizer: Tokenizer, words: Words, starts: Sequence[int], ids: Sequence[int]
) -> list[str]:
    """The same where words are given: what stands in each, as far as that can be told."""
    names = _names(tokenizer)
    tokens = [names.get(token, "") for token in ids]
    # Behind the last word stands what the tokenizer adds.
    last = len(ids)
    while starts and last > starts[-1] + 1 and tokens[last - 1]:
        last -= 1
    for word, start, end in zip(words.words, starts, [*starts[1:], last], strict=False):
        alone = tokenizer.spans([word])[0]
        parts = [word[span.start : span.end].strip() for span in alone if span.end > span.start]
        if len(parts) != end - start:
            # Cut off, or behind a space it has other pieces than alone.
            parts = [word, *["…"] * (end - start - 1)]
        tokens[start:end] = [
            _brief(part) if i == 0 else f"{_GOES_ON}{_brief(part)}" for i, part in enumerate(parts)
        ]
    return [token or _SPACE for token in tokens]


_SPACE = "␣"
"""A space alone, which some tokenizers have as a token."""
_GOES_ON = "##"
"""Before what goes on within a word, as BERT writes it."""


def _brief(characters: str) -> str:
    shown = characters.strip()
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 1]}…"


def same_tokenizer(first: Tokenizer, second: Tokenizer) -> bool:
    """True if both split texts alike and have the same words; the maximum length may differ."""
    states = [{**one.state(), "max_length": None} for one in (first, second)]
    return states[0] == states[1]
