"""Words of corpora that the recipe `unicode` writes so that a detector reads another word.

    python -m benchmarks.unicode_forms [--data_dir DIR] [--corpora SmsSpam ...] [--out FILE]

The canonical form of a text is that of its runs without white space, one after another (but for
letters apart). So each different run of all splits is written in each way of the recipe: all its
words, each alone, and each choice among up to three. A run counts if its form differs then. Forms
are those of `configs/detectors`: `display` alone, and `display`, `leetspeak` and `spaced`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations
from typing import Any

import datamodules
from attacks.document import word_spans
from attacks.recipes import unicode as recipe
from benchmarks.command import command, save, table
from text import CanonicalForm

WAYS = (
    *(recipe.homoglyphs, recipe.zero_width, recipe.marks, recipe.underline, recipe.full_width),
    *(recipe.bidirectional, recipe.upside_down, recipe.tags, recipe.smuggling),
)
FORMS = {
    "display": CanonicalForm(display=True),
    "all": CanonicalForm(display=True, leetspeak=True, spaced=True),
}
POSITIVES = {"SmsSpam": "spam", "PromptInjections": "injection", "HateOffensive": "hate"}
"""The corpora, and the class that is detected."""
KINDS = {
    "other scripts": "",
    "accents": "[À-ÖØ-öø-ſẠ-ỹ]",
    "marks in words": "[‐-―‘-‟′´|\x91-\x97]",
    "single letters": r"(?<!\w)\w[.\-]\w(?!\w)|[@$]\w(?!\w)",
    "others": "",
}
"""Kinds of runs, and what they have: the first that fits."""


def choices(number: int) -> list[tuple[int, ...]]:
    """Return the words that are written otherwise together, of a number of words."""
    if number > 3:
        return [*((index,) for index in range(number)), tuple(range(number))]
    return list(chain(*(combinations(range(number), size) for size in range(1, number + 1))))


def rewrite(run: str) -> Iterator[str]:
    """Yield a run of characters with some of its words written in each way."""
    spans = word_spans(run)
    for way in WAYS:
        for chosen in choices(len(spans)):
            text = run
            for index in reversed(chosen):
                start, end = spans[index]
                text = text[:start] + way(text[start:end]) + text[end:]
            yield text


def find_changed(runs: Iterable[str], form: CanonicalForm) -> list[str]:
    """Return the runs that have another form if some of their words are written otherwise."""
    changed = []
    for run in runs:
        own = form(run)
        if any(form(text) != own for text in rewrite(run)):
            changed.append(run)
    return changed


def kind_of(run: str) -> str:
    """Return the kind of a run: a key of `KINDS`."""
    letters = (char for char in run if not char.isascii() and re.match(r"\w", char))
    if any("LATIN" not in unicodedata.name(char, "") for char in letters):
        return "other scripts"
    fits = (name for name, pattern in KINDS.items() if pattern and re.search(pattern, run))
    return next(fits, "others")


def examine(name: str, data_dir: str | None) -> tuple[Counter[str], list[str]]:
    """Return how often the runs of a corpus occur, and its test texts of the detected class."""
    corpus = getattr(datamodules, name)(data_dir=data_dir)
    for stage in ("fit", "test"):
        corpus.setup(stage)
    splits = [corpus.examples(split) for split in ("train", "validation", "test")]
    positive = corpus.class_names.index(POSITIVES[name])
    detected = [example.text for example in splits[-1] if example.label == positive]
    return Counter(run for rows in splits for row in rows for run in row.text.split()), detected


def row(changed: Sequence[str], runs: Counter[str], detected: Sequence[str]) -> list[int]:
    """Return numbers: runs, changed ones, by kind, their occurrences, and texts that have any."""
    kinds = Counter(map(kind_of, changed))
    texts = sum(not set(text.split()).isdisjoint(changed) for text in detected)
    occurrences = sum(runs[run] for run in changed)
    return [len(runs), len(changed), *(kinds[kind] for kind in KINDS), occurrences, texts]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = command(__doc__, "data_dir", "out")
    parser.add_argument("--corpora", nargs="+", choices=POSITIVES, default=list(POSITIVES))
    options = parser.parse_args(arguments)
    rows: list[list[Any]] = []
    examples: dict[str, list[str]] = {}
    for name in options.corpora:
        runs, detected = examine(name, options.data_dir and str(options.data_dir))
        for title, form in FORMS.items():
            changed = find_changed(runs, form)
            examples[f"{name}, {title}"] = changed
            rows.append([name, title, *row(changed, runs, detected)])
    head = ["corpus", "form", "runs", "changed", *KINDS, "occurrences", "positive test texts"]
    print(table(head, rows))
    save(options.out, {"rows": [dict(zip(head, cells, strict=True)) for cells in rows], **examples})


if __name__ == "__main__":
    main()
