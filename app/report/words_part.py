"""Certificates in words: certified accuracy, and attacks above it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.report.page_parts import FigureCell, estimate_cell, share_cell
from attacks.resources.catalogue import Resources
from attacks.word_sets import find_threat, is_endless
from certify.threats import Threat
from certify.threats.parsing import parse_k
from measure.certificate_records import (
    ConfinedAttack,
    Curve,
    Record,
    SandwichLevel,
    attacks_inside,
    curve,
    format_changes,
    sandwich,
)
from measure.evidence import Evidence, StageRecords
from text.canonical import CanonicalForm
from text.estimates import wilson
from text.word_settings import WordSettings


@dataclass(frozen=True)
class LayerRow:
    """A number of changes: the certified accuracy of all texts, and the attacks with as many."""

    k: str
    certified: FigureCell
    attacks: Sequence[str]
    below: FigureCell | None  # certified accuracy of the texts that all these attacks have
    attacked: FigureCell | None  # accuracy of these texts under the attacks; None without attacks


@dataclass(frozen=True)
class ThreatCertificates:
    """The certificates of one `certify --threat`."""

    name: str
    accuracy: FigureCell  # without changes
    curve: Curve  # the certified accuracy over the changes
    statement: str
    remarks: Sequence[str]
    rows: Sequence[LayerRow]  # one for each number of changes
    broken: Sequence[int]  # ids of samples that an attack has changed inside their certificate
    texts: int

    @property
    def attacked(self) -> LayerRow | None:
        """The row of the most changes that has attacks."""
        return next((row for row in reversed(self.rows) if row.attacks), None)

    def certified(self, k: str) -> FigureCell | None:
        """Return the certified accuracy for a number of changes; None if it was not measured."""
        return next((row.certified for row in self.rows if row.k == k), None)


def changes_of(certificates: Sequence[ThreatCertificates]) -> dict[str, str]:
    """Return all numbers of changes by their titles, from few to many."""
    ks = {parse_k(row.k) for one in certificates for row in one.rows}
    names = map(format_changes, sorted(ks, key=lambda k: (k is None, k or 0)))
    return {"all words" if k == "all" else f"k = {k}": k for k in names}


def threat_certificates(evidence: Evidence) -> Iterator[ThreatCertificates]:
    """Yield the certificates in words on the test split."""
    for stage, measured in evidence.in_words.items():
        settings, records = measured.settings, measured.records
        ks = [parse_k(k) for k in settings["k"]]
        attacks, reason = _attacks(evidence, measured)
        layers = sandwich(attacks, records, ks)
        yield ThreatCertificates(
            name=stage.removeprefix("certify_"),
            accuracy=estimate_cell(wilson(sum(map(_is_right, records)), len(records))),
            curve=curve(records, ks),
            statement=settings["threat"]["statement"],
            remarks=[*_describe(measured), *([reason] if reason else [])],
            rows=[_row(layer, records) for layer in layers],
            broken=sorted({sample for layer in layers for sample in layer.broken}),
            texts=len(records),
        )


def _describe(measured: StageRecords) -> Iterator[str]:
    kinds = Counter(record["kind"] for record in measured.records)
    yield ", ".join(f"{kind}: {count:,} texts" for kind, count in kinds.most_common())
    confidences = {r["confidence"] for r in measured.records if "confidence" in r}
    if confidences:
        least = min(confidences)
        yield f"each with confidence {least:g}, of the smoothed classifier around the model"
    elif "bound" in (measured.settings.get("around") or {}):
        yield "by a formula as printed, which guarantees nothing"
    elif measured.settings.get("around"):
        yield "of the model behind an encoding of words"
    cut = sum(record["cut"] for record in measured.records)
    if cut:
        yield f"{cut} texts are longer than the model reads"


def _attacks(evidence: Evidence, measured: StageRecords) -> tuple[list[ConfinedAttack], str]:
    """Return the attacks inside the threat, and why none is comparable."""
    # Smoothing or an encoding certifies another classifier than the attacked one.
    if around := measured.settings.get("around"):
        formula = "the formula guarantees nothing"
        reason = formula if "bound" in around else "these are on the model itself"
        return [], f"not compared with attacks: {reason}"
    if not evidence.attacks:
        return [], ""
    try:
        threat = _threat(measured.settings)
    except OSError as error:
        return [], f"not compared with attacks: {error.filename} cannot be read ({error.strerror})"
    except ValueError as error:
        return [], f"not compared with attacks: {' '.join(str(error).split())}"
    names = {attack.name for attack in evidence.attacks}
    inside = attacks_inside(evidence.run, threat, "test")
    return [attack for attack in inside if attack.name in names], ""


def _threat(settings: Mapping[str, Any]) -> Threat:
    """Return the threat of some certificates; an error where its lists are lost or have changed."""
    if (source := settings.get("threat_from")) is None:
        msg = "an earlier version has certified these texts, and has not said which words they have"
        raise ValueError(msg)
    lists, name = source["lists"], source.get("sets") or settings["threat"]["name"]
    # The digest is about the lists; k does not change it.
    k = None if is_endless(name) else 0
    words = WordSettings(
        split=source["words"],
        front_end=source.get("front_end", "none"),
        canonical=CanonicalForm(**source.get("canonical", {})),
    )
    resources = _resources(source.get("resources"))
    threat = find_threat(name, lists=lists, k=k, words=words, resources=resources)
    if threat.digest != settings["threat"]["digest"]:
        msg = f"{lists or name} has other lists than those of the certificates"
        raise ValueError(msg)
    return threat


@lru_cache(maxsize=1)
def _resources(folder: str | None) -> Resources:
    # Read once for all sets of a run, and all runs of a site: WordNet takes half a second.
    return Resources(folder)


def _is_right(record: Record) -> bool:
    return bool(record["prediction"] == record["label"])


def _row(layer: SandwichLevel, records: Sequence[Record]) -> LayerRow:
    hits = sum(_is_right(record) and record["holds"][layer.k] for record in records)
    # `below` and `attacked` are about the same texts: those that all these attacks have.
    below, attacked = (
        None if layer.attacked is None else share_cell(share, layer.samples)
        for share in (layer.certified, layer.attacked)
    )
    certified = estimate_cell(wilson(hits, len(records)))
    return LayerRow(layer.k, certified, layer.attacks, below, attacked)


def contradiction(certificates: ThreatCertificates) -> str:
    """Return the sentence about certificates that an attack contradicts."""
    broken = certificates.broken
    samples = ", ".join(map(str, broken[:10]))
    more = f" and {len(broken) - 10} more" if len(broken) > 10 else ""
    return (
        f"an attack has changed {len(broken)} of {certificates.texts:,} texts inside their "
        f"certificate in words ({certificates.name}: samples {samples}{more})"
    )
