"""Joins all records of a run text by text, and compares groups of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from app.report.clean_part import has_logits, is_labelled
from app.report.page_parts import FigureCell, estimate_cell
from app.report.report_pictures import Picture, radii_picture
from attacks.document import count_words
from attacks.outcome import AttackRecord
from measure.attack_report import columns
from measure.evidence import Evidence
from measure.labelled_predictions import confidence
from run_files.sample_records import Record
from text.estimates import mean, wilson

_GROUPS = 4
"""Groups of texts by length, of about equal size."""


@dataclass
class TextFacts:
    """The records of one text of the test split; None where no record has it."""

    sample_id: int
    label: int
    prediction: int  # of the clean text
    text: str | None = None
    confidence: float | None = None  # probability of the prediction
    radius: float | None = None
    tokens: int | None = None  # number of those that the model reads
    certificates: dict[str, Record] = field(default_factory=dict)  # in words, by their names
    attacks: dict[str, AttackRecord] = field(default_factory=dict)  # by their names

    @property
    def right(self) -> bool:
        """True if the clean text is predicted as its class."""
        return self.label == self.prediction


def join_texts(evidence: Evidence) -> list[TextFacts]:
    """Return the labelled texts of a run, by sample; empty for other tasks than classification.

    Only records of the same rows are joined.
    """
    if not evidence.classifies:
        return []
    texts: dict[int, TextFacts] = {}
    first_rows: list[str] = []

    def add(record: Record, rows: str | None, text: str | None = None) -> TextFacts | None:
        """Return the text of a record; None if the record is of other rows."""
        if rows and not first_rows:
            first_rows.append(rows)
        # Older records have no digest: they are of the test split.
        if rows not in (None, *first_rows):
            return None
        sample = record["sample_id"]
        new = TextFacts(sample, record["label"], record["prediction"])
        facts = texts.setdefault(sample, new)
        facts.text = text if facts.text is None else facts.text
        return facts

    parts = (evidence.predictions, evidence.certificates, evidence.pgd)
    for part in (part for part in parts if part is not None and is_labelled(part.records)):
        for record in part.records:
            if (facts := add(record, part.rows)) is not None:
                if has_logits(record):
                    facts.confidence = confidence(record["logits"])
                facts.radius = record.get("radius", facts.radius)
                facts.tokens = record.get("tokens", facts.tokens)
    for stage, measured in evidence.in_words.items():
        for record in measured.records:
            if (facts := add(record, measured.rows, record["text"])) is not None:
                facts.certificates[stage.removeprefix("certify_")] = record
    for attack in (attack for attack in evidence.attacks if attack.of_test):
        valid = (r for r in attack.records if r.prediction is not None and r.outcome != "error")
        for attacked in valid:
            text = "\n".join(columns(attacked.text))
            if (facts := add(attacked.line(), attack.rows, text)) is not None:
                facts.attacks[attack.name] = attacked
    return [texts[sample] for sample in sorted(texts)]


class GroupRow(NamedTuple):
    """Figures of a group of texts; None where they were not measured."""

    name: str
    texts: int
    accuracy: FigureCell | None
    attacked: FigureCell | None
    certified: FigureCell | None
    radius: FigureCell | None


class GroupPart(NamedTuple):
    """The part of the page about groups of texts, with its titles of columns."""

    groups: Mapping[str, Sequence[GroupRow]]
    attack: str
    threat: str
    picture: Picture | None


def group_part(evidence: Evidence, texts: Sequence[TextFacts], number: int) -> GroupPart | None:
    """Return the figures of the texts by class and by length; None without any."""
    if not texts:
        return None
    words = {t.sample_id: count_words(t.text) for t in texts if t.text is not None}
    tokens = {t.sample_id: t.tokens for t in texts if t.tokens is not None}
    # Radii store no texts, but a length of each.
    unit, lengths = ("words", words) if len(words) >= len(tokens) else ("tokens", tokens)
    grouped = {"class": by_class(evidence, texts), f"{unit} of the text": by_length(texts, lengths)}
    grouped = {title: groups for title, groups in grouped.items() if len(groups) > 1}
    attacks = [attack for attack in evidence.attacks if attack.of_test and attack.breaks]
    # A blind attack is not the strongest, however low its figure.
    ranked = sorted(attacks, key=lambda a: (a.summary.unreliable, a.summary.accuracy.value))
    attack = ranked[0].name if ranked else ""
    # The set with the fewest certified texts allows the most.
    threats = {name for text in texts for name in text.certificates}
    threat = min(
        sorted(threats), key=lambda name: sum(_held(text, name) for text in texts), default=""
    )
    radii = {title: _radii(groups) for title, groups in grouped.items()}
    radii = {title: groups for title, groups in radii.items() if groups}
    return GroupPart(
        groups={
            title: [_row(name, group, attack, threat) for name, group in groups.items()]
            for title, groups in grouped.items()
        },
        attack=attack,
        threat=threat,
        picture=radii_picture(f"radii-{number}", radii) if radii else None,
    )


def by_class(evidence: Evidence, texts: Sequence[TextFacts]) -> dict[str, list[TextFacts]]:
    """Return the texts of each class."""
    groups: dict[str, list[TextFacts]] = {}
    for text in sorted(texts, key=lambda text: text.label):
        groups.setdefault(evidence.class_name(text.label), []).append(text)
    return groups


def by_length(texts: Sequence[TextFacts], lengths: Mapping[int, int]) -> dict[str, list[TextFacts]]:
    """Return groups of about equal size of the texts whose length is known, by their id."""
    if not lengths:
        return {}
    inner = np.quantile(list(lengths.values()), np.linspace(0, 1, _GROUPS + 1)[1:-1])
    members: list[list[TextFacts]] = [[] for _ in range(_GROUPS)]
    for text in texts:
        if text.sample_id in lengths:
            members[int(np.searchsorted(inner, lengths[text.sample_id]))].append(text)
    groups = {}
    for group in filter(None, members):
        counts = [lengths[text.sample_id] for text in group]
        low, high = min(counts), max(counts)
        groups[str(low) if low == high else f"{low} to {high}"] = group
    return groups


def _held(text: TextFacts, threat: str) -> bool:
    record = text.certificates.get(threat)
    return record is not None and text.right and record["certified"] == "all"


def _row(name: str, group: Sequence[TextFacts], attack: str, threat: str) -> GroupRow:
    attacked = [text.attacks[attack].outcome != "succeeded" and text.right
                for text in group if attack in text.attacks]  # fmt: skip
    certified = [_held(text, threat) for text in group if threat in text.certificates]
    radii = [text.radius if text.right else 0.0 for text in group if text.radius is not None]
    accuracy, attack_accuracy, certified_accuracy = (
        estimate_cell(wilson(sum(hits), len(hits))) if hits else None
        for hits in ([text.right for text in group], attacked, certified)
    )
    radius = estimate_cell(mean(radii)) if radii else None
    return GroupRow(name, len(group), accuracy, attack_accuracy, certified_accuracy, radius)


def _radii(groups: Mapping[str, Sequence[TextFacts]]) -> dict[str, list[float]]:
    # Wrong predictions have no certificate of their class.
    radii = {
        name: [t.radius for t in group if t.radius is not None and t.right]
        for name, group in groups.items()
    }
    return {name: own for name, own in radii.items() if own}
