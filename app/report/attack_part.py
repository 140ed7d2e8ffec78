"""Attacks that change words: what they cost, which classes and words they change."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rapidfuzz.distance import Levenshtein

from app.report.page_parts import shorten
from app.report.report_pictures import Panel, PanelLine, Picture, attacks_picture, panels_picture
from attacks.document import words_of
from attacks.outcome import AttackRecord
from measure.attack_report import columns
from measure.evidence import AttackEvidence, Evidence
from measure.labelled_predictions import confusion

_WORDS = 12
"""Rows of the table of changed words."""
_LEAST = 2
"""Texts in which a word of that table was changed."""


class ClassMoves(NamedTuple):
    """The predictions of the texts of an attack: `[C, C]` counts before and after it."""

    attack: str
    names: Sequence[str]
    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]


class WordRow(NamedTuple):
    """A word, the texts in which attacks had to change it, and the most frequent new forms."""

    word: str
    changed: int
    texts: int
    became: Sequence[str]


class AttackPart(NamedTuple):
    """The part of the page about the attacks on a run; no picture without accuracies."""

    picture: Picture | None
    costs: Picture | None
    moves: Sequence[ClassMoves]
    words: Sequence[WordRow]


def attack_part(evidence: Evidence, number: int) -> AttackPart | None:
    """Return the part about the attacks on a run; None without any."""
    attacks = evidence.attacks
    if not attacks:
        return None
    breaking = [attack for attack in attacks if attack.breaks]
    return AttackPart(
        picture=attacks_picture(f"attacks-{number}", breaking) if breaking else None,
        costs=_costs(breaking, number) if breaking else None,
        moves=[
            moves(attack, evidence)
            for attack in attacks
            if all(isinstance(record.label, int) for record in attack.records)
        ],
        words=changed_words(breaking),
    )


def _valid(attack: AttackEvidence) -> list[AttackRecord]:
    return [record for record in attack.records if record.outcome != "error"]


def remaining(
    records: Sequence[AttackRecord], costs: Mapping[int, float]
) -> tuple[list[float], list[float]]:
    """Return the accuracy that is left for each budget: rising costs, and the heights from them on.

    `records` have no errors; `costs` are those of the successes, by the id of the sample.
    """
    right = sum(record.right for record in records)
    xs, ys = [0.0], [right / len(records)]
    for cost, count in sorted(Counter(costs.values()).items()):
        right -= count
        xs.append(float(cost))
        ys.append(right / len(records))
    return xs, ys


def _costs(attacks: Sequence[AttackEvidence], number: int) -> Picture:
    panels, ends = [], []
    for title, label, cost in (
        ("By changed words", "changed words", "words_changed"),
        ("By queries", "queries for a text", "queries"),
    ):
        curves = []
        for attack in attacks:
            records = _valid(attack)
            # A success on a text that was misclassified anyway costs no accuracy.
            costs = {
                record.sample_id: float(getattr(record, cost))
                for record in records
                if record.outcome == "succeeded" and record.right
            }
            curves.append((attack.name, *remaining(records, costs)))
        last = max(xs[-1] for _, xs, _ in curves) * 1.05 + 1
        # The last height holds for every larger budget.
        lines = [
            PanelLine(name, [*xs, last], [*ys, ys[-1]], colour, step=True)
            for colour, (name, xs, ys) in enumerate(curves)
        ]
        panels.append(Panel(title, lines, label))
        ends += [
            f"{name}: {ys[0]:.3f} to {ys[-1]:.3f} at {xs[-1]:g} {label}" for name, xs, ys in curves
        ]
    alt = f"Accuracy that is left over the cost of the attacks. {'; '.join(ends)}."
    return panels_picture(f"costs-{number}", panels, alt=alt, top=1.02, width=3.4)


def moves(attack: AttackEvidence, evidence: Evidence) -> ClassMoves:
    """Count the predictions of the texts of an attack, before and after it."""
    labels: list[Any] = []
    before: list[int] = []
    after: list[int] = []
    for record in _valid(attack):
        if record.prediction is not None:
            labels.append(record.label)
            before.append(record.prediction)
            moved = record.outcome == "succeeded" and record.adversarial_prediction is not None
            after.append(record.adversarial_prediction if moved else record.prediction)
    size = max([len(evidence.class_names), *(1 + index for index in (*labels, *before, *after))])
    names = [evidence.class_name(i) for i in range(size)]
    return ClassMoves(
        attack.name, names, confusion(labels, before, size), confusion(labels, after, size)
    )


def changed_words(attacks: Sequence[AttackEvidence]) -> list[WordRow]:
    """Return the words that successful attacks have changed in the most texts.

    A text counts once for each attack; `texts` are the attacked texts that have the word.
    """
    changed: Counter[str] = Counter()
    present: Counter[str] = Counter()
    became: dict[str, Counter[str]] = defaultdict(Counter)
    for attack in attacks:
        for record in filter(lambda record: record.attacked, attack.records):
            words = words_of("\n".join(columns(record.text)))
            present.update(set(words))
            if record.outcome != "succeeded" or record.adversarial is None:
                continue
            others = words_of("\n".join(columns(record.adversarial)))
            pairs: set[tuple[str, str]] = set()
            for code in Levenshtein.opcodes(words, others):
                if code.tag == "equal":
                    continue
                new = " ".join(others[code.dest_start : code.dest_end]) or "(deleted)"
                old = words[code.src_start : code.src_end]
                # Several neighbours at once: each has become the part at its own position.
                alike = len(old) == code.dest_end - code.dest_start
                pairs.update(zip(old, new.split(" ") if alike else [new] * len(old), strict=True))
            changed.update({word for word, _ in pairs})
            for word, replacement in pairs:
                became[word][replacement] += 1
    ranked = sorted(
        changed, key=lambda word: (-changed[word], -changed[word] / present[word], word)
    )
    return [
        WordRow(
            shorten(word),
            changed[word],
            present[word],
            [shorten(new) for new, _ in became[word].most_common(3)],
        )
        for word in ranked[:_WORDS]
        if changed[word] >= _LEAST
    ]
