"""Likely mistakes in texts and labels, which a training would not refuse."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from datamodules.sources.text_table import is_numeric
from text.labels import find_classes
from text.plural import plural

MAJORITY = 0.7
"""Share of the rows from which one class is too frequent for accuracy to say much."""
_FEW = 10
"""Rows below which a class is too small to learn or to measure."""
_SMALL = 100
"""Rows below which figures on the drawn test rows are hardly more than chance."""
_LONG = 1000
"""Words above which a text is cut by most models."""
_SHOWN = 5
_ABSENT = {"-1", "-", "?", "none", "null", "nan", "na", "n/a", "unknown"}
"""Labels, in lower case, that often mark a row without label."""
_MARKUP = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?/?>|&(?:amp|lt|gt|quot|nbsp|#\d+);")
_MISREAD = re.compile("Ã[\x80-\xbf\u0152-\u2122]|â€|\ufffd")
"""UTF-8 that another program has read as Latin-1, or could not read."""
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060\ufeff\x00-\x08\x0e-\x1f]")
_JOINED = re.compile(r"\s*[|;,+/]\s*")
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")


def text_mistakes(texts: Sequence[str]) -> list[str]:
    """Return likely mistakes in texts, each a sentence with its number of texts."""
    mistakes = []
    everything = " ".join(texts)
    patterns = [(_MARKUP, "HTML", "a model would learn the tags: remove them first")]
    if not everything.isascii():
        advice = "write the file anew from its source"
        patterns.append((_MISREAD, "characters of a wrong encoding", advice))
    if not everything.isprintable():
        patterns.append((_INVISIBLE, "invisible characters", "remove them"))
    for pattern, name, advice in patterns:
        # Most files have none: one search is ten times faster than one for each text.
        if pattern.search(everything) is None:
            continue
        first = next((match for text in texts if (match := pattern.search(text))), None)
        if first is not None:
            count = sum(pattern.search(text) is not None for text in texts)
            mistakes.append(f"{_count(count)} {name} ({first[0]!a:.40}): {advice}")
    long = sum(len(text) > _LONG and text.count(" ") >= _LONG for text in texts)
    if long:
        mistakes.append(
            f"{_count(long)} more than {_LONG:,} words: a model reads the first "
            "`--model.max_length` tokens"
        )
    quoted = sum(text[0] == text[-1] == '"' and len(text) > 1 for text in texts)
    if quoted > len(texts) / 2:
        mistakes.append(
            f"{_count(quoted)} double quotes around them, which are part of a text between tabs: "
            "rename the file to .csv if they are not meant"
        )
    return mistakes


def label_mistakes(counts: Mapping[str, int]) -> list[str]:
    """Return likely mistakes in the labels of a classification, from the rows of each label."""
    mistakes = []
    total = sum(counts.values())
    classes = [label for label in counts if label.casefold() not in _ABSENT]
    absent = [label for label in counts if label not in classes]
    if absent and len(classes) > 1:
        rows = ", ".join(f"{counts[label]:,} rows have the label {label!r}" for label in absent)
        names = json.dumps(find_classes(classes), ensure_ascii=False)
        names = names if len(classes) <= 2 * _SHOWN else "[...]"
        mistakes.append(
            f"{rows}: it counts as a class; to leave out such rows, pass `--data.classes "
            f"'{names}' --data.on_bad_row skip`"
        )
    name, most = max(counts.items(), key=lambda item: item[1])
    if most >= MAJORITY * total:
        mistakes.append(
            f"{most / total:.0%} of the rows are {name!r}: a model that always predicts it has "
            "this accuracy, so look at macro-F1 (`--checkpoint.monitor val/macro_f1`)"
        )
    few = [f"{label!r} {rows}" for label, rows in counts.items() if 1 < rows < _FEW]
    if few:
        more = f" and {len(few) - _SHOWN} more" if len(few) > _SHOWN else ""
        mistakes.append(
            f"classes with fewer than {_FEW} rows: {', '.join(few[:_SHOWN])}{more}: add rows, or "
            "unite classes"
        )
    if total < _SMALL:
        mistakes.append(f"{total} rows with a label: figures on the test rows will be uncertain")
    return mistakes + _spelling(counts) + _numbers(counts)


def _spelling(counts: Mapping[str, int]) -> list[str]:
    """Return labels that differ in case alone, and those that join several others."""
    folded = Counter(label.casefold() for label in counts)
    alike = [label for label in counts if folded[label.casefold()] > 1]
    mistakes = []
    if alike:
        mistakes.append(f"labels differ in case alone: {', '.join(map(repr, alike[:_SHOWN]))}")
    parts = {label: _JOINED.split(label) for label in counts}
    joined = [label for label, names in parts.items() if len(names) > 1 and {*names} <= {*counts}]
    if joined:
        rows = sum(counts[label] for label in joined)
        mistakes.append(
            f"{rows:,} rows have several labels in one, such as {joined[0]!r}: each combination "
            "counts as a class; write one label in each row"
        )
    return mistakes


def _numbers(counts: Mapping[str, int]) -> list[str]:
    """Return labels that are numbers rather than classes."""
    labels = list(counts)
    if all(map(_DECIMAL_COMMA.fullmatch, labels)):
        return [
            f"the labels are numbers with a decimal comma ({labels[0]}): each counts as a class; "
            "write them with a point"
        ]
    if len(labels) > _FEW and all(map(is_numeric, labels)):
        least, most = min(map(float, labels)), max(map(float, labels))
        return [
            f"the labels are {len(labels)} whole numbers from {least:g} to {most:g}: each counts "
            "as a class; if they are grades, pass `--data.task regression`"
        ]
    return []


def row_hints(problems: Sequence[str]) -> list[str]:
    """Return the likely cause of rows that could not be read."""
    hints = []
    fields = sum(" fields, expected " in problem for problem in problems)
    if fields:
        hints.append(
            f"{plural(fields, 'row')} with another number of fields than the header: a text with "
            "the separator in it needs double quotes around it (not between tabs)"
        )
    bytes_ = [problem for problem in problems if "is not UTF-8" in problem]
    if bytes_:
        hints.append(
            f"{plural(len(bytes_), 'row')} in another encoding than UTF-8, which others have: "
            "`--data.encoding latin-1` reads all, but spells the others wrongly"
        )
    return hints


def _count(number: int) -> str:
    return f"{number:,} {'text has' if number == 1 else 'texts have'}"
