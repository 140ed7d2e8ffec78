"""The texts of a run as JSON, for the explorer of the page."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app.report.page_parts import LONGEST, changes, shorten
from app.report.text_facts import TextFacts
from attacks.document import word_spans
from measure.attack_report import class_name, columns
from run_files.terminal import harmless

BYTES = 1_500_000
"""Most bytes of the texts of a page: browsers must open it, and people must be able to mail it."""
_FAINT = 0.05
"""Smallest weight of a shaded word: less cannot be seen."""
SCRIPT = (Path(__file__).parent / "explorer.js").read_text(encoding="utf-8")


class Explorer(NamedTuple):
    """The texts of a run: JSON that is safe inside of a `script` element, and its counts."""

    content: str
    texts: int
    total: int
    shaded: bool = False  # True if words of a text have weights


def explorer(
    texts: Sequence[TextFacts], class_names: Sequence[str], broken: set[int], most: int = BYTES
) -> Explorer | None:
    """Return the texts in the order of their interest, as many as `most` bytes hold.

    First those that an attack has changed inside their certificate (`broken`), then changed ones
    by their share of changed words, wrong ones and the rest; None without any stored text.
    """
    stored = [text for text in texts if text.text is not None]
    if not stored:
        return None
    rows, size = [], 0
    for text in sorted(stored, key=lambda text: _interest(text, broken)):
        row = _dump(_row(text, class_names, text.sample_id in broken))
        size += len(row.encode())
        if size > most:
            break
        rows.append(row)
    head = {
        "attacks": list(dict.fromkeys(name for text in stored for name in text.attacks)),
        "sets": list(dict.fromkeys(name for text in stored for name in text.certificates)),
    }
    content = f'{{"head":{_dump(head)},"rows":[{",".join(rows)}]}}'
    return Explorer(content, len(rows), len(texts), any('"shaded":' in row for row in rows))


def _dump(content: Any) -> str:
    # No text can end the script element.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _interest(text: TextFacts, broken: set[int]) -> tuple[bool, bool, float, bool, int]:
    successes = [record for record in text.attacks.values() if record.outcome == "succeeded"]
    share = min((r.words_changed / max(1, r.words) for r in successes), default=0.0)
    inside = text.sample_id not in broken
    return inside, not successes, share, text.right, text.sample_id


def _row(text: TextFacts, names: Sequence[str], broken: bool) -> Mapping[str, Any]:
    attacks, sets = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, record in text.attacks.items():
        item = {"name": name, "outcome": record.outcome, "queries": record.queries}
        if record.outcome == "succeeded" and record.adversarial is not None:
            item["class"] = harmless(class_name(record.adversarial_prediction, names))
            item["words"] = [record.words_changed, record.words]
            item["parts"] = _parts(columns(record.text), columns(record.adversarial))
        attacks.append(item)
    for name, certificate in text.certificates.items():
        item = {"name": name, "certified": certificate["certified"]}
        if certificate["witness"] is not None and text.right:
            item["class"] = harmless(certificate["witness_class"])
            item["parts"] = _parts([certificate["text"]], [certificate["witness"]])
        sets.append(item)
    row = {
        "id": text.sample_id,
        "label": harmless(class_name(text.label, names)),
        "class": harmless(class_name(text.prediction, names)),
        "right": text.right,
        "text": shorten(text.text or ""),
        "attacks": attacks,
        "sets": sets,
        "shaded": _shade(text),
        "probability": None if text.confidence is None else round(text.confidence, 3),
        "radius": None if text.radius is None else round(text.radius, 3),
        "broken": broken or None,
    }
    return {name: value for name, value in row.items() if value is not None}


def _shade(text: TextFacts) -> list[str | list[str | float]] | None:
    """Return the text in parts: words with weights from -1 to 1, and the characters between.

    The weight is the salience of the first attack that has stored one; None without it.
    """
    content = text.text or ""
    spans = word_spans(content)
    weights = next((r.salience for r in text.attacks.values() if r.salience is not None), None)
    # An attack with other words, or a text that is not shown whole.
    if weights is None or len(weights) != len(spans) or len(content) > LONGEST:
        return None
    largest = max((abs(weight) for weight in weights if weight is not None), default=0.0)
    parts, end = list[str | list[str | float]](), 0
    for (start, stop), weight in zip(spans, weights, strict=True):
        share = round((weight or 0.0) / largest, 2) if largest else 0.0
        if abs(share) >= _FAINT:
            parts += [harmless(content[end:start]), [harmless(content[start:stop]), share]]
            end = stop
    return [*parts, harmless(content[end:])]


def _parts(before: Sequence[str], after: Sequence[str]) -> list[str | list[str]]:
    """Return the parts of a changed text: kept ones as strings, others as old and new."""
    return [
        shorten(part.new) if part.old == part.new else [shorten(part.old), shorten(part.new)]
        for part in changes("\n".join(before), "\n".join(after))
    ]
