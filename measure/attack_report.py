"""Print attacks: the table, and pairs of texts with marks at the changed words."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, NamedTuple

from rapidfuzz.distance import Levenshtein

from attacks.document import word_spans
from attacks.outcome import AttackRecord
from attacks.summary import table, wins
from attacks.task_goals import Label
from run_files.terminal import harmless
from text import Text
from text.estimates import markdown_table
from text.plural import plural

if TYPE_CHECKING:
    from attacks.interface import Outcome

_RED, _GREEN, _PLAIN = "\x1b[1;31m", "\x1b[1;32m", "\x1b[0m"
_EXAMPLES = 5
"""Number of pairs in TensorBoard."""


class Piece(NamedTuple):
    """A part of a text: `changed` for a word that the other text lacks at this position."""

    text: str
    changed: bool


def compare(original: str, adversarial: str) -> tuple[list[Piece], list[Piece]]:
    """Split both texts, and mark the words that a minimal edit script changes."""
    spans = word_spans(original), word_spans(adversarial)
    words = [
        [text[start:end] for start, end in word_ranges]
        for text, word_ranges in zip((original, adversarial), spans, strict=True)
    ]
    changed: tuple[set[int], set[int]] = set(), set()
    # On words, not on characters: a marked piece is always a full word.
    for code in Levenshtein.opcodes(*words):
        if code.tag != "equal":
            changed[0].update(range(code.src_start, code.src_end))
            changed[1].update(range(code.dest_start, code.dest_end))
    return _pieces(original, spans[0], changed[0]), _pieces(adversarial, spans[1], changed[1])


def _pieces(text: str, spans: Sequence[tuple[int, int]], changed: set[int]) -> list[Piece]:
    pieces, position = [], 0
    for i, (start, end) in enumerate(spans):
        if i in changed:
            # The separators between words are never marked.
            pieces += [Piece(text[position:start], False), Piece(text[start:end], True)]
            position = end
    pieces.append(Piece(text[position:], False))
    return [piece for piece in pieces if piece.text]


def columns(text: Text) -> tuple[str, ...]:
    """Return the one or two texts of a sample."""
    return (text,) if isinstance(text, str) else tuple(text)


def pairs(record: AttackRecord) -> list[tuple[list[Piece], list[Piece]]]:
    """Split the clean and the attacked texts of a sample; equal if it was not attacked."""
    after = record.text if record.adversarial is None else record.adversarial
    both = zip(columns(record.text), columns(after), strict=True)
    return [compare(before, changed) for before, changed in both]


def colours(stream: IO[str]) -> bool:
    """Return True for a terminal whose user wants colours (https://no-color.org)."""
    # A dumb terminal prints escape codes as text.
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def example_lines(
    outcome: "Outcome", count: int, names: Sequence[str], *, colour: bool
) -> Iterator[str]:
    """Yield the first adversarial pairs as lines for a terminal.

    Changed words are red in the clean and green in the adversarial text; in brackets without
    colours.
    """
    successes = [record for record in outcome.records if record.outcome == "succeeded"][:count]
    for record in successes:
        yield harmless(f"\n{headline(record, names)}")
        for before, after in pairs(record):
            yield f"  - {mark(before, new=False, colour=colour)}"
            yield f"  + {mark(after, new=True, colour=colour)}"


def headline(record: AttackRecord, names: Sequence[str]) -> str:
    """Describe the result of a sample in a line."""
    classes = class_name(record.prediction, names)
    if record.adversarial_prediction is not None and record.outcome == "succeeded":
        classes += f" -> {class_name(record.adversarial_prediction, names)}"
    parts = [
        f"sample {record.sample_id}: {classes}",
        f"{record.words_changed} of {record.words} words",
        plural(record.queries, "query"),
    ]
    if record.recipe is not None:
        parts.append(f"by {record.recipe}")
    if record.similarity is not None:
        parts.append(f"similarity {record.similarity:.3f}")
    return ", ".join(parts)


def class_name(index: Label | None, names: Sequence[str]) -> str:
    """Return the name of a class; a question mark if the prediction was invalid.

    Numbers, sets of classes and tags are their own names.
    """
    if index is None:
        return "?"
    if isinstance(index, tuple):
        return " ".join(index) or "none"
    if isinstance(index, float):
        return f"{index:.4g}"
    return names[index] if 0 <= index < len(names) else str(index)


def mark(pieces: Sequence[Piece], *, new: bool, colour: bool) -> str:
    """Return a text as a line for a terminal, with its changed words in colour or brackets."""
    # `flat` escapes the text: the terminal gets only the codes of this file.
    begin, end = (_GREEN if new else _RED, _PLAIN) if colour else ("[", "]")
    return join_pieces(pieces, begin, end, flat)


def join_pieces(
    pieces: Sequence[Piece], begin: str, end: str, escape: Callable[[str], str] = str
) -> str:
    """Return a text with signs around its changed words; `escape` is for its own parts."""
    parts = ((escape(piece.text), piece.changed) for piece in pieces)
    return "".join(f"{begin}{text}{end}" if changed else text for text, changed in parts)


def flat(text: str) -> str:
    """Return a text on one line, without control characters."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


def example_table(outcome: "Outcome", names: Sequence[str]) -> str:
    """Return some adversarial pairs as a Markdown table, for TensorBoard."""
    rows = []
    successes = [record for record in outcome.records if record.outcome == "succeeded"]
    for record in successes[:_EXAMPLES]:
        sides = zip(*pairs(record), strict=True)
        clean, adversarial = (
            " / ".join(join_pieces(pieces, "**", "**", _escaped) for pieces in side)
            for side in sides
        )
        rows.append((_escaped(headline(record, names)), clean, adversarial))
    return markdown_table(("sample", "clean", "adversarial"), rows)


def _escaped(text: str) -> str:
    """Escape a text for Markdown and HTML."""
    return "".join(
        # TensorBoard renders Markdown with HTML: both kinds of markup are escaped.
        f"&#{ord(character)};" if character in "&<>|*_`[]()#\\!~" else character
        for character in flat(text)
    )


def report(
    outcomes: "Mapping[str, Outcome]",
    names: Sequence[str],
    *,
    show: int = 0,
    title: str,
    notes: Sequence[str] = (),
    stream: IO[str] | None = None,
) -> str:
    """Return the table to print at the end, after `show` pairs of each attack.

    `names` are those of the classes, `notes` are lines below the table; `stream`, by default
    standard output, decides on colours.
    """
    colour = colours(stream or sys.stdout)
    lines: list[str] = []
    for name, outcome in outcomes.items() if show else ():
        lines += [f"\n{name}", *example_lines(outcome, show, names, colour=colour)]
    samples = {outcome.summary.samples for outcome in outcomes.values()}
    count = " / ".join(str(number) for number in sorted(samples)[:-1])
    count += (" / " if count else "") + plural(max(samples, default=0), "sample")
    lines.append(harmless(f"\n{title}: {count}, 95 % intervals below each figure"))
    lines.append(table({name: outcome.summary for name, outcome in outcomes.items()}))
    lines += filter(None, (wins(name, outcome.records) for name, outcome in outcomes.items()))
    return "\n".join([*lines, *map(harmless, notes)])
